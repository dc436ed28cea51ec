// Package integration tests packages changefeed and cosmos over the store and the server.
// They are in a package of their own, so that a module that imports these packages has no
// storage engine in its go.sum.
package integration

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// pagesSource is a source that returns a fixed number of pages at once. All pages share
// their changes. So a benchmark over it measures the processor alone.
type pagesSource struct {
	feed.Source
	page  []feed.Change
	pages int64
}

func (s *pagesSource) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	var at int64
	if r.From.Kind() == feed.StartContinuation {
		if _, err := fmt.Sscan(string(r.From.Continuation()), &at); err != nil {
			return feed.Page{}, err
		}
	}
	if at >= s.pages {
		select {
		case <-time.After(r.Wait):
		case <-ctx.Done():
			return feed.Page{}, ctx.Err()
		}
		return feed.Page{Continuation: position(at)}, nil
	}
	return feed.Page{Changes: s.page, Continuation: position(at + 1), Bytes: 1024 * len(s.page)}, nil
}

func position(at int64) feed.Continuation { return feed.Continuation(fmt.Sprint(at)) }

// consume runs a processor until its handler, which does nothing, has received n changes.
// It reports the changes per second and the allocations per change.
func consume(b *testing.B, cfg changefeed.Config, n int64) {
	b.Helper()
	var handled atomic.Int64
	done := make(chan struct{})
	var once sync.Once
	cfg.Handler = changefeed.HandlerFunc(func(_ context.Context, batch *changefeed.Batch) error {
		if handled.Add(int64(len(batch.Changes))) >= n {
			once.Do(func() { close(done) })
		}
		return nil
	})
	cfg.Logger = slog.New(slog.DiscardHandler)
	p, err := changefeed.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.StartTimer()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	<-done
	b.StopTimer()
	runtime.ReadMemStats(&after)
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(n), "allocs/change")
}

func perSecond(b *testing.B, n int64) {
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "changes/s")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/change")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkProcessor measures the processor alone, without metrics and with them. Its
// source and its leases cost almost nothing.
func BenchmarkProcessor(b *testing.B) {
	const partitions, changes = 4, 2_000_000
	for _, c := range []struct {
		items    int
		measured bool
	}{{100, false}, {100, true}, {1000, false}, {1000, true}} {
		items := c.items
		var metrics metric.MeterProvider
		name := fmt.Sprintf("page=%d", items)
		if c.measured {
			metrics = sdk.NewMeterProvider(sdk.WithReader(sdk.NewManualReader()))
			name += "/metrics"
		}
		b.Run(name, func(b *testing.B) {
			source := &pagesSource{Source: memory.NewSource(memory.Options{Partitions: 4}), page: make([]feed.Change, items)}
			source.pages = changes / partitions / int64(items)
			b.StopTimer()
			for range b.N {
				consume(b, changefeed.Config{
					Processor: "bench", Source: source, Leases: memory.NewLeases(nil), Start: feed.Beginning(),
					MaxItems: items, Checkpoint: changefeed.Checkpointing{Interval: time.Second}, Metrics: metrics,
				}, changes)
			}
			perSecond(b, changes)
		})
	}
}

// BenchmarkProcessorOverStore measures a processor over the embedded store. The store
// holds the leases and documents of 1 KB in 4 partitions. The documents are written first
// and are in the store's cache. -cpu 1 gives the figure of one core.
func BenchmarkProcessorOverStore(b *testing.B) {
	const documents = 100_000
	db, source := loadedStore(b, documents)
	run := 0
	for _, c := range []struct {
		name  string
		items int
		every changefeed.Checkpointing
	}{
		{"page=1000/checkpoint=1s", 1000, changefeed.Checkpointing{Interval: time.Second}},
		{"page=100/checkpoint=batch", 100, changefeed.Checkpointing{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			leases, err := db.Container(b.Context(), "bench", "leases")
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			for range b.N {
				run++
				consume(b, changefeed.Config{
					Processor: fmt.Sprintf("bench-%d", run), Source: source, Leases: db.Leases(leases),
					Start: feed.Beginning(), MaxItems: c.items, Checkpoint: c.every,
				}, documents)
			}
			perSecond(b, documents)
		})
	}
}

// loadedStore returns a store with the given number of documents, and a source of them.
// They have been read once, so they are in the store's cache.
func loadedStore(b *testing.B, documents int) (*store.DB, feed.Source) {
	b.Helper()
	db, err := store.Open(b.TempDir(), store.Options{Memory: 512 << 20})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	ctx := b.Context()
	if _, err := db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "bench"}); err != nil {
		b.Fatal(err)
	}
	if _, err := db.CreateContainer(ctx, "bench", storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}}); err != nil {
		b.Fatal(err)
	}
	items, err := db.CreateContainer(ctx, "bench", storetype.ContainerProperties{ID: "items", KeyPaths: []string{"/id"}, Partitions: 4})
	if err != nil {
		b.Fatal(err)
	}
	load(b, items, documents)
	source := db.Source(items)
	partitions, err := source.Partitions(ctx)
	if err != nil {
		b.Fatal(err)
	}
	for _, p := range partitions {
		warm(b, source, p)
	}
	return db, source
}

func load(b *testing.B, items *store.Container, documents int) {
	b.Helper()
	padding := fmt.Sprintf("%0850d", 0)
	var next atomic.Int64
	var writers sync.WaitGroup
	for range 64 {
		writers.Go(func() {
			for n := next.Add(1); n <= int64(documents); n = next.Add(1) {
				doc := fmt.Appendf(nil, `{"id":"%d","padding":"%s"}`, n, padding)
				if _, err := items.Upsert(b.Context(), nil, doc, storetype.WriteOptions{}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
}

func warm(b *testing.B, source feed.Source, p feed.Partition) {
	b.Helper()
	from := feed.Beginning()
	for {
		page, err := source.Read(b.Context(), feed.Request{Partition: p, From: from, MaxItems: 1000})
		if err != nil {
			b.Fatal(err)
		}
		if len(page.Changes) == 0 {
			return
		}
		from = feed.After(page.Continuation)
	}
}

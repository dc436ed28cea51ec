package cosmos_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/race"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// The tests in this file measure the requests of a processor with default settings, and
// the delay from a write to the handler. They print the figures of docs/performance.md
// and check that each is within its bounds.

var figures = flag.Bool("figures", false, "also measure latencies in real time")

// tally is a number of requests with the sum of their charges in request units.
type tally struct {
	n  int
	ru float64
}

func (c tally) add(other tally) tally { return tally{c.n + other.n, c.ru + other.ru} }

func (c tally) String() string { return fmt.Sprintf("%d requests, %.0f RU", c.n, c.ru) }

// ledger counts the requests of several transports, by the kind that kindOf returns.
type ledger struct {
	mu     sync.Mutex // guards counts
	counts map[string]tally
}

// counted is a transport to one server that adds its requests to the ledger.
type counted struct {
	*http.Client
	ledger *ledger
}

func (c counted) Do(r *http.Request) (*http.Response, error) {
	kind := kindOf(r)
	res, err := c.Client.Do(r)
	if err != nil {
		return nil, err
	}
	charge, err := strconv.ParseFloat(res.Header.Get(wire.HeaderRequestCharge), 64)
	if err != nil {
		charge = 0 // responses for metadata have no charge
	}
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	c.ledger.counts[kind] = c.ledger.counts[kind].add(tally{1, charge})
	return res, nil
}

func kindOf(r *http.Request) string {
	switch {
	case r.Header.Get(wire.HeaderAIM) != "" && strings.HasSuffix(r.URL.Path, "/docs"):
		return "feed reads"
	case strings.Contains(r.Header.Get("Content-Type"), "query"):
		return "lease listings"
	case r.Method == http.MethodPut:
		return "lease writes"
	}
	return "others"
}

// take returns the counts and sets them to zero.
func (l *ledger) take() map[string]tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := l.counts
	l.counts = map[string]tally{}
	return counts
}

// figureScene is a running processor with default settings. It monitors a container of
// several partitions. Its lease container is in another account.
type figureScene struct {
	ledger  *ledger
	items   *store.Container
	keys    []string // one key of each partition
	handled *latencies
}

// latencies is a handler that records the time from the write of each document to its
// delivery.
type latencies struct {
	mu      sync.Mutex // guards the fields below
	written map[string]time.Time
	took    []time.Duration
}

func (l *latencies) wrote(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written[id] = time.Now()
}

func (l *latencies) Handle(_ context.Context, b *changefeed.Batch) error {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range b.Changes {
		id, err := b.Changes[i].ID()
		if err != nil {
			return err
		}
		l.took = append(l.took, now.Sub(l.written[id]))
	}
	return nil
}

// take returns the recorded times, sorted, and forgets them.
func (l *latencies) take() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	took := l.took
	l.took = nil
	slices.Sort(took)
	return took
}

func (l *latencies) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.took)
}

// percentile returns the time that a share part of the sorted times does not exceed. part
// is between 0 and 1.
func percentile(sorted []time.Duration, part float64) time.Duration {
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

const figurePartitions = 4

// newFigureContainer creates a container and finds a key for each of its partitions.
func newFigureContainer(t *testing.T, db *store.DB) (c *store.Container, keys []string) {
	t.Helper()
	c = changefeedtest.NewContainer(t, db, "db", storetype.ContainerProperties{ID: "items", KeyPaths: []string{"/pk"}, Partitions: figurePartitions})
	for i := 0; len(keys) < figurePartitions; i++ {
		key := "key-" + strconv.Itoa(i)
		if _, err := c.Upsert(t.Context(), nil, document(key, "probe"), storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		filled := 0
		parts, err := c.Partitions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			page, err := db.Source(c).Read(t.Context(), feed.Request{Partition: p, From: feed.Beginning()})
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Changes) > 0 {
				filled++
			}
		}
		if filled > len(keys) {
			keys = append(keys, key)
		}
	}
	return c, keys
}

// document returns a document of 1 KB.
func document(key, id string) []byte {
	return fmt.Appendf(nil, `{"id":%q,"pk":%q,"text":%q}`, id, key, strings.Repeat("x", 800))
}

// write writes a document with the key and id, and records the time of the write.
func (s *figureScene) write(t *testing.T, key, id string) {
	t.Helper()
	s.handled.wrote(id)
	if _, err := s.items.Upsert(t.Context(), nil, document(key, id), storetype.WriteOptions{}); err != nil {
		t.Error(err)
	}
}

// runs runs a processor with default settings and handler h until the end of the test.
func runs(t *testing.T, source feed.Source, leases lease.Container, h changefeed.Handler) {
	t.Helper()
	cfg := changefeed.Config{Processor: "figures", Source: source, Leases: leases, Handler: h}
	changefeedtest.Seed(&cfg, 1)
	p, err := changefeed.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func newFigureScene(t *testing.T) *figureScene {
	t.Helper()
	monitored, leases := changefeedtest.NewServer(t), changefeedtest.NewServer(t)
	leaseContainer(t, leases)
	s := &figureScene{ledger: &ledger{counts: map[string]tally{}}, handled: &latencies{written: map[string]time.Time{}}}
	s.items, s.keys = newFigureContainer(t, monitored.DB)
	reach := func(srv *changefeedtest.Server) *cosmos.Account {
		return account(t, srv, cosmos.Options{ClientOptions: azcore.ClientOptions{Transport: counted{srv.Client(), s.ledger}}})
	}
	runs(t, reach(monitored).Source("db", "items", cosmos.SourceOptions{}), reach(leases).Leases("db", "leases", cosmos.LeaseOptions{}), s.handled)
	return s
}

// pass waits for d and returns the requests that were sent meanwhile.
func (s *figureScene) pass(d time.Duration) map[string]tally {
	s.ledger.take()
	time.Sleep(d)
	synctest.Wait()
	return s.ledger.take()
}

// within checks that n is between least and most. what names the number in messages.
func within(t *testing.T, what string, n int, least, most float64) {
	t.Helper()
	if got := float64(n); got < least || got > most {
		t.Errorf("%s: %d requests; want %.0f to %.0f", what, n, least, most)
	}
}

// costs fails the test if a charge differs from the documented one by more than 5 %.
func costs(t *testing.T, what string, got, documented float64) {
	t.Helper()
	if got < documented*0.95 || got > documented*1.05 {
		t.Errorf("%s costs %.0f RU; docs/performance.md says %.0f", what, got, documented)
	}
}

// TestFigureIdleLeaseHour checks that an idle lease costs only its renewals and its empty
// reads, and a host its listings. The .NET processor reads a lease before each renewal,
// every 17 s, and lists every 13 s.
func TestFigureIdleLeaseHour(t *testing.T) {
	if race.Enabled {
		t.Skip("counts requests, which the race detector cannot judge")
	}
	synctest.Test(t, func(t *testing.T) {
		s := newFigureScene(t)
		time.Sleep(10 * time.Minute)
		got := s.pass(time.Hour)
		writes, reads, lists := got["lease writes"], got["feed reads"], got["lease listings"]
		per := func(c tally) string {
			return fmt.Sprintf("%d requests, %.0f RU", c.n/figurePartitions, c.ru/figurePartitions)
		}
		t.Logf("per idle lease-hour: renewals %s; feed reads %s", per(writes), per(reads))
		t.Logf("per host-hour, with %d leases: listings %s", figurePartitions, lists)
		renewal := writes.ru / float64(writes.n)
		t.Logf(".NET's processor by its intervals, at the same charges: renewals %d requests, %.0f RU (reads of 1 RU and writes of %.1f); listings %d",
			2*3600/17, 3600/17*(1+renewal), renewal, 3600/13)
		within(t, "renewals of an hour", writes.n, figurePartitions*3600/13, figurePartitions*3600/13*1.12)
		within(t, "feed reads of an hour", reads.n, 1, figurePartitions*3600/5*1.02)
		// docs/performance.md derives these charges.
		if renewal < 10.66 || renewal > 10.68 {
			t.Errorf("a renewal costs %.2f RU; want 224/21", renewal)
		}
		costs(t, "an idle lease-hour", (writes.ru+reads.ru)/figurePartitions, 3_833)
		costs(t, "an idle host-hour", lists.ru, 637)
		within(t, "listings of an hour", lists.n, 3600/17*0.9, 3600/17*1.12)
		within(t, "other requests of an hour", got["others"].n, 0, 3*3600/300) // only the accounts' regions are read, every five minutes
	})
}

// TestFigureThousandChanges checks that a page costs one read and one checkpoint of one
// request. The .NET processor needs three requests for a checkpoint: a write with an old
// ETag, a read, and a write.
func TestFigureThousandChanges(t *testing.T) {
	if race.Enabled {
		t.Skip("counts requests, which the race detector cannot judge")
	}
	synctest.Test(t, func(t *testing.T) {
		s := newFigureScene(t)
		time.Sleep(10 * time.Minute)
		s.handled.take()
		s.ledger.take()
		for i := range 1000 {
			s.write(t, s.keys[i%figurePartitions], "burst-"+strconv.Itoa(i))
		}
		for range 100 {
			if s.handled.count() == 1000 {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		burst := s.ledger.take()
		if n := len(s.handled.take()); n != 1000 {
			t.Fatalf("%d of 1,000 changes are handled, within 10 s", n)
		}
		pages := figurePartitions * 3 // three pages of at most 100 changes in each partition
		t.Logf("1,000 changes of 1 KB at once, %d pages: feed reads %s; checkpoints %s (.NET: %d requests)", pages, burst["feed reads"], burst["lease writes"], 3*pages)
		// Zero to four renewals may fall into these seconds. They are no part of the figure.
		checkpoint := burst["lease writes"].ru / float64(burst["lease writes"].n)
		costs(t, "a burst of 1,000 changes", burst["feed reads"].ru+float64(pages)*checkpoint, 266)
		within(t, "checkpoints of a burst", burst["lease writes"].n, float64(pages), float64(pages+figurePartitions))
		within(t, "reads of a burst", burst["feed reads"].n, float64(pages), float64(pages+figurePartitions*12))

		s.ledger.take()
		began := time.Now()
		for i := range 250 {
			for n, key := range s.keys {
				s.write(t, key, fmt.Sprintf("drip-%d-%d", i, n))
				time.Sleep(time.Second / figurePartitions)
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		drip := s.ledger.take()
		took := s.handled.take()
		if len(took) != 1000 {
			t.Fatalf("%d of 1,000 changes are handled", len(took))
		}
		t.Logf("1,000 changes of 1 KB, one a second per partition (%s): feed reads %s; checkpoints %s; write to handler p50 %s, p99 %s (network and service take no time)",
			time.Since(began).Round(time.Second), drip["feed reads"], drip["lease writes"], percentile(took, 0.5), percentile(took, 0.99))
		if p99 := percentile(took, 0.99); p99 > time.Second {
			t.Errorf("at one write a second p99 from write to handler is %s; want at most 1 s", p99)
		}
		costs(t, "1,000 changes one by one", drip["feed reads"].ru+drip["lease writes"].ru, 15_068)
		within(t, "checkpoints of a drip", drip["lease writes"].n, 500, 1000+figurePartitions)
	})
}

// TestFigureLatency measures in real time from the answer to a write to the handler, over
// loopback HTTP and in process. Each of four partitions gets one write a second.
func TestFigureLatency(t *testing.T) {
	if race.Enabled {
		t.Skip("counts requests, which the race detector cannot judge")
	}
	if !*figures {
		t.Skip("it takes two minutes: -figures")
	}
	const seconds = 50
	measure := func(t *testing.T, db *store.DB, source func(c *store.Container) feed.Source, leases func() lease.Container) []time.Duration {
		items, keys := newFigureContainer(t, db)
		s := &figureScene{items: items, keys: keys, handled: &latencies{written: map[string]time.Time{}}}
		runs(t, source(items), leases(), s.handled)
		tick := time.NewTicker(time.Second / figurePartitions)
		defer tick.Stop()
		warm := 10 * figurePartitions
		for i := range warm + seconds*figurePartitions {
			<-tick.C
			if i == warm {
				s.handled.take()
			}
			s.write(t, keys[i%figurePartitions], "w-"+strconv.Itoa(i))
		}
		<-time.After(3 * time.Second)
		return s.handled.take()
	}
	report := func(t *testing.T, took []time.Duration, most time.Duration) {
		t.Logf("write to handler, %d writes at one a second per partition: p50 %s, p99 %s, most %s", len(took),
			percentile(took, 0.5).Round(10*time.Microsecond), percentile(took, 0.99).Round(10*time.Microsecond), took[len(took)-1].Round(10*time.Microsecond))
		if p99 := percentile(took, 0.99); p99 > most {
			t.Errorf("p99 is %s; the bar is %s", p99, most)
		}
	}
	t.Run("loopback HTTP", func(t *testing.T) {
		db, a := loopback(t)
		report(t, measure(t, db, func(*store.Container) feed.Source { return a.Source("db", "items", cosmos.SourceOptions{}) },
			func() lease.Container { return a.Leases("db", "leases", cosmos.LeaseOptions{Create: true}) }), time.Second)
	})
	t.Run("in process", func(t *testing.T) {
		db := changefeedtest.NewStore(t)
		report(t, measure(t, db, func(c *store.Container) feed.Source { return db.Source(c) }, func() lease.Container {
			return db.Leases(changefeedtest.NewContainer(t, db, "db", storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}}))
		}), 10*time.Millisecond)
	})
}

package estimator_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// world is a monitored container and the lease container of its processor. The test uses
// them in the process or over the protocol. LSNs begin at 1, and each transaction has the
// next one.
type world struct {
	t      *testing.T
	items  *store.Container
	source *watched
	leases lease.Container
	ctx    context.Context

	// These fields are set by lagging only.
	db      *store.DB
	account *cosmos.Account
}

// newWorld returns a world whose monitored container has the given number of partitions.
// If remote is true, it is used over the protocol.
func newWorld(t *testing.T, partitions int, remote bool) *world {
	t.Helper()
	w := &world{t: t, ctx: context.WithoutCancel(t.Context())}
	var db *store.DB
	var server *changefeedtest.Server
	if remote {
		server = changefeedtest.NewServer(t)
		db = server.DB
	} else {
		db = changefeedtest.NewStore(t)
	}
	w.items = changefeedtest.NewContainer(t, db, "db", storetype.ContainerProperties{ID: "items", KeyPaths: []string{"/pk"}, Partitions: partitions})
	leases := changefeedtest.NewContainer(t, db, "db", storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	if !remote {
		w.source, w.leases = &watched{Source: db.Source(w.items)}, db.Leases(leases)
		return w
	}
	var o cosmos.Options
	o.Transport = server.Client()
	account, err := cosmos.WithKey(server.Endpoint, server.Key, o)
	if err != nil {
		t.Fatal(err)
	}
	w.source, w.leases = &watched{Source: account.Source("db", "items", cosmos.SourceOptions{})}, account.Leases("db", "leases", cosmos.LeaseOptions{})
	return w
}

// write commits n transactions, each with one document.
func (w *world) write(n int) {
	w.t.Helper()
	for i := range n {
		doc := fmt.Appendf(nil, `{"id":"%d","pk":"%d"}`, i, i)
		if _, err := w.items.Upsert(w.ctx, nil, doc, storetype.WriteOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// estimator returns an estimator of the processor "projector".
func (w *world) estimator(cfg estimator.Config) *estimator.Estimator {
	w.t.Helper()
	cfg.Processor, cfg.Source, cfg.Leases = "projector", w.source, w.leases
	e, err := estimator.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// report returns the report of one measurement.
func (w *world) report() estimator.Report {
	w.t.Helper()
	r, err := w.estimator(estimator.Config{}).Report(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// open returns the lease store of the processor "projector".
func (w *world) open() lease.Store {
	w.t.Helper()
	identity, err := w.source.Identity(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := w.leases.Open(w.ctx, lease.Key{Processor: "projector", Identity: identity})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// create creates the given leases of the processor "projector".
func (w *world) create(leases ...lease.Lease) {
	w.t.Helper()
	s := w.open()
	for _, l := range leases {
		if _, err := s.Create(w.ctx, l); err != nil {
			w.t.Fatal(err)
		}
	}
}

// processor runs the processor "projector" with handler h until stop is called.
func (w *world) processor(h changefeed.Handler) (stop func()) {
	w.t.Helper()
	cfg := changefeed.Config{
		Processor: "projector", Source: w.source.Source, Leases: w.leases, Instance: "host", Start: feed.Beginning(), Handler: h,
	}
	changefeedtest.Seed(&cfg, 1)
	p, err := changefeed.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
}

// taken is a handler that accepts every batch.
var taken = changefeed.HandlerFunc(func(context.Context, *changefeed.Batch) error { return nil })

// watched is a source that records the requests. If the test sets answer, it returns the
// result of answer instead of reading.
type watched struct {
	feed.Source

	mu         sync.Mutex // guards all fields
	reads      []feed.Request
	partitions int
	under, top int // concurrent reads, and their maximum
	answer     func(feed.Request) (feed.Page, error)
}

// Read implements [feed.Source].
func (w *watched) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	w.mu.Lock()
	w.reads = append(w.reads, r)
	w.under++
	w.top = max(w.top, w.under)
	answer := w.answer
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.under--
		w.mu.Unlock()
	}()
	if answer != nil {
		return answer(r)
	}
	return w.Source.Read(ctx, r)
}

// Partitions implements [feed.Source].
func (w *watched) Partitions(ctx context.Context) ([]feed.Partition, error) {
	w.mu.Lock()
	w.partitions++
	w.mu.Unlock()
	return w.Source.Partitions(ctx)
}

// whole returns a lease of partition 0, which holds all keys, at the position at.
func whole(at feed.Continuation) lease.Lease {
	return lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full(), Continuation: at}
}

// both runs the test two times: in the process and over the protocol.
func both(t *testing.T, test func(t *testing.T, remote bool)) {
	for name, remote := range map[string]bool{"in the process": false, "over the protocol": true} {
		t.Run(name, func(t *testing.T) { bubble(t, func(t *testing.T) { test(t, remote) }) })
	}
}

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// counter is a handler that counts the deliveries of each document. It owns a monitored
// container with three partitions, and a container for leases in one dialect.
type counter struct {
	t       *testing.T
	db      *store.DB
	orders  *store.Container
	leases  *store.Container
	dialect lease.Dialect
	mode    feed.Mode
	start   feed.Start
	discard bool
	written int
	// configure changes the configuration of a host, unless it is nil.
	configure func(*changefeed.Config)

	mu     sync.Mutex // guards the fields below
	counts map[string]int
	errs   []error
	reads  []feed.Request
	asked  int // number of calls of Partitions
}

func newCounter(t *testing.T, d lease.Dialect) *counter {
	db := changefeedtest.NewStore(t)
	return &counter{
		t: t, db: db, dialect: d, start: feed.Beginning(), counts: map[string]int{},
		orders: changefeedtest.NewContainer(t, db, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/id"}, Partitions: 3}),
		leases: changefeedtest.NewContainer(t, db, "shop", storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}}),
	}
}

// Handle implements [changefeed.Handler].
func (c *counter) Handle(_ context.Context, b *changefeed.Batch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range b.Changes {
		id, err := b.Changes[i].ID()
		if err != nil {
			return err
		}
		c.counts[id]++
	}
	return nil
}

// Identity and the methods below implement [feed.Source].
func (c *counter) Identity(ctx context.Context) (feed.Identity, error) {
	return c.db.Source(c.orders).Identity(ctx)
}

func (c *counter) Partitions(ctx context.Context) ([]feed.Partition, error) {
	c.mu.Lock()
	c.asked++
	c.mu.Unlock()
	return c.db.Source(c.orders).Partitions(ctx)
}

func (c *counter) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	c.mu.Lock()
	c.reads = append(c.reads, r)
	c.mu.Unlock()
	return c.db.Source(c.orders).Read(ctx, r)
}

func (c *counter) CheckStart(ctx context.Context, from feed.Start, mode feed.Mode) error {
	return c.db.Source(c.orders).CheckStart(ctx, from, mode)
}

func (c *counter) SplitRange(ctx context.Context, r feed.Range, n int) ([]feed.Range, error) {
	return c.db.Source(c.orders).SplitRange(ctx, r, n)
}

// run starts a host with the given instance name. The function stop stops it and returns
// the error of Run.
func (c *counter) run(instance string) (stop func() error) {
	c.t.Helper()
	cfg := changefeed.Config{
		Processor: "p", Instance: instance, Source: c, Leases: c.db.Leases(c.leases).In(c.dialect), Handler: c, Start: c.start, Mode: c.mode, DiscardLeases: c.discard,
		Notify: func(n changefeed.Notification) {
			if n.Event == changefeed.Failed {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.errs = append(c.errs, n.Err)
			}
		},
	}
	if c.configure != nil {
		c.configure(&cfg)
	}
	p, err := changefeed.New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	return runInBackground(c.t, p)
}

// runInBackground calls Run of a processor in a goroutine. The function stop ends its
// context and returns the error of Run.
func runInBackground(t *testing.T, p *changefeed.Processor) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = stop() })
	return stop
}

// ends runs a host that must end by itself, and returns the error of Run.
func ends(t *testing.T, c *counter, instance string) error {
	t.Helper()
	stop := c.run(instance)
	pause(time.Minute)
	return stop()
}

func (c *counter) write(n int) {
	c.t.Helper()
	for range n {
		c.written++
		doc := fmt.Appendf(nil, `{"id":"order-%d"}`, c.written)
		if _, err := c.orders.Upsert(c.t.Context(), nil, doc, storetype.WriteOptions{}); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *counter) split(id string) {
	c.t.Helper()
	if _, err := c.orders.Split(c.t.Context(), id, ""); err != nil {
		c.t.Fatal(err)
	}
}

// documents returns the JSON of the documents in the lease container, by id.
func (c *counter) documents() map[string]string {
	c.t.Helper()
	documents := map[string]string{}
	from := feed.Beginning()
	for {
		page, err := c.db.Source(c.leases).Read(c.t.Context(), feed.Request{Partition: feed.Partition{ID: "0"}, From: from})
		if err != nil {
			c.t.Fatal(err)
		}
		if len(page.Changes) == 0 {
			break
		}
		for i := range page.Changes {
			id, err := page.Changes[i].ID()
			if err != nil {
				c.t.Fatal(err)
			}
			documents[id] = string(page.Changes[i].Current)
		}
		from = feed.After(page.Continuation)
	}
	return documents
}

// openLeases opens the lease container.
func (c *counter) openLeases() lease.Store {
	c.t.Helper()
	id, err := c.Identity(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	s, err := c.db.Leases(c.leases).In(c.dialect).Open(c.t.Context(), lease.Key{Processor: "p", Identity: id, Mode: c.mode})
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// listed returns the leases in the lease container.
func (c *counter) listed() []lease.Lease {
	c.t.Helper()
	listing, err := c.openLeases().List(c.t.Context())
	if err != nil || len(listing.Unreadable) > 0 || len(listing.Foreign) > 0 {
		c.t.Fatalf("%+v, %v", listing, err)
	}
	return listing.Leases
}

// tokens returns the tokens of the leases in the lease container.
func (c *counter) tokens() []string {
	c.t.Helper()
	var tokens []string
	for _, l := range c.listed() {
		tokens = append(tokens, l.Token)
	}
	slices.Sort(tokens)
	return tokens
}

// position returns the position of the lease of a partition.
func (c *counter) position(p feed.Partition) feed.Continuation {
	c.t.Helper()
	all := c.listed()
	i := slices.IndexFunc(all, func(l lease.Lease) bool { return l.PartitionID == p.ID || l.Range == p.Range })
	if i < 0 {
		c.t.Fatalf("no lease of %v: %+v", p, all)
	}
	return all[i].Continuation
}

// wantOnce checks that every order that was written was delivered exactly once.
func (c *counter) wantOnce() {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.written {
		if id := fmt.Sprintf("order-%d", i+1); c.counts[id] != 1 {
			c.t.Errorf("%s was delivered %d times", id, c.counts[id])
		}
	}
}

func (c *counter) notified() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.errs...).Error()
}

func pause(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func inBubble(t *testing.T, d lease.Dialect, script func(c *counter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { script(newCounter(t, d)) })
}

var javas = []lease.Dialect{lease.JavaHandleChanges, lease.JavaLatestVersion}

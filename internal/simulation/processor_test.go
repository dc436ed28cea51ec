package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/hook"
	"github.com/changefeed-go/changefeed/lease"
)

// These tests run processors on each engine, without faults. Tests with several hosts,
// crashes or lost answers use scenes.

// desk contains the engine and the running processors of one test.
type desk struct {
	t      *testing.T
	engine engine
	next   int
	stops  []func() error
}

func atDesk(t *testing.T, n int, script func(d *desk)) {
	t.Helper()
	onEachEngine(t, []option{partitions(n)}, func(t *testing.T, _ worldConfig, e engine) {
		d := &desk{t: t, engine: e}
		defer d.stop()
		script(d)
	})
}

// start runs a processor. The function stop stops it and returns the error of Run.
// Otherwise the end of the test stops it.
func (d *desk) start(cfg changefeed.Config) (stop func() error) {
	d.t.Helper()
	cfg.Source, cfg.Leases = d.engine.source(), d.engine.leases()
	if cfg.Processor == "" {
		cfg.Processor = "desk"
	}
	hook.SetSeed(&cfg, uint64(len(d.stops)+1))
	p, err := changefeed.New(cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	d.stops = append(d.stops, stop)
	return stop
}

func (d *desk) stop() {
	for _, stop := range d.stops {
		if err := stop(); err != nil {
			d.t.Errorf("Run: %v", err)
		}
	}
}

func (d *desk) add(n int) {
	d.t.Helper()
	for range n {
		d.next++
		id := strconv.Itoa(d.next)
		_, _, err := d.engine.commit(d.t.Context(), itemWrite{key: feed.PartitionKey{id}, id: id, document: map[string]any{"id": id, "pk": id}})
		if err != nil {
			d.t.Fatal(err)
		}
	}
}

func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// seen is a handler that collects the ids of the delivered changes.
type seen struct {
	mu  sync.Mutex // guards ids
	ids []string
}

func (s *seen) Handle(_ context.Context, b *changefeed.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range b.Changes {
		id, err := b.Changes[i].ID()
		if err != nil {
			return err
		}
		s.ids = append(s.ids, id)
	}
	return nil
}

// sorted returns the collected ids in ascending order. An id that was delivered twice
// occurs twice.
func (s *seen) sorted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := slices.Clone(s.ids)
	sort.Slice(ids, func(i, j int) bool {
		a, _ := strconv.Atoi(ids[i])
		b, _ := strconv.Atoi(ids[j])
		return a < b
	})
	return ids
}

// numbers returns the ids of the items low to high, in ascending order.
func numbers(low, high int) []string {
	var ids []string
	for i := low; i <= high; i++ {
		ids = append(ids, strconv.Itoa(i))
	}
	return ids
}

func want(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s got %v; want %v", what, got, want)
	}
}

// Two processors with different names share one lease container in one program. Each gets
// every change, and neither lists the other's leases.
func TestTwoProcessorsInOneLeaseContainerEachGetEverything(t *testing.T) {
	atDesk(t, 3, func(d *desk) {
		var a, b seen
		d.add(10)
		d.start(changefeed.Config{Processor: "a", Handler: &a, Start: feed.Beginning()})
		stop := d.start(changefeed.Config{Processor: "b", Handler: &b, Start: feed.Beginning()})
		sleep(30 * time.Second)
		if err := stop(); err != nil {
			d.t.Errorf("stop of one processor: %v", err)
		}
		d.add(10)
		sleep(30 * time.Second)
		want(d.t, "a, which continues,", a.sorted(), numbers(1, 20))
		want(d.t, "b, which was stopped,", b.sorted(), numbers(1, 10))
	})
}

// A processor of a feed range gets only the changes of that range, and its leases cover
// no more. Another processor gets the rest.
func TestFeedRangeLimitsAProcessor(t *testing.T) {
	atDesk(t, 2, func(d *desk) {
		middle := "" // the EPK of some key in the first partition
		for i := 0; middle == ""; i++ {
			if at := d.engine.epk(feed.PartitionKey{strconv.Itoa(i)}); d.engine.partitions()[0].Range.Holds(at) {
				middle = at
			}
		}
		low := feed.Range{Min: "", Max: middle}
		var a, b seen
		d.add(40)
		d.start(changefeed.Config{Processor: "low", Handler: &a, Start: feed.Beginning(), Range: low})
		d.start(changefeed.Config{Processor: "high", Handler: &b, Start: feed.Beginning(), Range: feed.Range{Min: middle, Max: feed.MaxEPK}})
		sleep(time.Minute)
		for _, id := range a.sorted() {
			if !low.Holds(d.engine.epk(feed.PartitionKey{id})) {
				d.t.Errorf("item %s is outside range %s", id, low)
			}
		}
		if len(a.sorted()) == 0 || len(b.sorted()) == 0 {
			d.t.Errorf("the ranges got %d and %d of 40 changes", len(a.sorted()), len(b.sorted()))
		}
		all := &seen{ids: append(a.sorted(), b.sorted()...)}
		want(d.t, "both ranges", all.sorted(), numbers(1, 40))
	})
}

// A processor with DiscardLeases starts over. It delivers the changes that were delivered
// before once more.
func TestDiscardStartsOver(t *testing.T) {
	atDesk(t, 2, func(d *desk) {
		var first, second, third seen
		d.add(10)
		stop := d.start(changefeed.Config{Handler: &first, Start: feed.Beginning()})
		sleep(30 * time.Second)
		if err := stop(); err != nil {
			d.t.Fatal(err)
		}
		stop = d.start(changefeed.Config{Handler: &second, Start: feed.Beginning()})
		sleep(30 * time.Second)
		want(d.t, "a restart", second.sorted(), nil)
		if err := stop(); err != nil {
			d.t.Fatal(err)
		}
		d.start(changefeed.Config{Handler: &third, Start: feed.Beginning(), DiscardLeases: true})
		sleep(30 * time.Second)
		want(d.t, "the discard", third.sorted(), numbers(1, 10))
	})
}

// If another host is live and owns leases, a run with DiscardLeases returns an error that
// names that host. Otherwise the owner would undo the discard.
func TestDiscardUnderALiveOwnerIsRefused(t *testing.T) {
	atDesk(t, 2, func(d *desk) {
		var a seen
		d.start(changefeed.Config{Handler: &a, Instance: "worker-7"})
		sleep(30 * time.Second)
		p, err := changefeed.New(changefeed.Config{
			Processor: "desk", Source: d.engine.source(), Leases: d.engine.leases(), Handler: &a, DiscardLeases: true,
		})
		if err != nil {
			d.t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
		defer cancel()
		if err := p.Run(ctx); err == nil || !strings.Contains(err.Error(), "worker-7") {
			d.t.Errorf("Run returned %v; want an error that names worker-7", err)
		}
		d.add(5)
		sleep(30 * time.Second)
		want(d.t, "the live owner", a.sorted(), numbers(1, 5))
	})
}

// A filter hides changes from the handler. The positions still advance past hidden
// changes, so that a restart does not read them again.
func TestFilterHidesChangesAndPositionsAdvance(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		var s seen
		d.start(changefeed.Config{Handler: &s, Start: feed.Beginning(), Filter: func(c feed.Change) bool {
			id, err := c.ID()
			n, _ := strconv.Atoi(id)
			return err == nil && n <= 3
		}})
		d.add(50)
		sleep(2 * time.Minute)
		d.add(20) // the filter removes whole pages
		sleep(2 * time.Minute)
		want(d.t, "the handler", s.sorted(), numbers(1, 3))
		if l := d.leases(); len(l) != 1 || l[0].Continuation != continuation(d.engine.counters()[0].lsn) {
			d.t.Errorf("leases %v; want one after the last of 70 changes", l)
		}
	})
}

// leases returns the leases of the processor "desk".
func (d *desk) leases() []lease.Lease {
	d.t.Helper()
	id, err := d.engine.source().Identity(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	store, err := d.engine.leases().Open(d.t.Context(), lease.Key{Processor: "desk", Identity: id})
	if err != nil {
		d.t.Fatal(err)
	}
	l, err := store.List(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	return l.Leases
}

// Each lease is notified as acquired before its first batch, and as released, with the
// reason, at its end. If a handler fails, its error is notified.
func TestLeaseNotificationsComeInOrder(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		var mu sync.Mutex
		var notes []string
		note := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			notes = append(notes, fmt.Sprintf(format, args...))
		}
		cause := errors.New("the sink is closed")
		calls := 0
		stop := d.start(changefeed.Config{
			Start: feed.Beginning(),
			Handler: changefeed.HandlerFunc(func(context.Context, *changefeed.Batch) error {
				calls++
				note("handle")
				if calls == 1 {
					return cause
				}
				return nil
			}),
			Notify: func(n changefeed.Notification) {
				switch n.Event {
				case changefeed.Acquired:
					note("acquired %s", n.LeaseToken)
				case changefeed.Released:
					note("released %s: %s", n.LeaseToken, n.Reason)
				case changefeed.Stopped, changefeed.Resumed, changefeed.GivenUp, changefeed.Paused, changefeed.Unpaused:
					note("%s %s", n.Event, n.LeaseToken)
				case changefeed.Failed:
					var h *changefeed.HandlerError
					note("failed %s: handler %t, cause %t", n.LeaseToken, errors.As(n.Err, &h), errors.Is(n.Err, cause))
				}
			},
		})
		d.add(1)
		sleep(30 * time.Second)
		if err := stop(); err != nil {
			d.t.Fatal(err)
		}
		want(d.t, "the notifications", notes,
			[]string{"acquired 0", "handle", "failed 0: handler true, cause true", "handle", "released 0: shutdown"})
	})
}

// counting is a source that counts the bytes of the changes that were read from it.
type counting struct {
	feed.Source
	mu    sync.Mutex // guards bytes
	bytes int
}

func (c *counting) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	p, err := c.Source.Read(ctx, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += size(p)
	return p, err
}

// size returns the total size of a page's changes in bytes. Page.Bytes cannot be used,
// because it includes an envelope that differs by engine.
func size(p feed.Page) (n int) {
	for i := range p.Changes {
		n += len(p.Changes[i].Current)
	}
	return n
}

func (c *counting) read() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// While a handler is busy, the processor reads at most ReadAhead bytes, plus one page.
func TestReadAheadIsBounded(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		e := d.engine
		d.add(2000)
		all, err := e.source().Read(d.t.Context(), feed.Request{Range: feed.Full(), From: feed.Beginning(), MaxItems: 5000})
		if err != nil {
			d.t.Fatal(err)
		}
		whole := size(all)
		page := whole / 200 // of about 10 items
		for _, ahead := range []int{-1, 10 * page} {
			source := &counting{Source: e.source()}
			hold := make(chan struct{})
			cfg := changefeed.Config{
				Processor: "ahead" + strconv.Itoa(ahead), Source: source, Leases: e.leases(), Start: feed.Beginning(),
				MaxItems: 10, ReadAhead: ahead,
				Handler: changefeed.HandlerFunc(func(context.Context, *changefeed.Batch) error { <-hold; return nil }),
			}
			hook.SetSeed(&cfg, 5)
			p, err := changefeed.New(cfg)
			if err != nil {
				d.t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(d.t.Context())
			done := make(chan error, 1)
			go func() { done <- p.Run(ctx) }()
			sleep(5 * time.Minute)
			// The limit includes the batch in the handler, the changes that wait, and the
			// page that is being read.
			most := page*12/10*2 + max(ahead, 0)
			least := max(ahead, 1)
			if got := source.read(); got > most || got < least {
				d.t.Errorf("read ahead %d: %d bytes read while the handler is busy; want %d to %d", ahead, got, least, most)
			}
			close(hold)
			sleep(5 * time.Minute)
			if got := source.read(); got != whole {
				d.t.Errorf("read ahead %d: %d of %d bytes read in the end", ahead, got, whole)
			}
			cancel()
			if err := <-done; err != nil {
				d.t.Error(err)
			}
		}
	})
}

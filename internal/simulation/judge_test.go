package simulation

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// judged returns the rules that the facts of a script break. The script has one host, which
// is alive and names itself "a/1" as an owner.
func judged(t *testing.T, script func(w *world, h *host)) map[string]bool {
	t.Helper()
	return judgedWith(t, worldConfig{start: feed.Beginning()}, script)
}

// judgedWith judges a script in a world with this configuration.
func judgedWith(t *testing.T, c worldConfig, script func(w *world, h *host)) map[string]bool {
	t.Helper()
	broken := map[string]bool{}
	synctest.Test(t, func(*testing.T) {
		e := newMemEngine(newStoreClock(0, 0), memory.Options{Partitions: 1})
		c.times, c.engine, c.rules = defaultTimes(), e, allRules
		w := newWorld(c)
		h := &host{world: w, id: "h1", instance: "a", owner: "a/1", clock: newHostClock(), settings: w.settings()}
		w.ledger.add(&join{h})
		script(w, h)
		found, _ := w.judge()
		for _, v := range found {
			broken[v.rule] = true
		}
	})
	return broken
}

// A lease may keep its ETag for hours. A listing from before its ancestor existed must not
// excuse an acquire when all recent listings show that ancestor.
func TestOnlyRecentListingsExcuseAnAcquire(t *testing.T) {
	child := lease.Lease{Token: "0-8", Range: feed.Range{Min: "", Max: "8"}, Continuation: continuation(0), ETag: "1"}
	parent := lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full(), Continuation: continuation(0), ETag: "1"}
	for later, want := range map[int]bool{0: false, 7: false, 50: true} {
		broken := judged(t, func(w *world, h *host) {
			list := func(leases ...lease.Lease) {
				f := &listing{host: h}
				w.ledger.add(f)
				w.ledger.end(f, func() { f.got = lease.Listing{Leases: leases, Initialized: time.Now(), Now: w.engine.now()} })
			}
			w.operates(opCreate, child, child)
			list(child)
			for range later {
				list(child, parent)
			}
			acquired := child
			acquired.Owner = h.owner
			f := w.sends(h, opUpdate, acquired)
			acquired.ETag = "2"
			w.applies(f, acquired)
			w.answers(f, acquired, nil)
		})
		if broken["shadowed-leases"] != want {
			t.Errorf("after %d listings with the ancestor, the acquire breaks %v; want shadowed-leases among them: %t", later, broken, want)
		}
	}
}

// A worker on a lease whose position cannot be read, or which has neither a position nor a
// start, would begin anywhere.
func TestAWorkerNeedsAPositionOrAStart(t *testing.T) {
	for name, c := range map[string]struct {
		l    lease.Lease
		want bool
	}{
		"position":            {lease.Lease{Token: "0", Continuation: continuation(7)}, false},
		"start":               {protocol.StartingAt(lease.Lease{Token: "0"}, feed.Beginning()), false},
		"unreadable position": {lease.Lease{Token: "0", Continuation: "garbage"}, true},
		"nothing":             {lease.Lease{Token: "0"}, true},
	} {
		broken := judged(t, func(w *world, h *host) { w.ledger.add(&worker{host: h, lease: c.l, run: 1}) })
		if broken["nothing-skipped"] != c.want {
			t.Errorf("%s: the worker breaks %v; want nothing-skipped among them: %t", name, broken, c.want)
		}
	}
}

// A lease that an operator deletes in a first start may be created again while a host still
// uses it, but that host soon notices.
func TestHostsNoticeSharedKeysInTime(t *testing.T) {
	l := lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full(), Continuation: continuation(0), ETag: "1"}
	for later, want := range map[time.Duration]bool{time.Second: false, time.Hour: true} {
		broken := judged(t, func(w *world, h *host) {
			other := &host{world: w, id: "h2", instance: "b", owner: "b/1", clock: newHostClock(), settings: w.settings()}
			w.ledger.add(&join{other})
			w.operates(opCreate, l, l)
			w.operates(opDelete, l, lease.Lease{})
			time.Sleep(later)
			for _, h := range []*host{h, other} {
				w.begins(t.Context(), &use{host: h, token: "0", keys: feed.Full(), what: useRead, asked: w.since()})
			}
		})
		if broken["exclusive-use"] != want {
			t.Errorf("%s after the operator's delete, shared keys break %v; want exclusive-use among them: %t", later, broken, want)
		}
	}
}

// The processor opens each observer once and for its own lease, and closes it once, but only
// if it was opened.
func TestObserversAreOpenedAndClosedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		opened []string
		closed int
		want   bool
	}{
		"once":              {[]string{"0"}, 1, false},
		"opened twice":      {[]string{"0", "0"}, 1, true},
		"for another lease": {[]string{"1"}, 1, true},
		"closed twice":      {[]string{"0"}, 2, true},
		"never opened":      {nil, 1, true},
	} {
		broken := judged(t, func(w *world, h *host) {
			o := &worker{host: h, lease: lease.Lease{Token: "0", Continuation: continuation(7)}, run: 1}
			w.ledger.add(o)
			for _, token := range c.opened {
				w.ledger.add(&opened{o, token})
			}
			for range c.closed {
				w.ledger.end(o, nil)
			}
		})
		if broken["order"] != c.want {
			t.Errorf("%s: the observer's calls break %v; want order among them: %t", name, broken, c.want)
		}
	}
}

// Java's documents hold a start time beside the position. A read from both leaves out the
// changes that are older than the time, and no others.
func TestAStartTimeBesideAPositionHidesOnlyOlderChanges(t *testing.T) {
	start := time.Date(2000, 1, 1, 0, 0, 29, 0, time.UTC)
	codec, err := lease.NewCodec(lease.JavaLatestVersion, lease.Key{Processor: "p", Identity: feed.Identity{
		AccountHost: "host.example.com", Database: "d", DatabaseRID: "AAAA==", Container: "c", ContainerRID: "AAAAAAA=",
	}}, false)
	if err != nil {
		t.Fatal(err)
	}
	l, err := codec.Decode(codec.Encode(lease.Lease{
		Token: "-FF", Range: feed.Full(), Continuation: continuation(1), Properties: map[string]string{lease.PropertyStart: start.Format(time.RFC3339)},
	}))
	if err != nil || !l.Start(feed.Now()).Since().Equal(start) {
		t.Fatalf("the start is %s, %v", l.Start(feed.Now()), err)
	}
	for name, c := range map[string]struct {
		received []int64
		want     bool
	}{
		"without the older change":     {[]int64{3, 4}, false},
		"with the older change":        {[]int64{2, 3, 4}, false},
		"without a change that is due": {[]int64{4}, true},
	} {
		broken := judgedWith(t, worldConfig{start: feed.At(start), dialect: lease.JavaLatestVersion}, func(w *world, h *host) {
			for lsn, at := range map[int64]time.Duration{2: -time.Second, 3: 0, 4: time.Second} {
				w.ledger.add(&commit{lsn: lsn, at: start.Add(at), epk: fmt.Sprint("0", lsn), writes: []itemWrite{{id: fmt.Sprint("i", lsn), document: map[string]any{}}}})
			}
			o := &worker{host: h, lease: l, run: 1}
			w.ledger.add(o)
			w.ledger.add(&opened{o, l.Token})
			b := &batch{worker: o}
			for _, lsn := range c.received {
				b.changes = append(b.changes, feed.Change{LSN: lsn, Current: []byte(`{"id":"` + fmt.Sprint("i", lsn) + `"}`)})
			}
			w.begins(t.Context(), &use{host: h, token: l.Token, keys: feed.Full(), what: useBatch, batch: b, asked: w.since()})
		})
		if broken["order"] != c.want {
			t.Errorf("%s: the batch breaks %v; want order among them: %t", name, broken, c.want)
		}
	}
}

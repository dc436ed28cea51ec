package changefeed

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

const foreigner = "WORKER-7"

// foreignHost simulates a .NET host that owns one lease for each partition of the source.
// The leases start at the beginning. It renews them every 10 s, for the first time after
// 10 s.
func foreignHost(t *testing.T, leases *fakeStore, source *fakeSource) {
	t.Helper()
	leases.marker = time.Now().UTC().Truncate(time.Second)
	for _, p := range source.partitions {
		leases.put(lease.Lease{
			ID: "lease-" + p.ID, Token: p.ID, PartitionID: p.ID, Range: p.Range, Owner: foreigner,
			Properties: map[string]string{lease.PropertyStart: "beginning"},
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sleep(ctx, 10*time.Second) {
			for _, p := range source.partitions {
				if leases.doc(p.ID).Owner == foreigner {
					leases.edit(p.ID, func(*lease.Lease) {})
				}
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
}

// claiming starts a host beside a foreign host that owns two leases, and waits until it
// has stolen one. It returns the token of that lease and the time of the last write of
// its former owner.
func claiming(t *testing.T, leases *fakeStore, cfg Config) (r *running, said *notes, token string, since time.Time) {
	t.Helper()
	source := newFakeSource("0", "1")
	if cfg.Source == nil {
		cfg.Source = source
	} else if own, ok := cfg.Source.(*fakeSource); ok {
		source = own
	}
	source.write("0", 3)
	source.write("1", 3)
	since = time.Now()
	foreignHost(t, leases, source)
	pause(500 * time.Millisecond)
	said = &notes{}
	if cfg.Handler == nil && cfg.Observer == nil {
		cfg.Handler = &collector{}
	}
	cfg.Leases, cfg.Notify = leases, said.add
	r = start(t, cfg)
	pause(time.Second)
	for _, token := range []string{"0", "1"} {
		if leases.doc(token).Owner != foreigner {
			return r, said, token, since
		}
	}
	t.Fatal("nothing was stolen")
	return nil, nil, "", since
}

func TestStolenLeaseIsUsedOnlyAfterThePreviousOwnersExpiryAndOneMoreRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, h := newFakeSource("0", "1"), newFakeStore(), &collector{}
		var confirmed time.Time
		opened := &diary{leases: leases}
		r, said, token, since := claiming(t, leases, Config{Source: source, Observer: func(lease.Lease) (Observer, error) {
			confirmed = time.Now()
			return &observed{opened, h}, nil
		}})
		until := since.Add(61 * time.Second)
		leases.setBefore(func(w fakeWrite) error {
			if w.lease.Token == token && w.lease.Timestamp.IsZero() {
				t.Error("written without a timestamp, which other hosts need")
			}
			return nil
		})
		pause(time.Until(until) - time.Millisecond)
		if n := len(source.requests()); n != 0 || opened.String() != "" || len(said.of(Acquired)) != 0 {
			t.Errorf("%d reads, observer %q, %+v while it waits", n, opened, said.all)
		}
		writes := leases.sent()
		if last := writes[len(writes)-1].at; len(writes) < 5 || time.Since(last) > 13*time.Second {
			t.Errorf("%d writes while it waits, the last %s ago; want the steal and a renewal every 13 s", len(writes), time.Since(last))
		}
		pause(500 * time.Millisecond)
		sent := leases.sent()[len(writes):]
		if len(sent) == 0 || sent[0].at.Before(until) || confirmed.Before(sent[0].at) {
			t.Errorf("used at %s; want it after a renewal that is begun at %s or later, of %+v", confirmed, until, sent)
		}
		if got := h.got(); len(got) != 3 || len(said.of(Acquired)) != 1 || len(said.of(Failed)) != 0 {
			t.Errorf("handled %v, %+v", got, said.all)
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if doc := leases.doc(token); doc.Owner != "" || doc.Continuation != "3" || len(said.of(Released)) != 1 {
			t.Errorf("%+v, %+v", doc, said.all)
		}
	})
}

// observed is a diary that also passes each batch to the handler h.
type observed struct {
	*diary
	h *collector
}

func (o *observed) Handle(ctx context.Context, b *Batch) error { return o.h.Handle(ctx, b) }

func TestAskIsObeyedOnlyWhenAStolenLeaseMayBeUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := newFakeStore()
		_, said, token, since := claiming(t, leases, Config{})
		leases.edit(token, wantLease)
		pause(time.Until(since.Add(61*time.Second)) - time.Millisecond)
		if doc := leases.doc(token); doc.Owner == "" || doc.Owner == foreigner || doc.Wanted() == "" || len(said.of(Released)) != 0 {
			t.Errorf("handed over while its victim may use it: %+v", doc)
		}
		pause(time.Second)
		if doc := leases.doc(token); doc.Owner != "" || doc.Wanted() == "" {
			t.Errorf("not handed over when it may be: %+v", doc)
		}
	})
}

func TestHostThatStopsDuringTheWaitLeavesTheLeaseToExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, at := range []time.Duration{0, 10 * time.Second, 13 * time.Second, 57 * time.Second} {
			leases := newFakeStore()
			r, said, token, _ := claiming(t, leases, Config{})
			pause(at)
			before := leases.doc(token)
			began := time.Now()
			if err := r.end(); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("Run returned %s after the stop", took)
			}
			pause(time.Minute)
			if doc := leases.doc(token); doc.Owner == "" || doc.ETag != before.ETag || len(said.all) != 0 {
				t.Errorf("stopped after %s it was %+v and is %+v; %+v", at, before, doc, said.all)
			}
		}
	})
}

// A stop during the renewal that confirms a claim ends a lease that may be used: its former
// owner has expired. So it is released, and the next owner need not wait for its expiry.
func TestStopDuringTheConfirmationReleasesTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0", "1"), newFakeStore()
		r, said, token, since := claiming(t, leases, Config{Source: source})
		leases.setBefore(func(fakeWrite) error {
			if time.Since(since) >= 61*time.Second {
				r.stop()
				time.Sleep(time.Second)
			}
			return nil
		})
		pause(time.Until(since.Add(70 * time.Second)))
		if doc := leases.doc(token); doc.Owner != "" || len(source.requests()) != 0 || len(said.of(Acquired)) != 1 || len(said.of(Released)) != 1 {
			t.Errorf("%+v, %d reads, %+v", doc, len(source.requests()), said.all)
		}
	})
}

func TestStolenLeaseThatVanishesIsNotPutBack(t *testing.T) {
	for name, again := range map[string]bool{"deleted": false, "deleted and put back by its victim": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, leases := newFakeSource("0", "1"), newFakeStore()
				_, said, token, since := claiming(t, leases, Config{Source: source, AcquireInterval: time.Hour})
				pause(time.Until(since.Add(60 * time.Second))) // after the last renewal before the wait ends
				victims := leases.doc(token)
				victims.Owner = foreigner
				leases.mu.Lock()
				delete(leases.docs, "lease-"+token)
				if again {
					leases.put(victims)
				}
				leases.mu.Unlock()
				pause(5 * time.Second)
				if doc := leases.doc(token); again != (doc.Owner == foreigner) || !again && doc.ID != "" {
					t.Errorf("%+v", doc)
				}
				if n := len(source.requests()); n != 0 || len(said.all) != 0 {
					t.Errorf("%d reads and the notifications %+v, want none", n, said.all)
				}
			})
		})
	}
}

func TestClaimIsLostToTheNextOwnerOfTheLease(t *testing.T) {
	for name, edit := range map[string]func(*lease.Lease){
		"stolen back":     func(l *lease.Lease) { l.Owner = foreigner },
		"owner cleared":   func(l *lease.Lease) { l.Owner = "" },
		"position edited": func(l *lease.Lease) { l.Continuation = "2" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, leases := newFakeSource("0", "1"), newFakeStore()
				_, said, token, _ := claiming(t, leases, Config{Source: source, AcquireInterval: time.Hour})
				leases.edit(token, edit)
				edited := leases.doc(token)
				pause(13 * time.Second)
				writes := len(leases.sent())
				pause(10 * time.Minute)
				if doc := leases.doc(token); doc.Owner != edited.Owner || len(leases.sent()) != writes || len(source.requests()) != 0 || len(said.all) != 0 {
					t.Errorf("%+v, %d reads, %+v", doc, len(source.requests()), said.all)
				}
			})
		})
	}
}

// While a host waits to use a stolen lease, an operator writes a property and the store
// fails. The host must keep its claim. It uses the lease after a renewal that succeeds.
func TestClaimSurvivesAWriteOfPropertiesAndADeadStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, h := newFakeStore(), &collector{}
		_, said, token, since := claiming(t, leases, Config{Handler: h})
		pause(time.Until(since.Add(60 * time.Second)))
		leases.edit(token, func(l *lease.Lease) { l.Properties = map[string]string{"note": "x"} })
		failing := 2
		leases.setBefore(func(fakeWrite) error {
			if failing--; failing >= 0 {
				return errors.New("503")
			}
			return nil
		})
		pause(10 * time.Second)
		doc := leases.doc(token)
		if len(h.got()) != 3 || doc.Properties["note"] != "x" || len(said.of(Acquired)) != 1 {
			t.Errorf("handled %v, %+v, %+v", h.got(), doc, said.all)
		}
	})
}

func TestLostAnswerToAStealIsRecognisedAndWaitsAsLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0", "1"), newFakeStore()
		var writes atomic.Int32
		leases.after = func(fakeWrite) error {
			if writes.Add(1) == 1 {
				return errors.New("connection reset")
			}
			return nil
		}
		_, said, token, since := claiming(t, leases, Config{Source: source})
		pause(2 * time.Second)
		if doc := leases.doc(token); writes.Load() < 2 || doc.Owner == foreigner {
			t.Fatalf("%d writes, %+v", writes.Load(), doc)
		}
		pause(time.Until(since.Add(61*time.Second)) - time.Millisecond)
		if n := len(source.requests()); n != 0 {
			t.Errorf("%d reads while it waits", n)
		}
		pause(time.Second)
		if n := len(said.of(Acquired)); n != 1 || len(source.requests()) == 0 {
			t.Errorf("%d leases are used, %d reads", n, len(source.requests()))
		}
		if failed := said.of(Failed); len(failed) != 1 || !strings.Contains(failed[0].Err.Error(), "steal "+token) {
			t.Errorf("%+v", failed)
		}
	})
}

// A worker whose lease has an ancestor in the listing releases the lease. If the worker
// still waits after a steal, it must not release, because the next owner would not wait.
func TestStolenLeaseThatIsShadowedIsNotReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0", "1"), newFakeStore()
		_, said, token, _ := claiming(t, leases, Config{Source: source})
		leases.mu.Lock()
		leases.put(lease.Lease{ID: "lease-9", Token: "9", PartitionID: "9", Range: feed.Full(), Owner: "other/0000beef"})
		leases.mu.Unlock()
		pause(20 * time.Second)
		writes := len(leases.sent())
		pause(20 * time.Second)
		if doc := leases.doc(token); doc.Owner == "" || doc.Owner == foreigner || len(leases.sent()) != writes || len(said.all) != 0 {
			t.Errorf("%+v, %d writes more, %+v", doc, len(leases.sent())-writes, said.all)
		}
	})
}

// One lease document cannot be read. The host must notify an error with its ID in each
// cycle, write nothing to it, and process the other leases.
func TestUnreadableLeaseIsNamedAndTheOthersContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, h, said := newFakeSource("0", "1", "2"), newFakeStore(), &collector{}, &notes{}
		leases.marker = time.Now().UTC()
		for _, p := range source.partitions[:2] {
			source.write(p.ID, 3)
			leases.put(lease.Lease{ID: "lease-" + p.ID, Token: p.ID, PartitionID: p.ID, Range: p.Range})
		}
		source.write("2", 3)
		leases.unreadable = []lease.Unreadable{{ID: "lease-2", Token: "2", Err: errors.New("version: 7 is unknown")}}
		start(t, Config{Source: source, Leases: leases, Handler: h, Notify: said.add, Start: fromBeginning})
		pause(20 * time.Second)
		if n := len(h.got()); n != 6 {
			t.Errorf("%d changes handled; want the 6 of the two readable leases", n)
		}
		failed := said.of(Failed)
		if len(failed) != 2 || failed[0].LeaseToken != "2" || !strings.Contains(failed[0].Err.Error(), "lease-2: version: 7 is unknown") {
			t.Fatalf("%+v; want the lease named in each of two cycles", failed)
		}
		pause(10 * time.Minute)
		for _, w := range leases.sent() {
			if w.lease.Token == "2" || w.op != "update" {
				t.Errorf("%s of %s", w.op, w.lease.Token)
			}
		}
		leases.mu.Lock()
		leases.unreadable = nil // an operator has deleted the document
		leases.mu.Unlock()
		pause(3 * time.Minute)
		if n := len(h.got()); n != 9 {
			t.Errorf("%d changes handled after the document was deleted; want 9", n)
		}
	})
}

// Two leases overlap, and neither covers the other. The host must name them and their
// common keys in each cycle, because the changes of these keys are delivered twice.
func TestOverlappingLeasesAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, said := newFakeStore(), &notes{}
		leases.marker = time.Now().UTC()
		for _, r := range []feed.Range{{Min: "", Max: "80"}, {Min: "40", Max: "FF"}, {Min: "90", Max: "A0"}} {
			l := lease.ForRange(r)
			l.ID = "lease-" + l.Token
			leases.put(l)
		}
		start(t, Config{Source: onePartition(1), Leases: leases, Handler: &collector{}, Notify: said.add, Start: fromBeginning})
		pause(20 * time.Second)
		failed := said.of(Failed)
		if len(failed) != 2 || failed[0].LeaseToken != "40-FF" || !strings.Contains(failed[0].Err.Error(), "leases -80 and 40-FF both cover the keys 40-80") {
			t.Fatalf("%+v; want the two leases named in each of two cycles", failed)
		}
	})
}

// While one lease document cannot be read, no host may create the marker or a missing
// lease. The document may cover the keys that no other lease covers.
func TestUnreadableLeasePreventsTheMarker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0", "1"), newFakeStore()
		p := source.partitions[0]
		leases.put(lease.Lease{ID: "lease-0", Token: "0", PartitionID: "0", Range: p.Range})
		leases.unreadable = []lease.Unreadable{{ID: "lease-1", Token: "1", Err: errors.New("it is not a JSON object")}}
		start(t, Config{Source: source, Leases: leases, Handler: &collector{}})
		pause(time.Minute)
		if leases.marked() || leases.size() != 1 || leases.doc("0").Owner == "" {
			t.Errorf("marked %t, %d documents, lease 0 of %q", leases.marked(), leases.size(), leases.doc("0").Owner)
		}
	})
}

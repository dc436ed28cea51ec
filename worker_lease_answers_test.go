package changefeed

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// The tests in this file check how a host handles each possible answer of the store to
// each of its writes. A foreign host, a .NET or Java processor, writes just before the
// answer. It steals leases at any time, frees leases of others, runs children at once,
// and deletes gone leases unconditionally.

// meanwhile runs script just before the first write for which due returns true. script
// makes the writes of a foreign host; due is not called for them.
func meanwhile(leases *fakeStore, due func(w fakeWrite) bool, script func(w fakeWrite) error) {
	done := false
	leases.setBefore(func(w fakeWrite) error {
		if done || !due(w) {
			return nil
		}
		done = true
		return script(w)
	})
}

func isRenewal(w fakeWrite) bool { return w.op == "update" && w.lease.Owner != "" }
func isRelease(w fakeWrite) bool { return w.op == "update" && w.lease.Owner == "" }
func isCreate(w fakeWrite) bool  { return w.op == "create" }
func isDelete(w fakeWrite) bool  { return w.op == "delete" }

// vanish deletes a lease's document without a condition, as a .NET host does after a
// split.
func (s *fakeStore) vanish(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.docs, "lease-"+token)
}

// appear stores a lease document, as a foreign host that creates a lease does.
func (s *fakeStore) appear(l lease.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(l)
}

func theirs(l *lease.Lease) { l.Owner = foreigner }

var errStore = errors.New("503")

// A host renews its lease while a foreign host writes it. For each answer of the store
// the test checks whether the host continues or ends its work. want is the reason of the
// end. If nil, the work continues.
func TestAnswersToARenewalBesideAForeignHost(t *testing.T) {
	lost := Lost
	for name, c := range map[string]struct {
		script func(leases *fakeStore, w fakeWrite) error
		want   *Reason
		owner  string // the owner in the end: "mine" means the host of the test
		failed int
	}{
		"success": {func(*fakeStore, fakeWrite) error { return nil }, nil, "mine", 0},
		"conflict: stolen": {func(s *fakeStore, _ fakeWrite) error {
			s.edit("0", theirs)
			return nil
		}, &lost, foreigner, 0},
		"conflict: stolen, and released": {func(s *fakeStore, _ fakeWrite) error {
			s.edit("0", theirs)
			s.edit("0", func(l *lease.Lease) { l.Owner = "" })
			return nil
		}, &lost, "", 0},
		"conflict: the owner cleared by a steal that failed": {func(s *fakeStore, _ fakeWrite) error {
			s.edit("0", func(l *lease.Lease) { l.Owner = "" })
			return nil
		}, &lost, "", 0},
		"conflict: mine, and properties dropped": {func(s *fakeStore, _ fakeWrite) error {
			s.edit("0", func(l *lease.Lease) { l.Properties = nil })
			return nil
		}, nil, "mine", 0},
		"conflict: mine, at an older position": {func(s *fakeStore, _ fakeWrite) error {
			s.edit("0", func(l *lease.Lease) { l.Continuation = "1" })
			return nil
		}, &lost, "mine", 0},
		"not found: deleted as gone": {func(s *fakeStore, _ fakeWrite) error {
			s.vanish("0")
			return nil
		}, nil, "mine", 0},
		"not found, and recreated before it is put back": {func(s *fakeStore, w fakeWrite) error {
			s.vanish("0")
			again := w.lease
			again.Owner = foreigner
			time.AfterFunc(time.Millisecond/2, func() { s.appear(again) })
			return nil
		}, &lost, foreigner, 0},
		"unknown, and stolen": {func(s *fakeStore, _ fakeWrite) error {
			s.edit("0", theirs)
			return errStore
		}, &lost, foreigner, 1},
		"unknown, and not found": {func(s *fakeStore, _ fakeWrite) error {
			s.vanish("0")
			return errStore
		}, nil, "mine", 1},
		"throttled, and stolen": {func(s *fakeStore, _ fakeWrite) error {
			s.edit("0", theirs)
			return &feed.ThrottledError{RetryAfter: time.Second}
		}, &lost, foreigner, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, leases := onePartition(3), newFakeStore()
				r, said := idle(t, leases, Config{Source: source, Start: fromBeginning, AcquireInterval: time.Hour})
				mine := leases.doc("0").Owner
				meanwhile(leases, isRenewal, func(w fakeWrite) error { return c.script(leases, w) })
				pause(30 * time.Second)
				released := said.of(Released)
				if c.want == nil && len(released) != 0 || c.want != nil && (len(released) != 1 || released[0].Reason != *c.want) {
					t.Errorf("%+v; want %v", released, c.want)
				}
				owner, doc := c.owner, leases.doc("0")
				if owner == "mine" {
					owner = mine
				}
				if doc.Owner != owner || len(said.of(Failed)) != c.failed {
					t.Errorf("the lease is %q's; want %q; %d failures", doc.Owner, owner, len(said.of(Failed)))
				}
				if err := r.end(); err != nil {
					t.Error(err)
				}
				if after := leases.doc("0"); c.want != nil && after.ETag != doc.ETag {
					t.Errorf("written after the loss: %+v", after)
				}
			})
		})
	}
}

// A host stops and releases its lease while a foreign host writes it. The host must write
// again if the lease is still its own, and stop writing if it is not.
func TestAnswersToAReleaseBesideAForeignHost(t *testing.T) {
	for name, c := range map[string]struct {
		script func(leases *fakeStore, w fakeWrite) error
		owner  string
		writes int
		failed int
	}{
		"success":          {func(*fakeStore, fakeWrite) error { return nil }, "", 1, 0},
		"conflict: stolen": {func(s *fakeStore, _ fakeWrite) error { s.edit("0", theirs); return nil }, foreigner, 1, 0},
		"conflict: freed by another": {func(s *fakeStore, _ fakeWrite) error {
			s.edit("0", func(l *lease.Lease) { l.Owner = "" })
			return nil
		}, "", 1, 0},
		"conflict: mine, properties dropped": {func(s *fakeStore, _ fakeWrite) error {
			s.edit("0", func(l *lease.Lease) { l.Properties = nil })
			return nil
		}, "", 2, 0},
		"not found":           {func(s *fakeStore, _ fakeWrite) error { s.vanish("0"); return nil }, "", 1, 0},
		"unknown, and stolen": {func(s *fakeStore, _ fakeWrite) error { s.edit("0", theirs); return errStore }, foreigner, 2, 1},
		"throttled":           {func(*fakeStore, fakeWrite) error { return &feed.ThrottledError{} }, "", 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leases := newFakeStore()
				r, said := idle(t, leases, Config{Source: onePartition(3), Start: fromBeginning, AcquireInterval: time.Hour})
				meanwhile(leases, isRelease, func(w fakeWrite) error { return c.script(leases, w) })
				before := len(leases.sent())
				if err := r.end(); err != nil {
					t.Error(err)
				}
				if doc := leases.doc("0"); doc.Owner != c.owner {
					t.Errorf("the lease is %q's; want %q", doc.Owner, c.owner)
				}
				if n := len(leases.sent()) - before; n != c.writes || len(said.of(Failed)) != c.failed {
					t.Errorf("%d writes, %d failures; want %d and %d", n, len(said.of(Failed)), c.writes, c.failed)
				}
			})
		})
	}
}

// A host acquires a free lease, or asks another host for its lease. A foreign host
// changes the lease just before that write. The host must not work on a lease that the
// foreign host took.
func TestAnswersToAnAcquireAndAnAskBesideAForeignHost(t *testing.T) {
	const ours = "other/0000beef"
	for name, c := range map[string]struct {
		owner    string // the owner of both leases in the listing
		script   func(leases *fakeStore, w fakeWrite) error
		stolen   bool // the foreign host took the lease and must keep it
		acquired int
	}{
		"acquire, success": {"", func(*fakeStore, fakeWrite) error { return nil }, false, 2},
		"acquire, conflict: a foreign host was faster": {"", func(s *fakeStore, w fakeWrite) error {
			s.edit(w.lease.Token, theirs)
			return nil
		}, true, 1},
		"acquire, unknown: a foreign host was faster": {"", func(s *fakeStore, w fakeWrite) error {
			s.edit(w.lease.Token, theirs)
			return errStore
		}, true, 1},
		"acquire, unknown: it had arrived, and was stolen": {"", func(s *fakeStore, w fakeWrite) error {
			s.edit(w.lease.Token, func(l *lease.Lease) { l.Owner = w.lease.Owner })
			s.edit(w.lease.Token, theirs)
			return errStore
		}, true, 1},
		"acquire, not found": {"", func(s *fakeStore, w fakeWrite) error {
			s.vanish(w.lease.Token)
			return nil
		}, false, 1},
		"ask, conflict: stolen from whom it was asked of": {ours, func(s *fakeStore, w fakeWrite) error {
			s.edit(w.lease.Token, theirs)
			return nil
		}, true, 0},
		"ask, unknown: stolen": {ours, func(s *fakeStore, w fakeWrite) error {
			s.edit(w.lease.Token, theirs)
			return errStore
		}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, leases, said := newFakeSource("0", "1"), newFakeStore(), &notes{}
				leases.marker = time.Now().UTC()
				for _, p := range source.partitions {
					leases.put(lease.Lease{ID: "lease-" + p.ID, Token: p.ID, PartitionID: p.ID, Range: p.Range, Owner: c.owner, Continuation: "0"})
				}
				written := ""
				meanwhile(leases, isRenewal, func(w fakeWrite) error {
					written = w.lease.Token
					return c.script(leases, w)
				})
				r := start(t, Config{Source: source, Leases: leases, Handler: &collector{}, Notify: said.add, AcquireInterval: time.Hour})
				pause(30 * time.Second)
				if n := len(said.of(Acquired)); n != c.acquired {
					t.Errorf("%d leases are worked on; want %d", n, c.acquired)
				}
				if doc := leases.doc(written); c.stolen && (doc.Owner != foreigner || doc.Wanted() != "") {
					t.Errorf("lease %s is %+v; want it left to %s", written, doc, foreigner)
				}
				if err := r.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A host splits its lease while a foreign host splits the same one. The host must not
// change a child that the foreign host runs. It must delete the gone lease only if it
// still owns it.
func TestAnswersInASplitBesideAForeignHost(t *testing.T) {
	for name, c := range map[string]struct {
		due    func(w fakeWrite) bool
		script func(leases *fakeStore, w fakeWrite)
		child  string // the owner of child 1 in the end; "ours" means any changefeed host
		parent string // the owner of the gone lease in the end; "-" means that it is deleted
	}{
		"create, success": {isCreate, func(*fakeStore, fakeWrite) {}, "ours", "-"},
		"create, exists: a foreign host runs it": {isCreate, func(s *fakeStore, w fakeWrite) {
			l := w.lease
			l.Owner, l.Continuation, l.Properties = foreigner, "1", nil
			s.appear(l)
		}, foreigner, "-"},
		"create, exists: a foreign host has stolen the parent and split it": {isCreate, func(s *fakeStore, w fakeWrite) {
			l := w.lease
			l.Owner = foreigner
			s.appear(l)
			s.edit("0", theirs)
		}, foreigner, foreigner},
		"delete, not found": {isDelete, func(s *fakeStore, _ fakeWrite) { s.vanish("0") }, "ours", "-"},
		"delete, conflict: stolen": {isDelete, func(s *fakeStore, _ fakeWrite) {
			s.edit("0", theirs)
		}, "", foreigner},
		"delete, conflict: mine": {isDelete, func(s *fakeStore, _ fakeWrite) {
			s.edit("0", func(l *lease.Lease) { l.Properties = map[string]string{"note": "x"} })
		}, "ours", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, leases := onePartition(3), newFakeStore()
				r, said := idle(t, leases, Config{Source: source, Start: fromBeginning})
				mine := leases.doc("0").Owner
				meanwhile(leases, c.due, func(w fakeWrite) error { c.script(leases, w); return nil })
				source.split("0", "1", "2")
				pause(30 * time.Second)
				child, want := leases.doc("1"), c.child
				if want == "ours" {
					want = mine
				}
				if child.ID == "" || child.Owner != want {
					t.Errorf("child 1 is %+v; want it %q's", child, want)
				}
				parent := leases.doc("0")
				if c.parent == "-" != (parent.ID == "") || c.parent != "-" && parent.Owner != c.parent {
					t.Errorf("the gone lease is %+v; want it %q's", parent, c.parent)
				}
				if n := len(said.of(Failed)); n != 0 {
					t.Errorf("%d failures: %+v", n, said.of(Failed))
				}
				if err := r.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The store refuses every write of a host with 403. The host must notify the error, keep
// working until its trust ends, and then stop. It must not write to the lease of the next
// owner.
func TestRevokedRightsAreNotifiedAndTrustEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := newFakeStore()
		_, said := idle(t, leases, Config{AcquireInterval: time.Hour})
		forbidden := errors.New("403: the key may not write")
		leases.setBefore(func(fakeWrite) error { return forbidden })
		pause(50 * time.Second)
		if failed := said.of(Failed); len(failed) == 0 || !errors.Is(failed[0].Err, forbidden) || len(said.of(Released)) != 0 {
			t.Errorf("%+v", said.all)
		}
		pause(20 * time.Second)
		if released := said.of(Released); len(released) != 1 || released[0].Reason != Lost {
			t.Errorf("%+v after trust has ended", released)
		}
		leases.edit("0", theirs)
		pause(time.Minute)
		if doc := leases.doc("0"); doc.Owner != foreigner {
			t.Errorf("%+v", doc)
		}
	})
}

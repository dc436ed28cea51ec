package leasetest

import (
	"context"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// sharingCases returns the cases in which several hosts, or several processors, share a
// lease container.
func sharingCases() []testCase {
	return []testCase{
		{name: "hosts of one processor see each other's writes", run: hostsShare},
		{name: "processors do not see each other's leases", run: processorsApart},
		{name: "a recreated container has new leases", run: containerAnew},
		{name: "the container's id is the same for every host", run: containerID},
		{name: "one key has the same leases in any case of the host", run: hostCase},
		{name: "leases under another account host are found", run: otherHosts},
	}
}

func hostsShare(s *suite) {
	other := s.open(key("projector"))
	l := s.create(s.whole("0"))
	s.mark(true)
	seen := s.listOf(other)
	if len(seen.Leases) != 1 || !seen.Initialized.Equal(s.list().Initialized) {
		s.Fatalf("another host sees %d leases and a marker of %v", len(seen.Leases), seen.Initialized)
	}
	s.wantSame("the lease that another host sees", seen.Leases[0], l)
	theirs, err := other.Update(s.ctx, protocol.Acquired(seen.Leases[0], owner(2)))
	if err != nil {
		s.Fatalf("update by another host: %v", err)
	}
	_, err = s.store.Update(s.ctx, protocol.Acquired(l, owner(1)))
	s.wantConflict("update after another host's", err, theirs)
	s.wantListed(theirs)
}

// processorsApart checks that processors with similar names do not see each other's
// leases. Some of the names are prefixes of others, because ids contain the names.
func processorsApart(s *suite) {
	names := []string{"projector", "project", "projector2", "", "."}
	stores := map[string]lease.Store{}
	for i, name := range names {
		stores[name] = s.open(key(name))
		if _, err := stores[name].Create(s.ctx, protocol.Acquired(s.whole("0"), owner(uint32(i)))); err != nil {
			s.Fatalf("create a lease of processor %q beside others: %v", name, err)
		}
	}
	if err := stores["project"].SetInitialized(s.ctx, true); err != nil {
		s.Fatal(err)
	}
	ids := map[string]bool{}
	for i, name := range names {
		l := s.listOf(stores[name])
		if len(l.Leases) != 1 || l.Leases[0].Owner != owner(uint32(i)) {
			s.Fatalf("processor %q sees %+v; want its one lease", name, l.Leases)
		}
		if marked := !l.Initialized.IsZero(); marked != (name == "project") {
			s.Errorf("processor %q sees a marker: %t", name, marked)
		}
		if ids[l.Leases[0].ID] {
			s.Errorf("two processors have a document %s", l.Leases[0].ID)
		}
		ids[l.Leases[0].ID] = true
	}
	if err := stores["projector"].Delete(s.ctx, s.listOf(stores["projector"]).Leases[0]); err != nil {
		s.Fatal(err)
	}
	for _, name := range names[1:] {
		if n := len(s.listOf(stores[name]).Leases); n != 1 {
			s.Errorf("after another processor's delete %q sees %d leases", name, n)
		}
	}
}

// containerAnew checks that the processor of a recreated monitored container finds no
// leases. The positions of the deleted container mean nothing in the new one.
func containerAnew(s *suite) {
	s.create(protocol.At(s.whole("0"), `"4711"`))
	s.mark(true)
	anew := key("projector")
	anew.Identity.ContainerRID = "O7RwAPcSxoI="
	if s.dialect() == lease.JavaHandleChanges {
		// The ids of this dialect contain names and no rids, so a recreated container of
		// the same names finds the old leases.
		if l := s.listOf(s.open(anew)); len(l.Leases) != 1 {
			s.Errorf("the container of the same names has %d leases", len(l.Leases))
		}
		anew.Identity.Container = "others"
	}
	if l := s.listOf(s.open(anew)); len(l.Leases) != 0 || !l.Initialized.IsZero() {
		s.Errorf("the recreated container has %d leases and a marker of %v", len(l.Leases), l.Initialized)
	}
	elsewhere := key("projector")
	elsewhere.Identity.AccountHost = "other.example.com"
	if l := s.listOf(s.open(elsewhere)); len(l.Leases) != 0 {
		s.Errorf("the container of another account has %d leases", len(l.Leases))
	}
}

// otherHosts checks that a store finds leases of its processor and container under other
// account hosts, and no others. The method is optional.
func otherHosts(s *suite) {
	type finder interface {
		OtherHosts(ctx context.Context) ([]string, error)
	}
	if _, ok := s.store.(finder); !ok {
		s.Skip("the store has no method OtherHosts")
	}
	at := func(processor, host string) finder {
		k := key(processor)
		if host != "" {
			k.Identity.AccountHost = host
		}
		store := s.open(k)
		if _, err := store.Create(s.ctx, s.whole("0")); err != nil {
			s.Fatal(err)
		}
		found, ok := store.(finder)
		if !ok {
			s.Fatal("only some stores of the container have the method OtherHosts")
		}
		return found
	}
	want := func(store finder, hosts ...string) {
		s.Helper()
		if got, err := store.OtherHosts(s.ctx); err != nil || !slices.Equal(got, hosts) {
			s.Errorf("the other hosts are %q, %v; want %q", got, err, hosts)
		}
	}
	here := at("projector", "")
	at("project", "")
	at("projector2", "")
	want(here)
	there := at("projector", "127.0.0.1")
	want(here, "127.0.0.1")
	want(there, key("projector").Identity.AccountHost)
	at("projector", "localhost")
	want(here, "127.0.0.1", "localhost")
}

// containerID checks that every store of a lease container reports the same container id.
// A processor compares it with the id of the monitored container.
func containerID(s *suite) {
	id := func(store lease.Store) feed.ContainerID {
		s.Helper()
		identifier, ok := store.(feed.Identifier)
		if !ok {
			s.Skip("the store is not a feed.Identifier")
		}
		id, err := identifier.ContainerID(s.ctx)
		if err != nil || id.Account == "" || id.RID == "" {
			s.Fatalf("the container is %+v, %v; want the names of an account and a container", id, err)
		}
		return id
	}
	first := id(s.store)
	s.create(s.whole("0"))
	if second := id(s.open(key("other"))); second != first {
		s.Errorf("the container is %+v, and %+v to another processor", first, second)
	}
}

// hostCase checks account hosts that differ only in upper and lower case. A dialect may
// treat them as one account or as two, but must do so in every listing.
func hostCase(s *suite) {
	upper := key("projector")
	upper.Identity.AccountHost = strings.ToUpper(upper.Identity.AccountHost)
	s.create(s.whole("0"))
	first, second := s.listOf(s.open(upper)).Leases, s.listOf(s.open(upper)).Leases
	same := func(a, b lease.Lease) bool { return a.ID == b.ID && a.ETag == b.ETag }
	if !slices.EqualFunc(first, second, same) {
		s.Errorf("the same key has leases %+v, then %+v", first, second)
	}
	if len(first) == 1 && first[0].ID != s.list().Leases[0].ID {
		s.Errorf("one lease has the ids %s and %s", first[0].ID, s.list().Leases[0].ID)
	}
}

package leasetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// suite is the state of one running case: the fixture, and the open store of the
// processor "projector".
type suite struct {
	*testing.T
	Fixture
	ctx   context.Context
	store lease.Store
}

// key returns the lease key of a processor. All keys have the same monitored container.
func key(processor string) lease.Key {
	return lease.Key{Processor: processor, Identity: feed.Identity{
		AccountHost: "account.example.com",
		Database:    "db", DatabaseRID: "O7RwAA==", Container: "items", ContainerRID: "O7RwAKylJbY=",
	}}
}

// owner returns the owner text of host n.
func owner(n uint32) string { return protocol.NewOwner("host", n) }

// dialect returns the dialect of the container under test, which determines the leases
// that it can represent.
func (s *suite) dialect() lease.Dialect { return s.Container.Dialect() }

// whole returns a new lease of the whole partition id. In JavaLatestVersion, which has no
// such leases, it returns a lease of a range of keys. token returns the token of that
// lease.
func (s *suite) whole(id string) lease.Lease {
	if s.dialect() == lease.JavaLatestVersion {
		return s.part(fmt.Sprintf("%X", id), fmt.Sprintf("%XFF", id))
	}
	return lease.Lease{Token: id, PartitionID: id, Range: feed.Full()}
}

func (s *suite) token(id string) string { return s.whole(id).Token }

// part returns a new lease of the keys between from and to. In JavaHandleChanges, which
// has no such leases, it returns a lease of a whole partition.
func (s *suite) part(from, to string) lease.Lease {
	r := feed.Range{Min: from, Max: to}
	if s.dialect() == lease.JavaHandleChanges {
		return lease.Lease{Token: from + to, PartitionID: from + to, Range: r}
	}
	return lease.Lease{Token: r.String(), Range: r}
}

func (s *suite) open(k lease.Key) lease.Store {
	s.Helper()
	store, err := s.Container.Open(s.ctx, k)
	if err != nil {
		s.Fatalf("open the leases of %q: %v", k.Processor, err)
	}
	return store
}

func (s *suite) list() lease.Listing {
	s.Helper()
	return s.listOf(s.store)
}

// listOf returns the listing of a store, sorted by token. It checks that every lease has
// an ID, a token and an ETag, and is listed once.
func (s *suite) listOf(store lease.Store) lease.Listing {
	s.Helper()
	l, err := store.List(s.ctx)
	if err != nil {
		s.Fatalf("list: %v", err)
	}
	ids, tokens := map[string]bool{}, map[string]bool{}
	for _, x := range l.Leases {
		if x.ID == "" || x.Token == "" || x.ETag == "" {
			s.Fatalf("a listing has a lease without ID, Token or ETag: %+v", x)
		}
		if ids[x.ID] || tokens[x.Token] {
			s.Fatalf("a listing has lease %s twice", x.Token)
		}
		ids[x.ID], tokens[x.Token] = true, true
	}
	slices.SortFunc(l.Leases, func(a, b lease.Lease) int { return strings.Compare(a.Token, b.Token) })
	return l
}

// find returns the lease with the token from a new listing. The case fails if there is
// none.
func (s *suite) find(token string) lease.Lease {
	s.Helper()
	for _, l := range s.list().Leases {
		if l.Token == token {
			return l
		}
	}
	s.Fatalf("the listing does not have lease %s", token)
	return lease.Lease{}
}

func (s *suite) create(l lease.Lease) lease.Lease {
	s.Helper()
	made, err := s.store.Create(s.ctx, l)
	if err != nil {
		s.Fatalf("create lease %s: %v", l.Token, err)
	}
	s.checkAnswer(l, made)
	return made
}

func (s *suite) update(l lease.Lease) lease.Lease {
	s.Helper()
	written, err := s.store.Update(s.ctx, l)
	if err != nil {
		s.Fatalf("update lease %s: %v", l.Token, err)
	}
	s.checkAnswer(l, written)
	if written.ETag == l.ETag {
		s.Fatalf("an update of lease %s did not change its ETag %s", l.Token, l.ETag)
	}
	if written.ID != l.ID {
		s.Fatalf("an update turned lease %s into %s", l.ID, written.ID)
	}
	return written
}

func (s *suite) delete(l lease.Lease) {
	s.Helper()
	if err := s.store.Delete(s.ctx, l); err != nil {
		s.Fatalf("delete lease %s: %v", l.Token, err)
	}
}

// checkAnswer checks the lease answer that a write of given has returned. It must equal
// given, apart from the fields that the store sets.
func (s *suite) checkAnswer(given, answer lease.Lease) {
	s.Helper()
	if answer.ID == "" || answer.ETag == "" {
		s.Fatalf("the answer has ID %q and ETag %q", answer.ID, answer.ETag)
	}
	if given.ID == "" {
		given.ID = answer.ID
	}
	given = s.codec().Stamped(given)
	given.ETag, given.Modified = answer.ETag, answer.Modified
	s.wantSame("the returned lease", answer, given)
}

// wantSame checks that the exported fields of two leases are equal. Timestamp may have
// fewer digits in got, because nothing depends on it.
func (s *suite) wantSame(what string, got, want lease.Lease) {
	s.Helper()
	if s.dialect() == lease.JavaHandleChanges && (got.Range.IsZero() || want.Range.IsZero()) {
		want.Range = got.Range // documents of this dialect contain no range
	}
	near := got.Timestamp.Sub(want.Timestamp).Abs() <= time.Millisecond
	if got.ID != want.ID || got.Token != want.Token || got.PartitionID != want.PartitionID ||
		got.Range != want.Range || got.Owner != want.Owner || got.Continuation != want.Continuation ||
		got.Mode != want.Mode || !maps.Equal(got.Properties, want.Properties) || !near ||
		!got.Modified.Equal(want.Modified) || got.ETag != want.ETag {
		s.Errorf("%s is\n%+v; want\n%+v", what, got, want)
	}
}

// wantListed checks that a new listing contains exactly the leases in want.
func (s *suite) wantListed(want ...lease.Lease) {
	s.Helper()
	got := s.list().Leases
	if len(got) != len(want) {
		s.Fatalf("the listing has %d leases; want %d", len(got), len(want))
	}
	slices.SortFunc(want, func(a, b lease.Lease) int { return strings.Compare(a.Token, b.Token) })
	for i := range got {
		s.wantSame("the listed lease", got[i], want[i])
	}
}

// wantConflict checks that err is a *lease.ConflictError whose Current equals current.
func (s *suite) wantConflict(what string, err error, current lease.Lease) {
	s.Helper()
	var conflict *lease.ConflictError
	if !errors.As(err, &conflict) {
		s.Fatalf("%s: %v; want a *lease.ConflictError", what, err)
	}
	s.wantSame(what+": Current", conflict.Current, current)
}

func (s *suite) wantNotFound(what string, err error) {
	s.Helper()
	if !errors.Is(err, feed.ErrNotFound) {
		s.Fatalf("%s: %v; want feed.ErrNotFound", what, err)
	}
}

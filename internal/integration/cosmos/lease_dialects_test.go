package cosmos_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

var dialects = []lease.Dialect{lease.DotNet, lease.JavaHandleChanges, lease.JavaLatestVersion}

// leaseOf returns a new lease in the form of dialect d. If the dialect has ranges, the
// lease covers the keys between from and to.
func leaseOf(d lease.Dialect, from, to string) lease.Lease {
	r := feed.Range{Min: from, Max: to}
	switch d {
	case lease.JavaHandleChanges:
		return lease.Lease{Token: "0", PartitionID: "0"} // documents of this dialect contain no range
	case lease.JavaLatestVersion:
		return lease.Lease{Token: r.String(), Range: r}
	case lease.DotNet:
	}
	return lease.Lease{Token: "0", PartitionID: "0", Range: r}
}

// both is one lease container that is opened two times: over HTTP and in the process.
type both struct {
	c            *store.Container
	over, within lease.Store
}

func openBoth(t *testing.T, s *changefeedtest.Server, container string, d lease.Dialect) both {
	t.Helper()
	c, err := s.DB.Container(t.Context(), "db", container)
	if err != nil {
		t.Fatal(err)
	}
	over, overErr := account(t, s, cosmos.Options{}).Leases("db", container, cosmos.LeaseOptions{Dialect: d}).Open(t.Context(), fakeKey)
	within, withinErr := s.DB.Leases(c).In(d).Open(t.Context(), fakeKey)
	if err := errors.Join(overErr, withinErr); err != nil {
		t.Fatal(err)
	}
	return both{c, over, within}
}

// document returns the stored document with that id, without the members that the store
// adds.
func (b both) document(t *testing.T, id string) map[string]any {
	t.Helper()
	res, err := b.c.Read(t.Context(), feed.PartitionKey{id}, id, storetype.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(res.Body, &members); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(members, func(name string, _ any) bool { return strings.HasPrefix(name, "_") })
	return members
}

// The test creates, acquires, moves, asks for and releases a lease in each dialect, over
// HTTP and in the process. Both ways must write the same documents and list the same
// leases.
func TestLeasesAreTheSameOverHTTPAndInProcess(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.Name(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
				for _, id := range []string{"leases", "other"} {
					changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{ID: id, KeyPaths: []string{"/id"}, Partitions: 2})
				}
				one, two := openBoth(t, s, "leases", d), openBoth(t, s, "other", d)
				ctx := t.Context()
				life := func(st lease.Store) (l lease.Lease) {
					l, err := st.Create(ctx, leaseOf(d, "", "1FFF"))
					at := time.Date(2026, 11, 21, 11, 0, 0, 123000000, time.UTC)
					for _, next := range []func(lease.Lease) lease.Lease{
						func(l lease.Lease) lease.Lease { return protocol.Acquired(l, protocol.NewOwner("host", 1)) },
						func(l lease.Lease) lease.Lease { return protocol.At(l, `"24"`) },
						func(l lease.Lease) lease.Lease { return protocol.Wanted(l, protocol.NewOwner("host", 2)) },
						func(l lease.Lease) lease.Lease { return protocol.Released(l, `"25"`) },
						func(l lease.Lease) lease.Lease { return protocol.Acquired(l, protocol.NewOwner("host", 2)) },
					} {
						if err != nil {
							t.Fatal(err)
						}
						at = at.Add(13 * time.Second)
						l.Timestamp = at
						l, err = st.Update(ctx, next(l))
					}
					if err == nil {
						err = st.SetInitialized(ctx, true)
					}
					if err != nil {
						t.Fatal(err)
					}
					return l
				}
				a, b := life(one.over), life(two.within)
				if got, want := one.document(t, a.ID), two.document(t, b.ID); !reflect.DeepEqual(got, want) {
					t.Errorf("over HTTP the document is\n%v\nin process\n%v", got, want)
				}
				got, err := one.over.List(ctx)
				if err != nil {
					t.Fatal(err)
				}
				want, err := one.within.List(ctx)
				if err != nil {
					t.Fatal(err)
				}
				order := func(a, b lease.Lease) int { return cmp.Compare(a.ID, b.ID) }
				slices.SortFunc(got.Leases, order)
				slices.SortFunc(want.Leases, order)
				got.Now, want.Now = got.Now.Truncate(time.Second), want.Now.Truncate(time.Second)
				if !reflect.DeepEqual(got, want) || len(got.Leases) != 1 || got.Initialized.IsZero() {
					t.Errorf("over HTTP the listing is\n%+v\nin process\n%+v", got, want)
				}
				if bound := account(t, s, cosmos.Options{}).Leases("db", "leases", cosmos.LeaseOptions{Dialect: d}); bound.Dialect() != d {
					t.Errorf("the lease container reports the dialect %s", bound.Dialect())
				}
			})
		})
	}
}

// A listing must find leases of the same processor in another dialect, also if their ids
// have another prefix. Its Refusal must name that dialect and the remedy.
func TestLeasesOfAnotherDialectAreRefused(t *testing.T) {
	for _, theirs := range dialects {
		for _, ours := range dialects {
			if ours == theirs {
				continue
			}
			t.Run(theirs.Name()+", "+ours.Name(), func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
					leaseContainer(t, s)
					their, our := openBoth(t, s, "leases", theirs), openBoth(t, s, "leases", ours)
					if _, err := their.over.Create(t.Context(), leaseOf(theirs, "", "FF")); err != nil {
						t.Fatal(err)
					}
					listing, err := our.over.List(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					wantWords(t, protocol.Refusal(listing, ours), theirs.Name(), "convert")
				})
			})
		}
	}
}

package cosmos_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// leasesInWorld opens the leases of an account with three regions, of which east is the
// write region, and creates one lease.
func leasesInWorld(t *testing.T, o cosmos.Options, multiple bool) (*world, lease.Store, lease.Lease) {
	t.Helper()
	w, _ := newWorld(t, o)
	w.multiple = multiple
	leaseContainer(t, w.server)
	o.Transport = w
	opened, err := account(t, w.server, o).Leases("db", "leases", cosmos.LeaseOptions{}).Open(t.Context(), fakeKey)
	if err != nil {
		t.Fatal(err)
	}
	l, err := opened.Create(t.Context(), lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()})
	if err != nil {
		t.Fatal(err)
	}
	return w, opened, l
}

// Hosts in different regions must see each other's writes, so every request for leases goes
// to the write region, also the read after a refused write.
func TestLeasesAreReadAndWrittenInTheWriteRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, opened, l := leasesInWorld(t, cosmos.Options{PreferredRegions: []string{"North"}}, false)
		if _, err := opened.Update(t.Context(), protocol.Acquired(l, protocol.NewOwner("host", 1))); err != nil {
			t.Fatal(err)
		}
		if _, err := opened.Update(t.Context(), protocol.Acquired(l, protocol.NewOwner("host", 2))); !isConflict(err) {
			t.Errorf("a second write with the old etag: %v; want a conflict", err)
		}
		if _, err := opened.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		if regions, _ := w.taken(); regions != "east east east east east east" {
			t.Errorf("the regions %q were asked; want east alone", regions)
		}
	})
}

// The write region changes. The write that is refused for that must succeed in the new one,
// because the lease would expire while somebody looks into it.
func TestAWriteOfALeaseFollowsTheWriteRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, opened, l := leasesInWorld(t, cosmos.Options{}, false)
		w.taken()
		w.mu.Lock()
		w.regions = []string{"north", "east", "west"}
		w.mu.Unlock()
		w.fail(w.host("east"), trouble{status: 403, sub: 3})
		if _, err := opened.Update(t.Context(), protocol.Acquired(l, protocol.NewOwner("host", 1))); err != nil {
			t.Fatal(err)
		}
		if regions, documents := w.taken(); regions != "east north" || documents != 1 {
			t.Errorf("the regions %q were asked, and the account %d times", regions, documents)
		}
	})
}

// The region of writes cannot be reached. If the account has several, the next one takes the
// write, and later ones go there directly. Otherwise the error is returned at once: the caller
// knows how long its lease lasts.
func TestALeaseIsWrittenToAnotherWriteRegionIfThereIsOne(t *testing.T) {
	for name, multiple := range map[string]bool{"one": false, "several": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, opened, l := leasesInWorld(t, cosmos.Options{}, multiple)
				w.taken()
				w.fail(w.host("east"), trouble{err: unreachable})
				began := time.Now()
				l, err := opened.Update(t.Context(), protocol.Acquired(l, protocol.NewOwner("host", 1)))
				want := "east"
				if multiple {
					want = "east north north"
					if err == nil {
						_, err = opened.Update(t.Context(), l)
					}
				}
				if (err == nil) != multiple || time.Since(began) != 0 {
					t.Errorf("after %s: %v", time.Since(began), err)
				}
				if regions, _ := w.taken(); regions != want {
					t.Errorf("the regions %q were asked; want %q", regions, want)
				}
			})
		})
	}
}

func isConflict(err error) bool {
	_, is := errors.AsType[*lease.ConflictError](err)
	return is
}

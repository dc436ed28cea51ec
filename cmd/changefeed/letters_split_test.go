package main

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/lease"
)

// splitLeases is a lease container that calls made after each lease that was created.
type splitLeases struct {
	lease.Container
	made func()
}

func (s splitLeases) Open(ctx context.Context, k lease.Key) (lease.Store, error) {
	opened, err := s.Container.Open(ctx, k)
	return splitLeaseStore{opened, s}, err
}

type splitLeaseStore struct {
	lease.Store
	of splitLeases
}

func (s splitLeaseStore) Create(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	made, err := s.Store.Create(ctx, l)
	s.of.made()
	return made, err
}

// The owner of a lease whose partition was split may have made the children when the command
// writes its request into the lease. The children's owners know nothing of that, and hand the
// letters out all the same, also if nothing is parked.
func TestLettersRedriveDuringASplitIsNotLost(t *testing.T) {
	for _, park := range []changefeed.Park{changefeed.ParkNone, changefeed.ParkKey} {
		t.Run(park.String(), func(t *testing.T) {
			m := newMailer(t)
			m.park = park
			redrive := sync.OnceFunc(func() {
				if code, out, errOut := m.run("letters", "redrive", "--all", "--yes"); code != exitOK {
					t.Errorf("status %d: %s%s", code, out, errOut)
				}
			})
			var made func()
			m.change = func(c *changefeed.Config) {
				c.AcquireInterval = 500 * time.Millisecond
				c.Leases = splitLeases{c.Leases, func() {
					m.mu.Lock()
					call := made
					m.mu.Unlock()
					if call != nil {
						call()
					}
				}}
			}
			defer m.start()()
			m.breaks("a1")
			m.write("ada", "a1")
			m.breaks()
			m.mu.Lock()
			made = redrive
			m.mu.Unlock()
			live, err := m.orders.Partitions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.orders.Split(t.Context(), live[0].ID, ""); err != nil {
				t.Fatal(err)
			}
			m.until(func() bool { return m.letterList() == "" })
		})
	}
}

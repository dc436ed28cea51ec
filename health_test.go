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
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// unlisted is a lease container whose List fails while down is true.
type unlisted struct {
	*fakeStore
	down atomic.Bool
}

func (u *unlisted) Open(context.Context, lease.Key) (lease.Store, error) { return u, nil }

func (u *unlisted) List(ctx context.Context) (lease.Listing, error) {
	if u.down.Load() {
		return lease.Listing{}, errors.New("503")
	}
	return u.fakeStore.List(ctx)
}

// probed runs a processor until the test ends. It checks that Healthy returns an error
// before Run and after it.
func probed(t *testing.T, cfg Config) *Processor {
	t.Helper()
	cfg.Processor, cfg.Instance, cfg.seed = "test", "host", 1
	if cfg.Handler == nil {
		cfg.Handler = &collector{}
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Healthy(); err == nil {
		t.Error("healthy before Run")
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !strings.Contains(err.Error(), "listed the leases once") { // some tests never let it
			t.Error(err)
		}
		if err := p.Healthy(); err == nil {
			t.Error("healthy after Run")
		}
	})
	return p
}

// expect checks the result of Healthy. If problem is empty, it must be nil. Otherwise it
// must be an error that contains problem.
func expect(t *testing.T, p *Processor, problem string) {
	t.Helper()
	synctest.Wait()
	switch err := p.Healthy(); {
	case problem == "" && err != nil:
		t.Errorf("not healthy: %v", err)
	case problem != "" && (err == nil || !strings.Contains(err.Error(), problem)):
		t.Errorf("%v does not contain %q", err, problem)
	}
}

func TestProcessorThatCannotListIsUnhealthyAfterTwoExpirations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := &unlisted{fakeStore: newFakeStore()}
		leases.down.Store(true)
		p := probed(t, Config{Source: onePartition(10), Leases: leases})
		pause(119 * time.Second)
		expect(t, p, "") // a new processor may take two expirations to list
		pause(2 * time.Second)
		expect(t, p, "the leases could not be listed for 2m")
		leases.down.Store(false)
		pause(20 * time.Second)
		expect(t, p, "")
		leases.down.Store(true)
		pause(90 * time.Second) // the lease is still renewed
		expect(t, p, "")
		pause(60 * time.Second)
		expect(t, p, "the leases could not be listed for 2m")
	})
}

func TestProcessorThatCannotOpenItsLeasesIsUnhealthyAfterTwoExpirations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := probed(t, Config{Source: onePartition(10), Leases: unopened{}})
		pause(110 * time.Second)
		expect(t, p, "")
		pause(20 * time.Second)
		expect(t, p, "could not be listed")
	})
}

type unopened struct{}

func (unopened) Dialect() lease.Dialect { return lease.DotNet }

func (unopened) Open(context.Context, lease.Key) (lease.Store, error) { return nil, errors.New("503") }

func TestProcessorWhoseReadsFailOrHangIsUnhealthyUntilOneSucceeds(t *testing.T) {
	for name, fail := range map[string]func(down func() bool) error{
		"fail": func(func() bool) error { return errors.New("503") },
		"hang": func(down func() bool) error {
			for down() {
				time.Sleep(time.Second) // a source that ignores its context
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				down := func() bool { d := time.Since(began); return d > time.Minute && d < 5*time.Minute }
				source := newFakeSource("0")
				slow := &slowSource{fakeSource: source, before: func() error {
					if down() {
						return fail(down)
					}
					return nil
				}}
				p := probed(t, Config{Source: slow, Leases: newFakeStore()})
				pause(3 * time.Minute) // reads have failed for two of the three minutes
				expect(t, p, "")
				pause(30 * time.Second)
				expect(t, p, "lease 0 could not be read for 2m")
				pause(3 * time.Minute)
				expect(t, p, "")
			})
		})
	}
}

// slowSource is a source that calls the function before ahead of each read.
type slowSource struct {
	*fakeSource
	before func() error
}

func (s *slowSource) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	if err := s.before(); err != nil {
		return feed.Page{}, err
	}
	return s.fakeSource.Read(ctx, r)
}

func TestProcessorWhoseLeaseWritesOnlyFailIsUnhealthyThoughItLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := newFakeStore()
		p := probed(t, Config{Source: onePartition(10), Leases: leases})
		pause(time.Minute)
		leases.setBefore(func(fakeWrite) error { return errors.New("403: writes are forbidden") })
		pause(100 * time.Second)
		expect(t, p, "")
		pause(100 * time.Second)
		expect(t, p, "lease writes have failed for")
		leases.setBefore(nil)
		pause(30 * time.Second)
		expect(t, p, "")
	})
}

// A host loses its lease to another host after its last write failed. While the other
// host keeps the lease, the first host has nothing to write. It must be healthy.
func TestHostWithoutLeasesIsHealthyThoughItsLastWriteFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := newFakeStore()
		p := probed(t, Config{Source: onePartition(10), Leases: leases})
		pause(time.Minute)
		leases.setBefore(func(fakeWrite) error { return errors.New("503") })
		pause(70 * time.Second) // the lease is lost
		other := protocol.NewOwner("other", 7)
		for range 60 { // another host keeps it
			leases.edit("0", func(l *lease.Lease) { l.Owner = other })
			pause(10 * time.Second)
			expect(t, p, "")
		}
	})
}

func TestProcessorThatCannotReplaceAGoneLeaseIsUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &lostPartitions{fakeSource: onePartition(10)}
		p := probed(t, Config{Source: source, Leases: newFakeStore()})
		pause(time.Minute)
		source.mu.Lock()
		source.fail = func(_ int, r feed.Request) error { return &feed.GoneError{Partition: r.Partition.ID} }
		source.down = true
		source.mu.Unlock()
		pause(100 * time.Second)
		expect(t, p, "")
		pause(40 * time.Second)
		expect(t, p, "no leases took over from 0")
	})
}

// lostPartitions is a source that cannot list its partitions while down is true.
type lostPartitions struct {
	*fakeSource
	down bool
}

func (s *lostPartitions) Partitions(ctx context.Context) ([]feed.Partition, error) {
	s.mu.Lock()
	down := s.down
	s.mu.Unlock()
	if down {
		return nil, errors.New("503")
	}
	return s.fakeSource.Partitions(ctx)
}

func TestHandlerThatWorksForLongIsHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := probed(t, Config{
			Source: onePartition(10), Leases: newFakeStore(), Start: fromBeginning, ReadAhead: -1, DrainTimeout: time.Hour,
			Handler: &collector{took: 20 * time.Minute},
		})
		for range 15 {
			pause(time.Minute)
			expect(t, p, "")
		}
	})
}

// Another host wins every race for the lease, so every write of this host is a conflict.
// A conflict proves that the store works, so the host must be healthy.
func TestHostWhoseLeaseWritesMeetConflictsIsHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, conflicts := newFakeStore(), 0
		leases.before = func(w fakeWrite) error {
			if w.op != "update" {
				return nil
			}
			conflicts++
			w.lease.Owner = protocol.NewOwner("other", 7)
			return &lease.ConflictError{Current: w.lease}
		}
		p := probed(t, Config{Source: onePartition(10), Leases: leases})
		for range 60 {
			pause(10 * time.Second)
			expect(t, p, "")
		}
		if conflicts < 20 {
			t.Errorf("%d conflicts in 10 minutes", conflicts)
		}
	})
}

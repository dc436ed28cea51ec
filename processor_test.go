package changefeed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// unreachable is a source and a lease container that refuse connections.
type unreachable struct {
	*fakeSource
	*fakeStore
	source, leases error
}

func (u unreachable) Identity(ctx context.Context) (feed.Identity, error) {
	if u.source != nil {
		return feed.Identity{}, u.source
	}
	return u.fakeSource.Identity(ctx)
}

func (u unreachable) Open(context.Context, lease.Key) (lease.Store, error) { return u, nil }

func (u unreachable) List(ctx context.Context) (lease.Listing, error) {
	if ctx.Err() != nil {
		return lease.Listing{}, ctx.Err()
	}
	return lease.Listing{}, u.leases
}

// closedStore is a lease container that cannot be opened.
type closedStore struct {
	*fakeStore
	err error
}

func (s closedStore) Open(context.Context, lease.Key) (lease.Store, error) { return nil, s.err }

// An error that ends the start shows which of the two containers is at fault.
func TestErrorOfTheStartNamesTheContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		missing := fmt.Errorf("it: %w", feed.ErrNotFound)
		source, leases := newFakeSource("0"), newFakeStore()
		run := func(source feed.Source, leases lease.Container) error {
			r := start(t, Config{Source: source, Leases: leases, Handler: &collector{}})
			pause(time.Second)
			return r.end()
		}
		err := run(unreachable{fakeSource: source, source: missing}, leases)
		if failed, ok := errors.AsType[*SourceError](err); !ok || !errors.Is(failed.Err, feed.ErrNotFound) {
			t.Errorf("a missing source: %v", err)
		}
		err = run(source, closedStore{leases, missing})
		if failed, ok := errors.AsType[*LeaseStoreError](err); !ok || !errors.Is(failed.Err, feed.ErrNotFound) {
			t.Errorf("a missing lease container: %v", err)
		}
	})
}

// A run that never reached its leases must say so when it is stopped. With nil, a wrong
// address would look like a quiet container.
func TestRunThatNeverListedTheLeasesReturnsAnError(t *testing.T) {
	refused := errors.New("connection refused")
	for name, u := range map[string]unreachable{
		"source": {source: refused},
		"leases": {leases: refused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u.fakeSource, u.fakeStore = newFakeSource("0"), newFakeStore()
				r := start(t, Config{Source: u, Leases: u, Handler: &collector{}})
				pause(time.Minute)
				err := r.end()
				if !errors.Is(err, refused) || !strings.Contains(err.Error(), "had listed the leases") {
					t.Errorf("Run returned %v", err)
				}
			})
		})
	}
	t.Run("at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, err := New(Config{Processor: "test", Source: newFakeSource("0"), Leases: newFakeStore(), Handler: &collector{}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			stop() // before Run, which could otherwise list the leases first
			if err := p.Run(ctx); err == nil {
				t.Error("a run that was stopped at once has listed no leases and returned nil")
			}
		})
	})
}

// The log alone must show where a handler has panicked.
func TestStackOfAPanicIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, text := logged()
		idle(t, newFakeStore(), Config{
			Source: onePartition(1), Start: fromBeginning, Logger: logger, Handler: HandlerFunc(panicsHere),
		})
		if !strings.Contains(text(), "panicsHere") {
			t.Errorf("the log does not name the function that panicked:\n%s", text())
		}
	})
}

// A change that is given up, and a pause of the letters, show where the handler has panicked, too.
func TestStackOfAPanicIsLoggedWithLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, text := logged()
		cfg := withLetters(Config{Source: onePartition(2), Logger: logger, Handler: HandlerFunc(panicsHere)}, newPost(), 1)
		cfg.Failure.Breaker = Breaker{Letters: 1}
		idle(t, newFakeStore(), cfg)
		pause(time.Minute)
		for _, what := range []string{`msg="change given up`, `msg="the handler fails with everything`} {
			if !slices.ContainsFunc(strings.Split(text(), "\n"), func(line string) bool {
				return strings.Contains(line, what) && strings.Contains(line, "panicsHere")
			}) {
				t.Errorf("no line with %s names the function that panicked:\n%s", what, text())
			}
		}
	})
}

func panicsHere(context.Context, *Batch) error { panic("out of order") }

// neighbours is a lease store that knows leases under other account hosts.
type neighbours struct{ *fakeStore }

func (n neighbours) Open(context.Context, lease.Key) (lease.Store, error) { return n, nil }

func (neighbours) OtherHosts(context.Context) ([]string, error) { return []string{"127.0.0.1"}, nil }

// Hosts at localhost and at 127.0.0.1 have separate leases, and each group delivers
// everything. Each host says so at its start.
func TestLeasesUnderAnotherAccountHostAreNamedAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, text := logged()
		start(t, Config{Source: newFakeSource("0"), Leases: neighbours{newFakeStore()}, Handler: &collector{}, Logger: logger})
		pause(time.Second)
		if !strings.Contains(text(), "level=WARN") || !strings.Contains(text(), "host=localhost other=127.0.0.1") {
			t.Errorf("the log does not name both hosts:\n%s", text())
		}
	})
}

package demo

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// counted is a source and a lease store. It counts the calls of its methods, each of
// which takes a second.
type counted struct {
	feed.Source
	lease.Store
	calls int
}

func (c *counted) Read(context.Context, feed.Request) (feed.Page, error) {
	c.calls++
	time.Sleep(time.Second)
	return feed.Page{}, nil
}

func (c *counted) Update(_ context.Context, l lease.Lease) (lease.Lease, error) {
	c.calls++
	time.Sleep(time.Second)
	return l, nil
}

func TestACrashedHostNeitherReadsNorWritesNorReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newIsolation()
		behind := &counted{}
		source, leases := isolatedSource{Source: behind, isolation: g}, isolatedStore{store: behind, isolation: g}
		if _, err := source.Read(t.Context(), feed.Request{}); err != nil {
			t.Fatal(err)
		}
		if _, err := leases.Update(t.Context(), lease.Lease{}); err != nil {
			t.Fatal(err)
		}
		g.crash()
		before := behind.calls
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := leases.Update(ctx, lease.Lease{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a release after the crash was answered: %v", err)
		}
		if _, err := source.Read(ctx, feed.Request{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a read after the crash was answered: %v", err)
		}
		if behind.calls != before {
			t.Errorf("%d calls came through", behind.calls-before)
		}
	})
}

func TestACallUnderWayAtTheCrashIsNeverAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newIsolation()
		behind := &counted{}
		answer := make(chan error, 1)
		go func() {
			_, err := isolatedStore{store: behind, isolation: g}.Update(t.Context(), lease.Lease{})
			answer <- err
		}()
		synctest.Wait()
		g.crash()
		time.Sleep(time.Hour)
		select {
		case err := <-answer:
			t.Fatalf("answered: %v", err)
		default:
		}
		g.abandon()
		if err := <-answer; !errors.Is(err, errCrashed) || behind.calls != 1 {
			t.Errorf("at the end: %v after %d calls", err, behind.calls)
		}
	})
}

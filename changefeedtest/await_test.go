package changefeedtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// scene is a processor on a store in memory.
type scene struct {
	*testing.T
	orders *store.Container
	cfg    changefeed.Config
	n      int
}

// awaiting returns a scene whose processor runs with a handler and the other fields of cfg.
func awaiting(t *testing.T, cfg changefeed.Config, handle changefeed.HandlerFunc) *scene {
	t.Helper()
	db := changefeedtest.NewStore(t)
	s := &scene{T: t, cfg: cfg}
	s.orders = changefeedtest.NewContainer(t, db, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}, Partitions: 2, Retention: time.Hour})
	leases := changefeedtest.NewContainer(t, db, "shop", storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	s.cfg.Processor, s.cfg.Source, s.cfg.Leases, s.cfg.Handler = "test", db.Source(s.orders), db.Leases(leases), handle
	p, err := changefeed.New(s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// write writes n documents.
func (s *scene) write(n int) {
	s.Helper()
	for range n {
		s.n++
		if _, err := s.orders.Upsert(s.Context(), nil, fmt.Appendf(nil, `{"id":"%d","customer":"%d"}`, s.n, s.n%7), storetype.WriteOptions{}); err != nil {
			s.Fatal(err)
		}
	}
}

func (s *scene) await(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(s.Context(), limit)
	defer cancel()
	return changefeedtest.Await(ctx, s.cfg)
}

func TestAwaitReturnsWhenEverythingWrittenBeforeWasHandled(t *testing.T) {
	for name, cfg := range map[string]changefeed.Config{
		"from the beginning":   {Start: feed.Beginning()},
		"deferred checkpoints": {Start: feed.Beginning(), Checkpoint: changefeed.Checkpointing{Interval: time.Minute}},
		"all hidden":           {Start: feed.Beginning(), Filter: func(feed.Change) bool { return false }},
		"a part of the keys":   {Start: feed.Beginning(), Range: feed.Range{Min: "10", Max: "30"}},
		"all versions":         {Mode: feed.AllVersionsAndDeletes},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var handled atomic.Int64
				s := awaiting(t, cfg, func(_ context.Context, b *changefeed.Batch) error {
					time.Sleep(time.Duration(len(b.Changes)) * time.Second)
					handled.Add(int64(len(b.Changes)))
					return nil
				})
				if cfg.Mode == feed.AllVersionsAndDeletes { // it starts now, so the leases must exist before the writes
					if err := s.await(time.Minute); err != nil {
						t.Fatal(err)
					}
				}
				for range 3 {
					s.write(50)
					if s.n == 100 {
						if _, err := s.orders.Split(t.Context(), "0", ""); err != nil {
							t.Fatal(err)
						}
					}
					if err := s.await(time.Hour); err != nil {
						t.Fatal(err)
					}
					if got := handled.Load(); cfg.Filter == nil && cfg.Range.IsZero() && got != int64(s.n) {
						t.Errorf("%d of %d changes were handled", got, s.n)
					}
				}
			})
		})
	}
}

// splittingSource splits a partition after the first listing of the partitions.
type splittingSource struct {
	feed.Source
	split func() error
}

func (s *splittingSource) Partitions(ctx context.Context) ([]feed.Partition, error) {
	all, err := s.Source.Partitions(ctx)
	split := s.split
	if s.split = nil; split != nil {
		err = errors.Join(err, split())
	}
	return all, err
}

func TestAwaitSurvivesASplitWhileItFindsTheEndsOfTheFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled atomic.Int64
		s := awaiting(t, changefeed.Config{Start: feed.Beginning()}, func(_ context.Context, b *changefeed.Batch) error {
			handled.Add(int64(len(b.Changes)))
			return nil
		})
		s.write(50)
		s.cfg.Source = &splittingSource{Source: s.cfg.Source, split: func() error {
			_, err := s.orders.Split(t.Context(), "0", "")
			return err
		}}
		if err := s.await(time.Hour); err != nil || handled.Load() != 50 {
			t.Errorf("%v, after %d of 50 changes", err, handled.Load())
		}
	})
}

// Changes that are written during the wait do not prolong it.
func TestAwaitDoesNotChaseTheEndOfTheFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := awaiting(t, changefeed.Config{Start: feed.Beginning(), MaxItems: 1}, func(context.Context, *changefeed.Batch) error {
			time.Sleep(time.Second)
			return nil
		})
		s.write(10)
		over, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				select {
				case <-over:
					return
				case <-time.After(100 * time.Millisecond):
					s.write(1)
				}
			}
		}()
		if err := s.await(time.Minute); err != nil {
			t.Error(err)
		}
		close(over)
		<-ended
	})
}

func TestAwaitSaysWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := awaiting(t, changefeed.Config{Start: feed.Beginning()}, func(context.Context, *changefeed.Batch) error { return errors.New("no") })
		s.write(1)
		err := s.await(time.Minute)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "has not handled the change at LSN 1; it waits for LSN 1") {
			t.Error(err)
		}
	})
}

func TestAwaitReturnsWhenALeaseIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := awaiting(t, changefeed.Config{Start: feed.Beginning()}, func(context.Context, *changefeed.Batch) error {
			return changefeed.Stop(errors.New("the table is gone"))
		})
		s.write(1)
		began := time.Now()
		if err := s.await(time.Hour); err == nil || !strings.Contains(err.Error(), "is stopped") || !strings.Contains(err.Error(), "the table is gone") {
			t.Error(err)
		}
		if time.Since(began) > time.Minute {
			t.Errorf("it returned after %s", time.Since(began))
		}
	})
}

// The leases of a processor that never ran do not exist.
func TestAwaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := awaiting(t, changefeed.Config{Start: feed.Beginning()}, func(context.Context, *changefeed.Batch) error { return nil })
		s.cfg.Processor = "another"
		if err := s.await(time.Minute); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no host has created them") {
			t.Error(err)
		}
	})
}

// This example waits for the handler without sleeping. In a synctest bubble it takes no time.
func ExampleAwait() {
	run(func(t *testing.T) {
		total := 0
		s := awaiting(t, changefeed.Config{Start: feed.Beginning()}, func(_ context.Context, b *changefeed.Batch) error {
			total += len(b.Changes) // one partition has all documents of this customer
			return nil
		})
		if _, err := s.orders.Upsert(t.Context(), nil, []byte(`{"id":"1","customer":"ada"}`), storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := changefeedtest.Await(t.Context(), s.cfg); err != nil {
			t.Fatal(err)
		}
		fmt.Println(total)
	})
	// Output: 1
}

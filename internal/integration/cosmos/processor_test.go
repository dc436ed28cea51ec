package cosmos_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/storetype"
)

// The tests in this file are specific to package cosmos. Package changefeedtest has the
// tests of the processor over HTTP.

// delivered is a handler that counts the deliveries of each change, by the ID of its
// item.
type delivered struct {
	mu     sync.Mutex // guards counts
	counts map[string]int
}

func (d *delivered) Handle(_ context.Context, b *changefeed.Batch) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range b.Changes {
		id, err := b.Changes[i].ID()
		if err != nil {
			return err
		}
		d.counts[id]++
	}
	return nil
}

// wantOnce checks that each of n changes was delivered exactly once.
func (d *delivered) wantOnce(t *testing.T, when string, n int) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.counts) != n {
		t.Errorf("%s: %d of %d changes are delivered", when, len(d.counts), n)
	}
	for id, times := range d.counts {
		if times != 1 {
			t.Errorf("%s: %s is delivered %d times", when, id, times)
		}
	}
}

// host runs a processor until stop is called. stop returns the result of Run.
func host(t *testing.T, cfg changefeed.Config) (stop func() error) {
	t.Helper()
	p, err := changefeed.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = stop() })
	return stop
}

// Two hosts share the leases of each dialect on one account. A partition splits, two
// merge if the dialect supports it, and one host stops. Every change must be delivered
// exactly once.
func TestHostsShareLeasesOfEachDialect(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.Name(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
				leaseContainer(t, s)
				c := changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{ID: "items", KeyPaths: []string{"/id"}, Partitions: 2})
				got, written := &delivered{counts: map[string]int{}}, 0
				write := func() {
					for range 40 {
						written++
						if _, err := c.Upsert(t.Context(), nil, fmt.Appendf(nil, `{"id":"item-%d"}`, written), storetype.WriteOptions{}); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(2 * time.Minute)
					synctest.Wait()
				}
				start := func(instance string) func() error {
					a := account(t, s, cosmos.Options{})
					return host(t, changefeed.Config{
						Processor: "p", Instance: instance, Handler: got, Start: feed.Beginning(),
						Source: a.Source("db", "items", cosmos.SourceOptions{Dialect: d}),
						Leases: a.Leases("db", "leases", cosmos.LeaseOptions{Dialect: d}),
					})
				}
				first := start("first")
				write()
				second := start("second")
				write()
				got.wantOnce(t, "shared", written)
				made := s.Split("db", "items", s.Partitions("db", "items")[0].ID)
				write()
				got.wantOnce(t, "after a split", written)
				if d != lease.JavaHandleChanges {
					s.Merge("db", "items", made[0].ID, made[1].ID)
					write()
					got.wantOnce(t, "after a merge", written)
				}
				if err := first(); err != nil {
					t.Errorf("the first host: %v", err)
				}
				write()
				got.wantOnce(t, "on one host", written)
				if err := second(); err != nil {
					t.Errorf("the second host: %v", err)
				}
			})
		})
	}
}

// In the dialect JavaHandleChanges, leases outlive the monitored container, because their
// ids contain its name. After the container was recreated, a host must not resume from
// their positions, which would skip changes. Run must return an error with the remedy. In
// the other dialects the host must create new leases.
func TestLeasesOfARecreatedContainerAreNotResumed(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.Name(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
				leaseContainer(t, s)
				got := &delivered{counts: map[string]int{}}
				run := func(discard bool) error {
					c := changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{ID: "items", KeyPaths: []string{"/id"}, Partitions: 2})
					for range 20 {
						if _, err := c.Upsert(t.Context(), nil, fmt.Appendf(nil, `{"id":"%s"}`, rand.Text()), storetype.WriteOptions{}); err != nil {
							t.Fatal(err)
						}
					}
					a := account(t, s, cosmos.Options{})
					stop := host(t, changefeed.Config{
						Processor: "p", Handler: got, Start: feed.Beginning(), DiscardLeases: discard,
						Source: a.Source("db", "items", cosmos.SourceOptions{Dialect: d}),
						Leases: a.Leases("db", "leases", cosmos.LeaseOptions{Dialect: d}),
					})
					time.Sleep(2 * time.Minute)
					synctest.Wait()
					if err := s.DB.DeleteContainer(t.Context(), "db", "items"); err != nil {
						t.Fatal(err)
					}
					return stop()
				}
				if err := run(false); err != nil {
					t.Fatal(err)
				}
				got.wantOnce(t, "of the first container", 20)
				switch err := run(false); {
				case d == lease.JavaHandleChanges:
					wantWords(t, err, "deleted and recreated", "position in", "changefeed leases delete --all")
					got.wantOnce(t, "when the leases are refused", 20)
				case err != nil:
					t.Error(err)
				default:
					got.wantOnce(t, "of both containers", 40)
				}
				if err := run(true); err != nil {
					t.Errorf("when the leases are discarded: %v", err)
				}
				if want := len(got.counts) / 20 * 20; len(got.counts) != want || want < 40 {
					t.Errorf("%d changes are delivered; want all of the last container", len(got.counts))
				}
			})
		})
	}
}

// Without a budget, the reads of several hosts would cost many times its rate. With the
// budget no host may lose a lease, and every change must be delivered in the end.
func TestProcessorWithinABudget(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		leaseContainer(t, s)
		c := changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{ID: "items", KeyPaths: []string{"/id"}, Partitions: 4})
		const changes, rate = 4000, 20
		for i := range changes {
			if _, err := c.Upsert(t.Context(), nil, document("", fmt.Sprintf("item-%d", i)), storetype.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		budget := cosmos.NewBudget(rate)
		got := &delivered{counts: map[string]int{}}
		began := time.Now()
		var lost []string
		var mu sync.Mutex // guards lost
		for _, instance := range []string{"first", "second"} {
			a := account(t, s, cosmos.Options{Budget: budget})
			stop := host(t, changefeed.Config{
				Processor: "p", Instance: instance, Handler: got, Start: feed.Beginning(),
				Source: a.Source("db", "items", cosmos.SourceOptions{}), Leases: a.Leases("db", "leases", cosmos.LeaseOptions{}),
				Notify: func(n changefeed.Notification) {
					if n.Event == changefeed.Released && n.Reason == changefeed.Lost {
						mu.Lock()
						defer mu.Unlock()
						lost = append(lost, n.LeaseToken)
					}
				},
			})
			defer func() {
				if err := stop(); err != nil {
					t.Error(err)
				}
			}()
		}
		count := func() int {
			got.mu.Lock()
			defer got.mu.Unlock()
			return len(got.counts)
		}
		for range 1200 {
			if count() == changes {
				break
			}
			time.Sleep(time.Second)
		}
		took := time.Since(began).Seconds()
		u := budget.Usage()
		t.Logf("%d changes of 1 KB within %d RU/s took %.0f s, %+v", changes, rate, took, u)
		if spent, most := u.FeedRU+u.LeaseRU, rate*(took+1)+200; spent > most {
			t.Errorf("%.0f RU are spent in %.0f s; want %.0f at most", spent, took, most)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		got.wantOnce(t, "within a budget", changes)
		mu.Lock()
		defer mu.Unlock()
		if len(lost) > 0 {
			t.Errorf("leases are lost: %v", lost)
		}
	})
}

// New must refuse a source and a lease container of different dialects. The error must
// name both dialects, and no request may be sent.
func TestProcessorRefusesASourceOfAnotherDialect(t *testing.T) {
	a, err := cosmos.WithKey("https://mine.documents.azure.com:443/", "a2V5", cosmos.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = changefeed.New(changefeed.Config{
		Processor: "p", Handler: &delivered{}, Source: a.Source("db", "items", cosmos.SourceOptions{Dialect: lease.JavaLatestVersion}),
		Leases: a.Leases("db", "leases", cosmos.LeaseOptions{}),
	})
	var refused *changefeed.ConfigError
	if !errors.As(err, &refused) {
		t.Fatalf("%v; want a *changefeed.ConfigError", err)
	}
	wantWords(t, err, "Leases", lease.DotNet.String(), lease.JavaLatestVersion.String())
}

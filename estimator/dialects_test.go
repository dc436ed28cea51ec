package estimator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// lagging returns a world over the protocol whose processor has stopped. Its leases have
// the dialect d. It has handled 20 transactions in two partitions. One more transaction
// was written after it stopped, a minute ago.
func lagging(t *testing.T, d lease.Dialect, mode feed.Mode, retention time.Duration) *world {
	t.Helper()
	w := &world{t: t, ctx: context.WithoutCancel(t.Context())}
	s := changefeedtest.NewServer(t)
	w.items = changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{ID: "items", KeyPaths: []string{"/pk"}, Partitions: 2, Retention: retention})
	changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	var o cosmos.Options
	o.Transport = s.Client()
	account, err := cosmos.WithKey(s.Endpoint, s.Key, o)
	if err != nil {
		t.Fatal(err)
	}
	w.db, w.account = s.DB, account
	source := account.Source("db", "items", cosmos.SourceOptions{Dialect: d})
	w.source, w.leases = &watched{Source: source}, account.Leases("db", "leases", cosmos.LeaseOptions{Dialect: d})
	cfg := changefeed.Config{
		Processor: "projector", Source: source, Leases: w.leases, Mode: mode, Handler: taken, Instance: "host",
	}
	changefeedtest.Seed(&cfg, 1)
	p, err := changefeed.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(w.ctx)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	time.Sleep(10 * time.Second)
	w.write(20)
	time.Sleep(10 * time.Second)
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	w.write(1)
	time.Sleep(time.Minute)
	return w
}

func TestLagOfEveryDialect(t *testing.T) {
	for _, d := range []lease.Dialect{lease.DotNet, lease.JavaHandleChanges, lease.JavaLatestVersion} {
		t.Run(d.Name(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := lagging(t, d, feed.LatestVersion, 0)
				r := w.report()
				if r.Total.Leases != 2 || r.Total.LSNs != 1 || r.Total.Age != time.Minute || r.Total.Unknown != 0 || r.Total.Reference != 1 {
					t.Errorf("%+v", r.Total)
				}
				for i, l := range r.Lags {
					if want := []string{"0", "1"}[i]; l.Partition != want || l.Range.IsZero() {
						t.Errorf("lease %s of %s is of partition %q", l.LeaseToken, l.Range, l.Partition)
					}
				}
			})
		})
	}
}

// In all versions and deletes mode, every overwritten version of an item counts as an
// unread change.
func TestLagOfAllVersionsAndDeletes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := lagging(t, lease.DotNet, feed.AllVersionsAndDeletes, time.Hour)
		w.write(1) // the same document again
		r := w.report()
		if r.Total.LSNs != 2 || r.Total.Age != time.Minute {
			t.Errorf("%+v", r.Total)
		}
		for _, q := range w.source.reads {
			if q.Mode != feed.AllVersionsAndDeletes {
				t.Errorf("%+v", q)
			}
		}
		time.Sleep(2 * time.Hour) // past the retention
		w.write(1)
		r = w.report()
		lost := false
		for _, l := range r.Lags {
			_, isLost := errors.AsType[*feed.HistoryLostError](l.Err)
			lost = lost || isLost && l.LSNs == estimator.Unknown
		}
		if !lost || r.Total.Failed == 0 {
			t.Errorf("lost changes are not reported: %+v", r)
		}
	})
}

func TestAContainerInAnotherDialectIsRefusedByName(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := lagging(t, lease.JavaHandleChanges, feed.LatestVersion, 0)
		account, ok := w.source.Source.(*cosmos.Source)
		if !ok || account.Dialect() != lease.JavaHandleChanges {
			t.Fatal("the source is of no dialect")
		}
		_, err := estimator.New(estimator.Config{Processor: "projector", Source: account, Leases: missing{}})
		if bad, ok := errors.AsType[*changefeed.ConfigError](err); !ok || bad.Field != "Leases" {
			t.Errorf("%v", err)
		}
	})
}

// The leases of the processor are in another dialect than the estimator's. Report must
// return a DialectError, and not report that the processor has no leases.
func TestLeasesOfAnotherDialectAreNamed(t *testing.T) {
	w := newWorld(t, 1, false)
	plain, ok := w.leases.(store.Leases)
	if !ok {
		t.Fatalf("leases are %T", w.leases)
	}
	w.leases = plain.In(lease.JavaHandleChanges)
	w.create(whole(`"2"`))
	w.leases = plain
	if _, err := w.estimator(estimator.Config{}).Report(w.ctx); !isDialect(err) {
		t.Errorf("%v", err)
	}
}

// In the dialect JavaHandleChanges, leases survive when the monitored container is
// recreated, because their ids contain its name. Their positions are not valid in the new
// container. So the estimator must report an error for each lease and no lag.
func TestLeasesOfARecreatedContainerHaveNoLag(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := lagging(t, lease.JavaHandleChanges, feed.LatestVersion, 0)
		if err := w.db.DeleteContainer(w.ctx, "db", "items"); err != nil {
			t.Fatal(err)
		}
		w.items = changefeedtest.NewContainer(t, w.db, "db", storetype.ContainerProperties{ID: "items", KeyPaths: []string{"/pk"}, Partitions: 2})
		w.write(50)
		w.source = &watched{Source: w.account.Source("db", "items", cosmos.SourceOptions{Dialect: lease.JavaHandleChanges})}
		r := w.report()
		if r.Total.Leases != 2 || r.Total.Failed != 2 || r.Total.LSNs != estimator.Unknown {
			t.Errorf("%+v", r.Total)
		}
		for _, l := range r.Lags {
			if l.Known() || !isDialect(l.Err) || !strings.Contains(l.Err.Error(), "deleted and recreated") {
				t.Errorf("lease %s: %+v", l.LeaseToken, l)
			}
		}
		if len(w.source.reads) != 0 {
			t.Errorf("the new container was read at positions in the old one: %v", w.source.reads)
		}
	})
}

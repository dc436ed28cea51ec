// Package keda runs the code of KEDA's scaler for Azure Cosmos DB's change feed on leases of our
// hosts. It is a module of its own because the package of that scaler has all of KEDA's scalers.
package keda

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/kedacore/keda/v2/pkg/scalers"
	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// The server's key, and the changes that one host may be behind. The scaler reports at most
// threshold for each lease that is behind, so that KEDA starts no host without work.
const (
	key       = "a2VkYQ=="
	threshold = 100
)

// scene is a server on a port of this machine, with a processor and a scaler of it.
type scene struct {
	t       *testing.T
	orders  *store.Container
	config  changefeed.Config
	scaler  scalers.Scaler
	written int
}

// newScene makes a container of so many partitions, and one for leases.
func newScene(t *testing.T, dialect lease.Dialect, partitions, leasePartitions int) *scene {
	t.Helper()
	db := changefeedtest.NewStore(t)
	s := &scene{t: t, orders: changefeedtest.NewContainer(t, db, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/id"}, Partitions: partitions})}
	changefeedtest.NewContainer(t, db, "shop", storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}, DefaultTTL: -1, Partitions: leasePartitions})
	h, err := server.New(db, server.Options{Keys: []string{key}})
	if err != nil {
		t.Fatal(err)
	}
	listening := httptest.NewServer(h)
	t.Cleanup(listening.Close)
	account, err := cosmos.WithKey(listening.URL, key, cosmos.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.config = changefeed.Config{
		Processor: "mailer", Start: feed.Beginning(), Logger: slog.New(slog.DiscardHandler), AcquireInterval: time.Second,
		Source:  account.Source("shop", "orders", cosmos.SourceOptions{Dialect: dialect}),
		Leases:  account.Leases("shop", "leases", cosmos.LeaseOptions{Dialect: dialect}),
		Handler: changefeed.HandlerFunc(func(context.Context, *changefeed.Batch) error { return nil }),
	}
	// The metadata are those of the chart's ScaledObject.
	s.scaler, err = scalers.NewAzureCosmosDBScaler(&scalersconfig.ScalerConfig{
		TriggerMetadata: map[string]string{
			"endpoint": listening.URL, "databaseId": "shop", "containerId": "orders", "leaseDatabaseId": "shop", "leaseContainerId": "leases",
			"processorName": "mailer", "changeFeedLagThreshold": fmt.Sprint(threshold),
		},
		AuthParams: map[string]string{"cosmosDBKey": key}, GlobalHTTPTimeout: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.scaler.Close(context.WithoutCancel(t.Context())) })
	return s
}

func (s *scene) write(n int) {
	s.t.Helper()
	for range n {
		s.written++
		if _, err := s.orders.Upsert(s.t.Context(), nil, fmt.Appendf(nil, `{"id":"order-%d"}`, s.written), storetype.WriteOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// run runs a host until it has handled everything.
func (s *scene) run() {
	s.t.Helper()
	p, err := changefeed.New(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(s.t.Context(), time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	for p.Healthy() != nil { // there are leases then
		time.Sleep(10 * time.Millisecond)
	}
	if err := changefeedtest.Await(ctx, s.config); err != nil {
		s.t.Error(err)
	}
	stop()
	if err := <-ended; err != nil {
		s.t.Error(err)
	}
}

// want checks what the scaler says: the lag that counts for the number of hosts, and whether
// there must be one at all.
func (s *scene) want(when string, lag int64, active bool) {
	s.t.Helper()
	got, is, err := s.scaler.GetMetricsAndActivity(s.t.Context(), "lag")
	if err != nil || len(got) != 1 || got[0].Value.Value() != lag || is != active {
		s.t.Errorf("%s the scaler says %v, active %v (%v); want %d, %v", when, got, is, err, lag, active)
	}
}

// It counts the changes that hosts have not handled, also while none runs.
func TestScalerReportsTheLagOfOurLeases(t *testing.T) {
	for _, d := range []lease.Dialect{lease.DotNet, lease.JavaHandleChanges} {
		t.Run(d.Name(), func(t *testing.T) {
			s := newScene(t, d, 1, 1)
			s.write(3)
			s.want("without leases", 0, false)
			s.run()
			s.want("when all is handled", 0, false)
			s.write(7)
			s.want("with seven changes and no host", 7, true)
			s.write(threshold)
			s.want("with more than one host's part of one lease", threshold, true)
			s.run()
			s.want("when those are handled", 0, false)
			if _, err := s.orders.Split(t.Context(), "0", ""); err != nil {
				t.Fatal(err)
			}
			s.want("after a split that no host has seen", 1, true)
			s.run()
			s.want("when a host has replaced the lease", 0, false)
			s.write(20)
			s.want("with 20 changes of both leases", 20, true)
		})
	}
}

// With several partitions, all lags count.
func TestScalerAddsTheLagsOfAllLeases(t *testing.T) {
	s := newScene(t, lease.DotNet, 3, 1)
	s.run()
	s.write(50)
	s.want("with 50 changes", 50, true)
}

// It doesn't know leases of a range of keys, which hosts make after a merge, and which those of
// Java's dialect for the latest version always are. It takes them for leases of a split partition
// that no host has replaced yet, so there must be one host whatever the lag is, and never a
// second one.
func TestScalerTakesRangeLeasesForASplit(t *testing.T) {
	merged := newScene(t, lease.DotNet, 2, 1)
	merged.run()
	partitions, err := merged.orders.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(partitions, func(a, b feed.Partition) int { return cmp.Compare(a.Range.Min, b.Range.Min) })
	if _, err := merged.orders.Merge(t.Context(), partitions[0].ID, partitions[1].ID); err != nil {
		t.Fatal(err)
	}
	merged.run()
	java := newScene(t, lease.JavaLatestVersion, 1, 1)
	java.run()
	for name, s := range map[string]*scene{"after a merge": merged, "with Java's range leases": java} {
		s.want(name+" when all is handled", 1, true)
		s.write(5 * threshold)
		s.want(name+" when much is not handled", 1, true)
	}
}

// It reads one page of the query for leases. If the lease container has several partitions, that
// is the page of the first one, so leases in the others don't count.
func TestScalerSeesOnlyTheLeasesOfOnePage(t *testing.T) {
	s := newScene(t, lease.DotNet, 8, 2)
	s.run()
	s.write(80)
	got, _, err := s.scaler.GetMetricsAndActivity(t.Context(), "lag")
	if err != nil || got[0].Value.Value() >= 80 || got[0].Value.Value() == 0 {
		t.Errorf("the scaler says %v (%v); want a part of 80", got, err)
	}
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/storetype"
)

// processing runs a processor on the account until the test calls stop. hold is called
// with each batch, and may be nil.
func (a *account) processing(hold func(context.Context)) (stop func()) {
	a.t.Helper()
	return a.handling(func(ctx context.Context, _ *changefeed.Batch) error {
		if hold != nil {
			hold(ctx)
		}
		return nil
	})
}

// handling runs a processor with a handler on the account until the test calls stop. change
// changes its configuration.
func (a *account) handling(handler changefeed.HandlerFunc, change ...func(*changefeed.Config)) (stop func()) {
	a.t.Helper()
	acquired := make(chan struct{}, 100)
	c := changefeed.Config{
		Processor: "p", Instance: "host-1", Source: a.db.Source(a.orders), Leases: a.db.Leases(a.leases), Start: feed.Beginning(),
		// The processor renews its leases often. It acquires free leases only once in
		// five minutes, so that it does not acquire one that the test frees.
		RenewInterval: 200 * time.Millisecond, AcquireInterval: 5 * time.Minute, ExpirationInterval: 30 * time.Second, RequestTimeout: 5 * time.Second,
		Handler: handler,
		Notify: func(n changefeed.Notification) {
			if n.Event == changefeed.Acquired {
				acquired <- struct{}{}
			}
		},
	}
	for _, apply := range change {
		apply(&c)
	}
	p, err := changefeed.New(c)
	if err != nil {
		a.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(a.t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	for range 2 {
		<-acquired
	}
	return func() {
		a.t.Helper()
		cancel()
		if err := <-done; err != nil {
			a.t.Error(err)
		}
	}
}

func TestLeasesReleaseAsksTheOwnerAndWaitsUntilTheLeaseIsFree(t *testing.T) {
	a := newAccount(t)
	for i := range 10 {
		a.order(i)
	}
	defer a.processing(nil)()
	code, out, errOut := a.run("leases", "release", "0")
	if code != exitOK || !strings.Contains(out, "lease 0 is wanted; its owner host-1 finishes its batch first\n") || !strings.Contains(out, "lease 0 is free, at LSN ") ||
		!strings.Contains(out, "any host may acquire it, including the same one") {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
	code, out, errOut = a.run("leases", "ls", "--json")
	var listing struct {
		Leases []struct{ Lease, State, Owner, WantedBy string }
	}
	if err := json.Unmarshal([]byte(out), &listing); err != nil || code != exitOK {
		t.Fatalf("status %d: %v: %s%s", code, err, out, errOut)
	}
	for _, l := range listing.Leases {
		switch want := map[string]string{"0": "free", "1": "live"}[l.Lease]; {
		case l.State != want:
			t.Errorf("lease %s is %s, owned by %q", l.Lease, l.State, l.Owner)
		case l.Lease == "0" && !(strings.HasPrefix(l.WantedBy, "changefeed leases release on ") && protocol.Ours(l.WantedBy)):
			t.Errorf("it is wanted by %q", l.WantedBy)
		}
	}
	if code, out, _ := a.run("leases", "release", "0"); code != exitOK || !strings.Contains(out, "lease 0 is free\n") {
		t.Errorf("again: status %d: %s", code, out)
	}
	for _, args := range [][]string{{"reset", "1", "--to", "beginning"}, {"delete", "1"}} {
		if code, _, errOut := a.run(append([]string{"leases"}, args...)...); code != exitFailed || !strings.Contains(errOut, "lease 1 is owned by host-1") {
			t.Errorf("%v: status %d: %s", args, code, errOut)
		}
	}
}

func TestLeasesReleaseReportsABusyOwner(t *testing.T) {
	a := newAccount(t)
	busy, let := make(chan struct{}, 10), make(chan struct{})
	stop := a.processing(func(ctx context.Context) {
		busy <- struct{}{}
		select {
		case <-let:
		case <-ctx.Done():
		}
	})
	defer stop()
	for i := range 10 {
		a.order(i)
	}
	<-busy
	<-busy
	code, out, errOut := a.run("leases", "release", "--all", "--timeout", "500ms")
	if code != exitFailed || !strings.Contains(errOut, "host-1 still owns lease ") || !strings.Contains(errOut, "releases it after the batch") {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
	close(let)
	code, out, errOut = a.run("leases", "release", "--all", "--timeout", "1m")
	if code != exitOK {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
}

// In a lease container that is partitioned by /partitionKey, two documents may have the
// same id. Older .NET hosts created such documents. `leases check --repair` must keep
// one.
func TestLeasesCheckRepairsTwoDocumentsOfOneId(t *testing.T) {
	a := newAccount(t)
	var err error
	if a.leases, err = a.db.CreateContainer(t.Context(), "shop", storetype.ContainerProperties{ID: "keyed", KeyPaths: []string{"/partitionKey"}}); err != nil {
		t.Fatal(err)
	}
	identity, err := a.db.Source(a.orders).Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	codec, err := lease.NewCodec(lease.DotNet, lease.Key{Processor: "p", Identity: identity}, true)
	if err != nil {
		t.Fatal(err)
	}
	live, err := a.orders.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put := func(body []byte) {
		t.Helper()
		if _, err := a.leases.Upsert(t.Context(), nil, body, storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range live {
		writeTo(t, a.orders, p, 10*(i+1))
		put(codec.Encode(whole(p, 10*(i+1))))
	}
	put(codec.Marker())
	id := codec.LeaseID(live[0].ID)
	put([]byte(strings.Replace(string(codec.Encode(whole(live[0], 7))), `"partitionKey":"`+id+`"`, `"partitionKey":"6f1c1a1e-random"`, 1)))
	code, out, errOut := a.run("leases", "check", "--leases", "keyed")
	if code != exitFailed || !strings.HasPrefix(out, "duplicate: 2 documents are lease "+live[0].ID) || !strings.Contains(out, "with the partition key 6f1c1a1e-random (LSN 7)") {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
	code, out, errOut = a.run("leases", "check", "--leases", "keyed", "--repair", "--yes")
	if code != exitOK || !strings.Contains(out, "done: set lease "+live[0].ID+" back from LSN 10 to LSN 7") || !strings.Contains(out, "no damage found in the 2 leases") {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
}

func TestLeasesMayBeInAnotherAccount(t *testing.T) {
	monitored, other := newAccount(t), newAccount(t)
	s, err := monitored.db.Source(monitored.orders).Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	codec, err := lease.NewCodec(lease.DotNet, lease.Key{Processor: "p", Identity: s}, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.leases.Upsert(t.Context(), nil, codec.Marker(), storetype.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := monitored.run("leases", "ls", "--lease-endpoint", other.endpoint, "--lease-key", other.key)
	if code != exitOK || !strings.Contains(out, `processor "p"`) {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
	t.Setenv("COSMOS_LEASE_CONNECTION_STRING", "AccountEndpoint="+other.endpoint+";AccountKey="+other.key)
	if code, out, errOut := monitored.run("leases", "ls"); code != exitOK || !strings.Contains(out, `processor "p"`) {
		t.Errorf("by the environment: status %d: %s%s", code, out, errOut)
	}
	if code, _, errOut := monitored.run("leases", "ls", "--lease-key", monitored.key, "--lease-endpoint", other.endpoint); code != exitFailed || !strings.Contains(errOut, "rejects the key") {
		t.Errorf("another's key: status %d: %s", code, errOut)
	}
	t.Setenv("COSMOS_LEASE_CONNECTION_STRING", "")
	if code, _, errOut := monitored.run("leases", "ls", "--lease-key", other.key); code != exitUsage || !strings.Contains(errOut, "--lease-key is given") {
		t.Errorf("a key alone: status %d: %s", code, errOut)
	}
}

// deliveries runs a processor until it has delivered want orders, and stops it. It
// returns the ids of the delivered orders, sorted.
func (a *account) deliveries(processor string, d lease.Dialect, want int) []string {
	a.t.Helper()
	return a.deliver(processor, d, func(string) bool { want--; return want == 0 })
}

// deliveriesOf runs a processor until it has delivered every order in want. It returns
// the ids of all delivered orders, sorted.
func (a *account) deliveriesOf(processor string, want map[string]bool) []string {
	a.t.Helper()
	left := maps.Clone(want)
	return a.deliver(processor, lease.DotNet, func(id string) bool { delete(left, id); return len(left) == 0 })
}

// deliver runs a processor until enough returns true for a delivered id. It returns the
// ids of all delivered orders, sorted.
func (a *account) deliver(processor string, d lease.Dialect, enough func(id string) bool) []string {
	a.t.Helper()
	ids := make(chan string, 1000)
	p, err := changefeed.New(changefeed.Config{
		Processor: processor, Source: a.db.Source(a.orders), Leases: a.db.Leases(a.leases).In(d), Start: feed.Beginning(),
		Handler: changefeed.HandlerFunc(func(_ context.Context, b *changefeed.Batch) error {
			for _, c := range b.Changes {
				id, err := c.ID()
				if err != nil {
					return err
				}
				ids <- id
			}
			return nil
		}),
	})
	if err != nil {
		a.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(a.t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	var got []string
	for done := false; !done; {
		id := <-ids
		got, done = append(got, id), enough(id)
	}
	cancel() // Run stops regularly, and checkpoints the delivered changes
	if err := <-done; err != nil {
		a.t.Error(err)
	}
	for len(ids) > 0 {
		got = append(got, <-ids)
	}
	slices.Sort(got)
	return got
}

// The leases are converted from dialect to dialect. After each conversion, a host resumes
// where the previous host stopped. No change is lost or delivered twice.
func TestHostsResumeAfterAConversion(t *testing.T) {
	a := newAccount(t)
	next := 0
	for _, hop := range []struct {
		processor string
		dialect   lease.Dialect
		convert   []string
	}{
		{"p", lease.DotNet, []string{"--to", "java-latest-version", "--to-processor", "j"}},
		{"j", lease.JavaLatestVersion, []string{"--processor", "j", "--to", "java-handle-changes"}},
		{"j", lease.JavaHandleChanges, []string{"--processor", "j", "--dialect", "java-handle-changes", "--to", "dotnet", "--to-processor", "q"}},
		{"q", lease.DotNet, nil},
	} {
		var want []string
		for range 7 {
			a.order(next)
			want = append(want, fmt.Sprint(next))
			next++
		}
		slices.Sort(want)
		if got := a.deliveries(hop.processor, hop.dialect, len(want)); !slices.Equal(got, want) {
			t.Errorf("in %s: delivered %v, want %v", hop.dialect, got, want)
		}
		if hop.convert == nil {
			break
		}
		if code, out, errOut := a.run(append([]string{"leases", "convert", "--yes"}, hop.convert...)...); code != exitOK {
			t.Fatalf("%v: status %d: %s%s", hop.convert, code, out, errOut)
		}
	}
}

// After `leases check --repair`, hosts can work with the leases, and they lose no change.
func TestHostsResumeAfterARepair(t *testing.T) {
	a := newAccount(t)
	want := map[string]bool{}
	for i := range 7 {
		a.order(i)
	}
	a.deliveries("p", lease.DotNet, 7)
	live, err := a.orders.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	identity, err := a.db.Source(a.orders).Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	codec, err := lease.NewCodec(lease.DotNet, lease.Key{Processor: "p", Identity: identity}, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{codec.LeaseID(live[1].ID), codec.MarkerID()} {
		if _, err := a.leases.Delete(t.Context(), feed.PartitionKey{id}, id, storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.leases.Upsert(t.Context(), nil, codec.Encode(part("01", "7F", 3)), storetype.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.orders.Split(t.Context(), live[0].ID, ""); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := a.run("leases", "check", "--repair", "--yes", "--expiration", "1ns")
	if code != exitOK {
		t.Fatalf("status %d: %s%s", code, out, errOut)
	}
	for i := 7; i < 14; i++ {
		a.order(i)
		want[fmt.Sprint(i)] = true
	}
	// The repair keeps the older of two positions, so changes after it are delivered
	// again. All new changes must be delivered.
	for _, id := range a.deliveriesOf("p", want) {
		delete(want, id)
	}
	if len(want) > 0 {
		t.Errorf("not delivered: %v; the repair: %s", want, out)
	}
}

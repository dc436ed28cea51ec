package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/storetype"
)

// leaseKey returns the lease.Key of a processor that processes the changes of container
// c.
func leaseKey(processor string, c *engine.Container) lease.Key {
	return lease.Key{Processor: processor, Identity: c.Identity()}
}

func newContainer(t testing.TB, db *engine.DB, p storetype.ContainerProperties) *engine.Container {
	t.Helper()
	c, err := db.CreateContainer(t.Context(), "db", p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLeasesRefuseUnsuitableContainers(t *testing.T) {
	db := openForTest(t)
	for name, p := range map[string]storetype.ContainerProperties{
		"/customer": {ID: "a", KeyPaths: []string{"/customer"}},
		"/id, /b":   {ID: "b", KeyPaths: []string{"/id", "/b"}},
		"60 s":      {ID: "c", KeyPaths: []string{"/id"}, DefaultTTL: 60},
	} {
		c := newContainer(t, db, p)
		_, err := db.Leases(c).Open(t.Context(), leaseKey("p", c))
		var dialect *lease.DialectError
		if !errors.As(err, &dialect) {
			t.Errorf("container %s: %v, want *lease.DialectError", p.ID, err)
			continue
		}
		if !strings.Contains(dialect.Found, name) || !strings.Contains(dialect.Remedy, "/id") {
			t.Errorf("container %s: found %q, remedy %q, want the key paths found and the path /id", p.ID, dialect.Found, dialect.Remedy)
		}
	}
	c := newContainer(t, db, storetype.ContainerProperties{ID: "d", KeyPaths: []string{"/id"}, DefaultTTL: -1})
	if _, err := db.Leases(c).Open(t.Context(), leaseKey("p", c)); err != nil {
		t.Errorf("a container whose items do not expire by default: %v", err)
	}
	if err := db.DeleteContainer(t.Context(), "db", "d"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Leases(c).Open(t.Context(), leaseKey("p", c)); !errors.Is(err, feed.ErrNotFound) {
		t.Errorf("a deleted container: %v, want ErrNotFound", err)
	}
}

func TestLeasesShareTheirContainerWithOtherDocuments(t *testing.T) {
	db := openForTest(t)
	c := newContainer(t, db, storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	for i := range 50 {
		if _, err := c.Upsert(t.Context(), nil, fmt.Appendf(nil, `{"id":"other-%d","x":[1,2]}`, i), storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := db.Leases(c).Open(t.Context(), leaseKey("p", c))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()}); err != nil {
		t.Fatal(err)
	}
	l, err := s.List(t.Context())
	if err != nil || len(l.Leases) != 1 || l.Leases[0].Token != "0" {
		t.Errorf("the listing among other documents shows %+v, %v", l.Leases, err)
	}
}

// The document of a lease must equal the one that the .NET change feed processor writes,
// byte for byte up to the system properties. Otherwise .NET hosts could not use the
// lease.
func TestLeaseDocumentIsTheDotNetOne(t *testing.T) {
	db := openForTest(t)
	monitored := newContainer(t, db, storetype.ContainerProperties{ID: "items", KeyPaths: []string{"/pk"}})
	c := newContainer(t, db, storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/partitionKey"}})
	s, err := db.Leases(c).Open(t.Context(), leaseKey("proc", monitored))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full(), Continuation: `"24"`}); err != nil {
		t.Fatal(err)
	}
	identity := monitored.Identity()
	id := "proc" + "localhost_" + identity.DatabaseRID + "_" + identity.ContainerRID + "..0"
	item, err := c.Read(t.Context(), feed.PartitionKey{id}, id, storetype.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"` + id + `","partitionKey":"` + id + `","version":0,"LeaseToken":"0",` +
		`"FeedRange":{"Range":{"min":"","max":"FF"}},"Owner":null,"ContinuationToken":"\"24\"","properties":{},"timestamp":null,"Mode":"Incremental Feed",`
	if !strings.HasPrefix(string(item.Body), want) {
		t.Errorf("the document is\n%s\nwant it to begin with\n%s", item.Body, want)
	}
}

// An update of a lease, as a renewal or a checkpoint makes it, must be one request that
// writes once and uses one LSN.
func TestLeaseUpdateIsOneRequest(t *testing.T) {
	db := openForTest(t)
	c := newContainer(t, db, storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	s, err := db.Leases(c).Open(t.Context(), leaseKey("p", c))
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Create(t.Context(), lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()})
	if err != nil {
		t.Fatal(err)
	}
	end := func() int64 {
		page, err := db.Source(c).Read(t.Context(), feed.Request{Range: feed.Full()})
		if err != nil {
			t.Fatal(err)
		}
		return page.End
	}
	before := end()
	stale := l
	for range 10 {
		if l, err = s.Update(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	if got := end() - before; got != 10 {
		t.Errorf("10 updates made %d writes", got)
	}
	var conflict *lease.ConflictError
	if _, err := s.Update(t.Context(), stale); !errors.As(err, &conflict) || conflict.Current.ETag != l.ETag {
		t.Errorf("a stale update: %v, want a conflict with the current document", err)
	}
	if got := end() - before; got != 10 {
		t.Errorf("a refused update increased the number of writes to %d", got)
	}
}

func TestLeaseErrorsNameTheOperation(t *testing.T) {
	db := openForTest(t)
	c := newContainer(t, db, storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	s, err := db.Leases(c).Open(t.Context(), leaseKey("p", c))
	if err != nil {
		t.Fatal(err)
	}
	l := lease.Lease{Token: "17", PartitionID: "17", Range: feed.Full()}
	if l, err = s.Create(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Update(ended, l); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "update lease 17") {
		t.Errorf("update in an ended context: %v", err)
	}
	if _, err := s.List(ended); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "list leases") {
		t.Errorf("list in an ended context: %v", err)
	}
	if err := db.DeleteContainer(t.Context(), "db", "leases"); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"update lease 17":   func() error { _, err := s.Update(t.Context(), l); return err }(),
		"delete lease 17":   s.Delete(t.Context(), l),
		"create lease 17":   func() error { _, err := s.Create(t.Context(), l); return err }(),
		"list leases":       func() error { _, err := s.List(t.Context()); return err }(),
		"create the marker": s.SetInitialized(t.Context(), true),
	} {
		if !errors.Is(err, feed.ErrNotFound) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s in a deleted container: %v, want ErrNotFound", what, err)
		}
	}
}

// A document with the id of a lease may not be a valid lease. A listing must report it as
// unreadable. If the listing omitted it, a host would create the lease again, from an old
// position.
func TestListingReportsADamagedLease(t *testing.T) {
	db := openForTest(t)
	c := newContainer(t, db, storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	s, err := db.Leases(c).Open(t.Context(), leaseKey("p", c))
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Create(t.Context(), lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Upsert(t.Context(), nil, fmt.Appendf(nil, `{"id":%q,"version":7}`, l.ID), storetype.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	listing, err := s.List(t.Context())
	if err != nil || len(listing.Leases) != 0 || len(listing.Unreadable) != 1 || listing.Unreadable[0].ID != l.ID {
		t.Errorf("list: %+v, %v, want %s to be unreadable", listing, err, l.ID)
	}
}

// The age of a lease is the listing's Now less the lease's _ts. So Now must come from the
// clock that sets _ts. Ninety seconds after a write, the age must be 90 s.
func TestListingHasTheClockThatStampsLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openForTest(t)
		c := newContainer(t, db, storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
		s, err := db.Leases(c).Open(t.Context(), leaseKey("p", c))
		if err != nil {
			t.Fatal(err)
		}
		made, err := s.Create(t.Context(), lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Second)
		l, err := s.List(t.Context())
		if age := l.Now.Sub(made.Modified).Truncate(time.Second); err != nil || age != 90*time.Second {
			t.Errorf("a lease written 90 s ago has age %s, %v", age, err)
		}
	})
}

// A listing must not show an expired document, even if it is not purged yet. Here the
// document that marks the container as initialized expires.
func TestListingShowsNothingExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := engine.OpenMemory(engine.Options{PurgeInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}()
		if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
			t.Fatal(err)
		}
		c := newContainer(t, db, storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}, DefaultTTL: -1})
		s, err := db.Leases(c).Open(t.Context(), leaseKey("p", c))
		if err != nil {
			t.Fatal(err)
		}
		l, err := s.Create(t.Context(), lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()})
		if err != nil {
			t.Fatal(err)
		}
		marker := strings.TrimSuffix(l.ID, "..0") + ".info"
		if _, err := c.Upsert(t.Context(), nil, fmt.Appendf(nil, `{"id":%q,"ttl":60}`, marker), storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if got, err := s.List(t.Context()); err != nil || got.Initialized.IsZero() {
			t.Fatalf("before the marker expires: %v, %v", got.Initialized, err)
		}
		time.Sleep(time.Minute)
		if got, err := s.List(t.Context()); err != nil || !got.Initialized.IsZero() || len(got.Leases) != 1 {
			t.Errorf("after the marker has expired: initialized %v, %d leases, %v", got.Initialized, len(got.Leases), err)
		}
	})
}

// Before version 3.59, the .NET processor wrote a random partition key into each lease.
// The store must update and delete such a lease under that key.
func TestLeaseOfARandomPartitionKeyKeepsIt(t *testing.T) {
	db := openForTest(t)
	c := newContainer(t, db, storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/partitionKey"}})
	s, err := db.Leases(c).Open(t.Context(), leaseKey("p", c))
	if err != nil {
		t.Fatal(err)
	}
	made, err := s.Create(t.Context(), lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	const random = "7d0a3e7c-5c1e-4b52-9a0b-0d8f6f1f2c11"
	doc := fmt.Appendf(nil, `{"id":%q,"partitionKey":%q,"version":0,"LeaseToken":"0","Owner":"dotnet","properties":{}}`, made.ID, random)
	if _, err := c.Create(t.Context(), nil, doc, storetype.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	l, err := s.List(t.Context())
	if err != nil || len(l.Leases) != 1 {
		t.Fatalf("%d leases, %v", len(l.Leases), err)
	}
	old := l.Leases[0]
	written, err := s.Update(t.Context(), protocol.At(old, `"7"`))
	if err != nil {
		t.Fatal(err)
	}
	var conflict *lease.ConflictError
	if err := s.Delete(t.Context(), old); !errors.As(err, &conflict) || conflict.Current.ETag != written.ETag {
		t.Errorf("a stale delete: %v, want a conflict with the current document", err)
	}
	if _, err := c.Read(t.Context(), feed.PartitionKey{random}, made.ID, storetype.ReadOptions{}); err != nil {
		t.Errorf("after an update the document is not under its key: %v", err)
	}
	if err := s.Delete(t.Context(), written); err != nil {
		t.Error(err)
	}
}

// BenchmarkLeaseUpdate measures one update of a lease, as a renewal or a checkpoint makes
// it.
func BenchmarkLeaseUpdate(b *testing.B) {
	s, l := benchmarkLeases(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if l, err = s.Update(b.Context(), protocol.At(l, `"12345"`)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLeaseList measures one listing of 1,000 leases.
func BenchmarkLeaseList(b *testing.B) {
	s, _ := benchmarkLeases(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		l, err := s.List(b.Context())
		if err != nil || len(l.Leases) != 1000 {
			b.Fatalf("%d leases, %v", len(l.Leases), err)
		}
	}
}

func benchmarkLeases(b *testing.B, n int) (lease.Store, lease.Lease) {
	db, err := engine.OpenMemory(engine.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	if _, err := db.CreateDatabase(b.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
		b.Fatal(err)
	}
	c := newContainer(b, db, storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	s, err := db.Leases(c).Open(b.Context(), leaseKey("p", c))
	if err != nil {
		b.Fatal(err)
	}
	var l lease.Lease
	for i := range n {
		token := fmt.Sprint(i)
		if l, err = s.Create(b.Context(), lease.Lease{Token: token, PartitionID: token, Range: feed.Full()}); err != nil {
			b.Fatal(err)
		}
	}
	return s, l
}

func TestLeasesReportTheirCharge(t *testing.T) {
	db := openForTest(t)
	c := newContainer(t, db, storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	s, err := db.Leases(c).Open(t.Context(), leaseKey("p", c))
	if err != nil {
		t.Fatal(err)
	}
	if protocol.Charged(s) != 0 {
		t.Fatalf("%v RU are charged before any request", protocol.Charged(s))
	}
	before := 0.0
	costs := func(what string, least float64) {
		t.Helper()
		if cost := protocol.Charged(s) - before; cost < least || cost > least+2 {
			t.Errorf("%s costs %v RU", what, cost)
		}
		before = protocol.Charged(s)
	}
	l, err := s.Create(t.Context(), lease.Lease{Token: "0", PartitionID: "0"})
	if err != nil {
		t.Fatal(err)
	}
	costs("a create", 7)
	if _, err = s.Update(t.Context(), protocol.Acquired(l, "host")); err != nil {
		t.Fatal(err)
	}
	costs("an update", 10)
	if _, err := s.Create(t.Context(), l); err == nil {
		t.Fatal("a second create succeeded")
	}
	costs("a create that finds the lease and reads it", 2)
	if _, err := s.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	costs("a listing", 1)
	if err := s.SetInitialized(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	costs("the marker", 5)
}

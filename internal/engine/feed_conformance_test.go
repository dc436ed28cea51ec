package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/feed/feedtest"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/lease/leasetest"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestSourceConforms(t *testing.T)         { feedtest.Run(t, newFeedFixture) }
func TestSourceConformsInBubble(t *testing.T) { feedtest.RunInBubble(t, newFeedFixture) }
func TestLeasesConform(t *testing.T)          { leasetest.Run(t, newLeaseFixture("/id", lease.DotNet)) }

func TestLeasesConformInBubble(t *testing.T) {
	for _, d := range []lease.Dialect{lease.DotNet, lease.JavaHandleChanges, lease.JavaLatestVersion} {
		t.Run(d.Name(), func(t *testing.T) { leasetest.RunInBubble(t, newLeaseFixture("/id", d)) })
	}
}

func TestLeasesConformByKeyField(t *testing.T) {
	leasetest.Run(t, newLeaseFixture("/partitionKey", lease.DotNet))
}

func TestLeasesConformWithoutAKey(t *testing.T) {
	leasetest.Run(t, newLeaseFixture("", lease.DotNet))
}

// openForTest opens a store in memory with one database, db. When the test ends, the
// store is checked and closed.
func openForTest(t *testing.T) *engine.DB {
	t.Helper()
	return openForTestWith(t, engine.Options{})
}

func openForTestWith(t *testing.T, o engine.Options) *engine.DB {
	t.Helper()
	db, err := engine.OpenMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Check needs another context, because the test's context ends before its cleanup
		// functions run.
		if err := db.Check(context.Background()); err != nil {
			t.Errorf("check: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
		t.Fatal(err)
	}
	return db
}

func newFeedFixture(t *testing.T, want feedtest.Container) feedtest.Fixture {
	db := openForTest(t)
	p := storetype.ContainerProperties{ID: "items", KeyPaths: want.KeyPaths, Partitions: want.Partitions}
	if len(want.KeyPaths) > 1 {
		p.KeyVersion = storetype.MultiHash
	}
	if want.AllVersions {
		p.Retention = time.Hour
	}
	if want.TimeToLive {
		p.DefaultTTL = -1
	}
	c, err := db.CreateContainer(t.Context(), "db", p)
	if err != nil {
		t.Fatal(err)
	}
	return feedtest.Fixture{
		Source: db.Source(c),
		Upsert: func(ctx context.Context, key feed.PartitionKey, doc json.RawMessage) error {
			_, err := c.Upsert(ctx, key, doc, storetype.WriteOptions{})
			return err
		},
		Transaction: func(ctx context.Context, key feed.PartitionKey, docs []json.RawMessage) error {
			ops := make([]storetype.Operation, 0, len(docs))
			for _, doc := range docs {
				ops = append(ops, storetype.Operation{Kind: storetype.OpUpsert, Body: doc})
			}
			_, err := c.Batch(ctx, key, ops)
			return err
		},
		Delete: func(ctx context.Context, key feed.PartitionKey, id string) error {
			_, err := c.Delete(ctx, key, id, storetype.WriteOptions{})
			return err
		},
		Split: func(ctx context.Context, partition string) error {
			_, err := c.Split(ctx, partition, "")
			return err
		},
		Merge: func(ctx context.Context, a, b string) error {
			_, err := c.Merge(ctx, a, b)
			return err
		},
		Beyond: func(end feed.Continuation) feed.Continuation { return end[:len(end)-1] + `0"` }, // ten times the LSN
		Drop:   func(ctx context.Context) error { return db.DeleteContainer(ctx, "db", "items") },
	}
}

// newLeaseFixture returns a function that creates fixtures for the tests of lease
// containers. The lease container has the given partition key path and dialect. Only with
// the path /id can a fixture also remove documents.
func newLeaseFixture(path string, d lease.Dialect) leasetest.New {
	return func(t *testing.T) leasetest.Fixture {
		db := openForTest(t)
		p := storetype.ContainerProperties{ID: "leases", KeyPaths: []string{path}, Partitions: 2}
		key := func(id string) feed.PartitionKey { return feed.PartitionKey{id} }
		if path == "" {
			p = storetype.ContainerProperties{ID: "leases", SystemKey: true}
			key = func(string) feed.PartitionKey { return feed.PartitionKey{feed.Undefined} }
		}
		c, err := db.CreateContainer(t.Context(), "db", p)
		if err != nil {
			t.Fatal(err)
		}
		f := leasetest.Fixture{
			Container: db.Leases(c).In(d),
			Document: func(ctx context.Context, id string) ([]byte, error) {
				res, err := c.Read(ctx, key(id), id, storetype.ReadOptions{})
				return res.Body, err
			},
			Replace: func(ctx context.Context, id string, document []byte) error {
				_, err := c.Upsert(ctx, key(id), document, storetype.WriteOptions{})
				return err
			},
		}
		if path != "/partitionKey" {
			f.Remove = func(ctx context.Context, id string) error {
				_, err := c.Delete(ctx, key(id), id, storetype.WriteOptions{})
				return err
			}
		}
		return f
	}
}

// CheckStart must refuse every start that Read would refuse, and no other. A processor
// calls CheckStart before it creates leases. Otherwise it would retry the refused reads
// forever.
func TestSourceRefusesStartsThatItCannotServe(t *testing.T) {
	db := openForTest(t)
	for _, c := range []struct {
		name      string
		retention time.Duration
		mode      feed.Mode
		from      feed.Start
		ok        bool
	}{
		{"latest-now", 0, feed.LatestVersion, feed.Now(), true},
		{"latest-time", 0, feed.LatestVersion, feed.At(time.Now()), true},
		{"none-now", 0, feed.AllVersionsAndDeletes, feed.Now(), false},
		{"none-after", 0, feed.AllVersionsAndDeletes, feed.After(`"0"`), false},
		{"all-now", time.Hour, feed.AllVersionsAndDeletes, feed.Now(), true},
		{"all-after", time.Hour, feed.AllVersionsAndDeletes, feed.After(`"0"`), true},
		{"all-beginning", time.Hour, feed.AllVersionsAndDeletes, feed.Beginning(), false},
		{"all-time", time.Hour, feed.AllVersionsAndDeletes, feed.At(time.Now()), false},
	} {
		source := db.Source(newContainer(t, db, storetype.ContainerProperties{ID: c.name, KeyPaths: []string{"/k"}, Retention: c.retention}))
		err := source.CheckStart(t.Context(), c.from, c.mode)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, feed.ErrUnsupported) {
			t.Errorf("%s: %v", c.name, err)
		}
		_, read := source.Read(t.Context(), feed.Request{Partition: feed.Partition{ID: "0"}, Mode: c.mode, From: c.from})
		if (read == nil) != c.ok {
			t.Errorf("%s: CheckStart returned %v, but Read returned %v", c.name, err, read)
		}
	}
	c := newContainer(t, db, storetype.ContainerProperties{ID: "gone", KeyPaths: []string{"/k"}})
	if err := db.DeleteContainer(t.Context(), "db", "gone"); err != nil {
		t.Fatal(err)
	}
	if err := db.Source(c).CheckStart(t.Context(), feed.Now(), feed.LatestVersion); !errors.Is(err, feed.ErrNotFound) {
		t.Errorf("a deleted container: %v", err)
	}
}

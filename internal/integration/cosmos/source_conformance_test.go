package cosmos_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/feed/feedtest"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestSourceConformsInBubble(t *testing.T) {
	feedtest.RunInBubble(t, feedOn(onServer(), storetype.DefaultHash))
}

// This test runs the suite over TCP and in real time, so that connections are kept and
// closed.
func TestSourceConformsOverLoopback(t *testing.T) {
	feedtest.Run(t, feedOn(loopback, storetype.DefaultHash))
}

func TestSourceConformsWithKeysOfTheFirstVersion(t *testing.T) {
	feedtest.RunInBubble(t, feedOn(onServer(), storetype.HashV1))
}

// About every third request to the server fails at random. The source must hide these
// failures, so that the whole suite passes. It gets enough attempts, with delays that fit
// the times of each case.
func TestSourceConformsThroughFaults(t *testing.T) {
	feedtest.RunInBubble(t, feedOn(onServer(
		server.Fault{Operation: "read change feed", Status: 503, Probability: 0.1, Seed: 1},
		server.Fault{Operation: "read change feed", Drop: true, Probability: 0.1, Seed: 2},
		server.Fault{Operation: "read change feed", Drop: true, After: true, Probability: 0.1, Seed: 3},
		server.Fault{Operation: "read change feed", Status: 449, Probability: 0.1, Seed: 4},
		server.Fault{Operation: "read change feed", Status: 404, SubStatus: 1002, Probability: 0.1, Seed: 5},
		server.Fault{Operation: "read change feed", Status: 410, SubStatus: 1008, Probability: 0.1, Seed: 9},
		server.Fault{Operation: "read partition key ranges", Status: 500, Probability: 0.3, Seed: 6},
		server.Fault{Operation: "read container", Status: 408, Probability: 0.3, Seed: 7},
		server.Fault{Operation: "read account", Drop: true, Probability: 0.3, Seed: 8},
	), storetype.DefaultHash))
}

// onServer returns a function that starts a server in memory with the given faults and
// returns its database and account.
func onServer(faults ...server.Fault) func(t *testing.T) (*store.DB, *cosmos.Account) {
	return func(t *testing.T) (*store.DB, *cosmos.Account) {
		s := changefeedtest.NewServer(t)
		for _, f := range faults {
			s.Fail(f)
		}
		var o cosmos.Options
		o.Retry.MaxRetries, o.Retry.RetryDelay, o.Retry.MaxRetryDelay = 20, time.Millisecond, time.Millisecond
		return s.DB, account(t, s, o)
	}
}

// feedOn returns a function that creates fixtures for the suite. The suite changes their
// containers in the store and reads them over the protocol.
func feedOn(open func(t *testing.T) (*store.DB, *cosmos.Account), hash storetype.KeyVersion) feedtest.New {
	return func(t *testing.T, want feedtest.Container) feedtest.Fixture {
		db, account := open(t)
		p := storetype.ContainerProperties{ID: "items", KeyPaths: want.KeyPaths, Partitions: want.Partitions, KeyVersion: hash}
		if len(want.KeyPaths) > 1 {
			p.KeyVersion = storetype.MultiHash
		}
		if want.AllVersions {
			p.Retention = time.Hour
		}
		if want.TimeToLive {
			p.DefaultTTL = -1
		}
		c := changefeedtest.NewContainer(t, db, "db", p)
		return feedtest.Fixture{
			Source: account.Source("db", "items", cosmos.SourceOptions{}),
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
}

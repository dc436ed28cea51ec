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
)

func TestSourceConforms(t *testing.T) { feedtest.Run(t, feedOn(onServer(), store.DefaultHash)) }

func TestSourceConformsInBubble(t *testing.T) {
	feedtest.RunInBubble(t, feedOn(onServer(), store.DefaultHash))
}

// Over TCP and in real time.
func TestSourceConformsOverLoopback(t *testing.T) {
	feedtest.Run(t, feedOn(loopback, store.DefaultHash))
}

func TestSourceConformsWithKeysOfTheFirstVersion(t *testing.T) {
	feedtest.RunInBubble(t, feedOn(onServer(), store.HashV1))
}

// What a Source hides: the service's bad moments. Every third request fails, or so, at random: with so many
// attempts none fails every time.
func TestSourceConformsThroughFaults(t *testing.T) {
	for name, faults := range map[string][]server.Fault{
		"busy": {
			{Operation: "read change feed", Status: 503, Probability: 0.3, Seed: 1},
			{Operation: "read partition key ranges", Status: 500, Probability: 0.3, Seed: 2},
			{Operation: "read container", Status: 408, Probability: 0.3, Seed: 3},
			{Operation: "read account", Status: 503, Probability: 0.3, Seed: 4},
		},
		"lost":          {{Operation: "read change feed", Drop: true, Probability: 0.3, Seed: 5}},
		"lost answers":  {{Operation: "read change feed", Drop: true, After: true, Probability: 0.3, Seed: 6}},
		"try again":     {{Operation: "read change feed", Status: 449, Probability: 0.3, Seed: 7}},
		"slow":          {{Delay: 300 * time.Millisecond, Probability: 0.5, Seed: 8}},
		"behind itself": {{Operation: "read change feed", Status: 404, SubStatus: 1002, Count: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			feedtest.RunInBubble(t, feedOn(onServer(faults...), store.DefaultHash))
		})
	}
}

// onServer is an account on a server in memory, with faults.
func onServer(faults ...server.Fault) func(t *testing.T) (*store.DB, *cosmos.Account) {
	return func(t *testing.T) (*store.DB, *cosmos.Account) {
		s := changefeedtest.NewServer(t)
		for _, f := range faults {
			s.Fail(f)
		}
		var o cosmos.Options
		o.Retry.MaxRetries = 20
		return s.DB, account(t, s, o)
	}
}

// feedOn makes containers that are changed in the store, and read over the protocol.
func feedOn(open func(t *testing.T) (*store.DB, *cosmos.Account), hash store.KeyVersion) feedtest.New {
	return func(t *testing.T, want feedtest.Container) feedtest.Fixture {
		db, account := open(t)
		p := store.ContainerProperties{ID: "items", KeyPaths: want.KeyPaths, Partitions: want.Partitions, KeyVersion: hash}
		if len(want.KeyPaths) > 1 {
			p.KeyVersion = store.MultiHash
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
				_, err := c.Upsert(ctx, key, doc, store.WriteOptions{})
				return err
			},
			Transaction: func(ctx context.Context, key feed.PartitionKey, docs []json.RawMessage) error {
				ops := make([]store.Operation, 0, len(docs))
				for _, doc := range docs {
					ops = append(ops, store.Operation{Kind: store.OpUpsert, Body: doc})
				}
				_, err := c.Batch(ctx, key, ops)
				return err
			},
			Delete: func(ctx context.Context, key feed.PartitionKey, id string) error {
				_, err := c.Delete(ctx, key, id, store.WriteOptions{})
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
			Drop: func(ctx context.Context) error { return db.DeleteContainer(ctx, "db", "items") },
		}
	}
}

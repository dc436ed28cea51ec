package changefeedtest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/feed/feedtest"
	"github.com/changefeed-go/changefeed/lease/leasetest"
)

func TestMemorySourceConforms(t *testing.T) { feedtest.Run(t, newMemFixture) }

func TestMemorySourceConformsInABubble(t *testing.T) { feedtest.RunInBubble(t, newMemFixture) }

func newMemFixture(t *testing.T, c feedtest.Container) feedtest.Fixture {
	if c.TimeToLive {
		t.Skip("the memory source has no time to live")
	}
	clock := newStoreClock(20*365*24*time.Hour, 0) // a bubble begins in the year 2000
	var advanced time.Duration
	clock.advanced = func() time.Duration { return advanced }
	s := newMemSource(clock, c.Partitions, "conformance")
	write := func(key feed.PartitionKey, docs ...json.RawMessage) error {
		var writes []memWrite
		for _, doc := range docs {
			var m map[string]any
			if err := json.Unmarshal(doc, &m); err != nil {
				return err
			}
			writes = append(writes, memWrite{key: key, id: m["id"].(string), document: m})
		}
		_, err := s.commit(writes...)
		return err
	}
	return feedtest.Fixture{
		Source: s,
		Upsert: func(_ context.Context, key feed.PartitionKey, doc json.RawMessage) error {
			return write(key, doc)
		},
		Transaction: func(_ context.Context, key feed.PartitionKey, docs []json.RawMessage) error {
			return write(key, docs...)
		},
		Delete: func(_ context.Context, key feed.PartitionKey, id string) error {
			_, err := s.commit(memWrite{key: key, id: id})
			return err
		},
		Split: func(_ context.Context, partition string) error {
			_, err := s.split(partition, "")
			return err
		},
		Merge: func(_ context.Context, a, b string) error {
			_, err := s.merge(a, b)
			return err
		},
		Advance: func(d time.Duration) { advanced += d },
	}
}

func TestMemoryLeasesConform(t *testing.T) { leasetest.Run(t, newMemLeaseFixture) }

func TestMemoryLeasesConformInABubble(t *testing.T) { leasetest.RunInBubble(t, newMemLeaseFixture) }

// A drifting store is a store like any other.
func newMemLeaseFixture(*testing.T) leasetest.Fixture {
	clock := newStoreClock(-7*time.Minute, 0.05)
	var advanced time.Duration
	clock.advanced = func() time.Duration { return advanced }
	return leasetest.Fixture{
		Container: newMemLeases(clock),
		Advance:   func(d time.Duration) { advanced += d },
	}
}

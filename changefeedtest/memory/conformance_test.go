package memory_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/feed/feedtest"
	"github.com/changefeed-go/changefeed/lease/leasetest"
	"github.com/changefeed-go/changefeed/letters/letterstest"
)

func TestMemorySourceConforms(t *testing.T) { feedtest.Run(t, newFixture) }

func TestMemorySourceConformsInABubble(t *testing.T) { feedtest.RunInBubble(t, newFixture) }

func newFixture(t *testing.T, c feedtest.Container) feedtest.Fixture {
	if c.TimeToLive {
		t.Skip("the memory source has no time to live")
	}
	ahead := 20 * 365 * 24 * time.Hour // a bubble begins in the year 2000
	s := memory.NewSource(memory.Options{
		Container: "conformance", Partitions: c.Partitions,
		Now: func() time.Time { return time.Now().Add(ahead) },
	})
	return feedtest.Fixture{
		Source: s,
		Upsert: func(_ context.Context, key feed.PartitionKey, doc json.RawMessage) error {
			return s.Upsert(key, string(doc))
		},
		Transaction: func(_ context.Context, key feed.PartitionKey, docs []json.RawMessage) error {
			var writes []memory.Write
			for _, doc := range docs {
				var item struct{ ID string }
				if err := json.Unmarshal(doc, &item); err != nil {
					return err
				}
				writes = append(writes, memory.Write{ID: item.ID, Document: doc})
			}
			_, err := s.Commit(key, writes...)
			return err
		},
		Delete: func(_ context.Context, key feed.PartitionKey, id string) error { return s.Delete(key, id) },
		Split: func(_ context.Context, partition string) error {
			_, err := s.Split(partition, "")
			return err
		},
		Merge: func(_ context.Context, a, b string) error {
			_, err := s.Merge(a, b)
			return err
		},
		Beyond:  func(end feed.Continuation) feed.Continuation { return end[:len(end)-1] + `0"` }, // ten times the LSN
		Advance: func(d time.Duration) { ahead += d },
	}
}

func TestMemoryLeasesConform(t *testing.T) { leasetest.Run(t, newLeaseFixture) }

func TestMemoryLeasesConformInABubble(t *testing.T) { leasetest.RunInBubble(t, newLeaseFixture) }

// The service's clock is minutes off and runs too fast. The lease container must still
// meet the conformance suite.
func newLeaseFixture(*testing.T) leasetest.Fixture {
	origin, ahead := time.Now(), -7*time.Minute
	return leasetest.Fixture{
		Container: memory.NewLeases(func() time.Time {
			return origin.Add(ahead + time.Duration(1.05*float64(time.Since(origin))))
		}),
		Advance: func(d time.Duration) { ahead += d },
	}
}

func TestMemoryLettersConform(t *testing.T) { letterstest.Run(t, newLettersFixture) }

func TestMemoryLettersConformInABubble(t *testing.T) { letterstest.RunInBubble(t, newLettersFixture) }

// newLettersFixture returns a letters container whose documents the suite may count and remove.
func newLettersFixture(*testing.T) letterstest.Fixture {
	l := memory.NewLetters()
	return letterstest.Fixture{
		Container: l,
		Documents: func(context.Context) (int, error) { return memory.LetterDocuments(l), nil },
		Remove:    func(ctx context.Context, pk, id string) error { return memory.RemoveLetterDocument(ctx, l, pk, id) },
	}
}

package feedtest_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/feed/feedtest"
)

// newMemoryFixture returns a fixture with a new container of the engine under test, here
// package memory.
func newMemoryFixture(t *testing.T, c feedtest.Container) feedtest.Fixture {
	if c.TimeToLive {
		t.Skip("package memory has no time to live")
	}
	ahead := time.Duration(0)
	orders := memory.NewSource(memory.Options{
		Container: "orders", Partitions: c.Partitions,
		Now: func() time.Time { return time.Now().Add(ahead) },
	})
	return feedtest.Fixture{
		Source: orders,
		Upsert: func(_ context.Context, key feed.PartitionKey, doc json.RawMessage) error {
			return orders.Upsert(key, string(doc))
		},
		Transaction: func(_ context.Context, key feed.PartitionKey, docs []json.RawMessage) error {
			writes := make([]memory.Write, len(docs))
			for i, doc := range docs {
				var item struct{ ID string }
				if err := json.Unmarshal(doc, &item); err != nil {
					return err
				}
				writes[i] = memory.Write{ID: item.ID, Document: doc}
			}
			_, err := orders.Commit(key, writes...)
			return err
		},
		Delete: func(_ context.Context, key feed.PartitionKey, id string) error { return orders.Delete(key, id) },
		Split: func(_ context.Context, partition string) error {
			_, err := orders.Split(partition, "")
			return err
		},
		Merge: func(_ context.Context, a, b string) error {
			_, err := orders.Merge(a, b)
			return err
		},
		Beyond:  func(end feed.Continuation) feed.Continuation { return end[:len(end)-1] + `0"` }, // ten times the LSN
		Advance: func(d time.Duration) { ahead += d },
	}
}

// The suite is the body of a test in the package of an engine:
//
//	func TestSourceConforms(t *testing.T) { feedtest.Run(t, newMemoryFixture) }
//
// An example has no testing.T, so this one calls that test through the helper run.
func Example() {
	conforms := run(func(t *testing.T) { feedtest.Run(t, newMemoryFixture) })
	fmt.Println("package memory conforms:", conforms)
	// Output: package memory conforms: true
}

// run runs a test once, without output, and reports whether it passed. The flags of `go
// test` have no effect on it.
func run(test func(*testing.T)) bool {
	for name, plain := range map[string]string{"test.v": "false", "test.skip": ""} {
		asked := flag.Lookup(name).Value.String()
		_ = flag.Set(name, plain) // never fails, because both flags accept these values
		defer func() { _ = flag.Set(name, asked) }()
	}
	var once sync.Once
	return testing.RunTests(
		func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "feed", F: func(t *testing.T) { once.Do(func() { test(t) }) }}},
	)
}

package azure

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/feed/feedtest"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/lease/leasetest"
)

// pass waits until d has passed on the account's clock, too.
func pass(d time.Duration) { <-time.After(d) }

// The cases of splits, of several partitions and of exact times are skipped: nobody can tell
// the service to split, and several partitions cost 10,000 RU/s each.
func TestSourceConformsOnTheAccount(t *testing.T) {
	feedtest.Run(t, func(t *testing.T, want feedtest.Container) feedtest.Fixture {
		if want.Partitions > 1 {
			t.Skipf("%d partitions cost %d,000 RU/s", want.Partitions, 10*want.Partitions)
		}
		kind := "Hash"
		if len(want.KeyPaths) > 1 {
			kind = "MultiHash"
		}
		paths, err := json.Marshal(want.KeyPaths)
		if err != nil {
			t.Fatal(err)
		}
		members := fmt.Sprintf(`"partitionKey":{"paths":%s,"kind":%q,"version":2}`, paths, kind)
		if want.AllVersions {
			members += `,"changeFeedPolicy":{"retentionDuration":60}`
		}
		if want.TimeToLive {
			members += `,"defaultTtl":-1`
		}
		c, account := newContainer(t, members)
		return feedtest.Fixture{
			Source: account.Source(database, c.name, cosmos.SourceOptions{}),
			Upsert: func(ctx context.Context, key feed.PartitionKey, doc json.RawMessage) error {
				return c.upsert(ctx, key.String(), string(doc))
			},
			Transaction: func(ctx context.Context, key feed.PartitionKey, docs []json.RawMessage) error {
				var ops []string
				for _, doc := range docs {
					ops = append(ops, fmt.Sprintf(`{"operationType":"Upsert","resourceBody":%s}`, doc))
				}
				_, _, err := do(ctx, c.Client, http.MethodPost, c.path+"/docs", "["+strings.Join(ops, ",")+"]", wire.HeaderPartitionKey, key.String(),
					"x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "True", "x-ms-cosmos-batch-ordered", "True")
				return err
			},
			Delete: func(ctx context.Context, key feed.PartitionKey, id string) error {
				return c.remove(ctx, key.String(), url.PathEscape(id))
			},
			Beyond:  func(end feed.Continuation) feed.Continuation { return end[:len(end)-1] + `0"` }, // ten times the LSN
			Drop:    c.drop,
			Advance: pass,
		}
	})
}

func TestLeasesConformOnTheAccount(t *testing.T) {
	leasetest.Run(t, func(t *testing.T) leasetest.Fixture {
		if strings.Contains(t.Name(), "thousands") {
			t.Skip("thousands of leases take 1,000 RU/s for minutes")
		}
		c, account := newContainer(t, `"partitionKey":{"paths":["/id"],"kind":"Hash","version":2},"defaultTtl":-1`)
		key := func(id string) string { return feed.PartitionKey{id}.String() }
		return leasetest.Fixture{
			Container: account.Leases(database, c.name, cosmos.LeaseOptions{}),
			Advance:   pass,
			Document: func(ctx context.Context, id string) ([]byte, error) {
				_, text, err := do(ctx, c.Client, http.MethodGet, c.path+"/docs/"+url.PathEscape(id), "", wire.HeaderPartitionKey, key(id))
				return text, err
			},
			Replace: func(ctx context.Context, id string, document []byte) error {
				return c.upsert(ctx, key(id), string(document))
			},
			Remove: func(ctx context.Context, id string) error { return c.remove(ctx, key(id), url.PathEscape(id)) },
		}
	})
}

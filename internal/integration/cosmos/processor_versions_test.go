package cosmos_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/storetype"
)

// An account that is new keeps no previous images of deletes. The id and the key of a
// delete then come from its metadata, for typed handlers as well.
func TestTypedHandlersGetDeletesWithoutPreviousImages(t *testing.T) {
	type order struct{ Total int }
	var got []string
	record := func(c changefeed.Change[order]) {
		line := fmt.Sprint(c.Op, " ", c.ID, " ", c.Raw.DeletedKey, " expired ", c.Raw.Expired)
		if c.Current != nil {
			line += fmt.Sprint(" current ", c.Current.Total)
		}
		if c.Previous != nil {
			line += fmt.Sprint(" previous ", c.Previous.Total)
		}
		got = append(got, line)
	}
	for name, handler := range map[string]changefeed.Handler{
		"each": changefeed.Each(func(_ context.Context, c changefeed.Change[order]) error {
			record(c)
			return nil
		}),
		"batches": changefeed.Batches(func(_ context.Context, changes []changefeed.Change[order], _ *changefeed.Batch) error {
			for _, c := range changes {
				record(c)
			}
			return nil
		}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got = nil
				s := changefeedtest.NewServerOver(t, changefeedtest.NewStore(t), server.Options{DeletesWithoutPrevious: true})
				orders := changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{
					ID: "orders", KeyPaths: []string{"/region", "/customer"}, Retention: time.Hour, DefaultTTL: -1,
				})
				leaseContainer(t, s)
				a := account(t, s, cosmos.Options{})
				stop := host(t, changefeed.Config{
					Processor: "p", Source: a.Source("db", "orders", cosmos.SourceOptions{}), Leases: a.Leases("db", "leases", cosmos.LeaseOptions{}),
					Mode: feed.AllVersionsAndDeletes, Handler: handler,
				})
				time.Sleep(time.Minute) // until the leases exist
				for _, body := range []string{
					`{"id":"1","region":"eu","customer":"ada","total":1}`, `{"id":"1","region":"eu","customer":"ada","total":2}`,
					`{"id":"2","region":"eu","customer":"ada","total":3,"ttl":5}`,
				} {
					if _, err := orders.Upsert(t.Context(), nil, []byte(body), storetype.WriteOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := orders.Delete(t.Context(), feed.PartitionKey{"eu", "ada"}, "1", storetype.WriteOptions{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if err := stop(); err != nil {
					t.Error(err)
				}
				want := []string{
					`create 1 null expired false current 1`, `replace 1 null expired false current 2 previous 1`, `create 2 null expired false current 3`,
					`delete 1 ["eu","ada"] expired false`, `delete 2 ["eu","ada"] expired true`,
				}
				if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
					t.Errorf("delivered\n%q, want\n%q", got, want)
				}
			})
		})
	}
}

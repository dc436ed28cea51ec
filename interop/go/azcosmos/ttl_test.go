package azcosmos

import (
	"errors"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestTimeToLive(t *testing.T) {
	env.Scenario(t, "ttl", func(t *testing.T) {
		ctx := t.Context()
		c := containerOf(t, azcosmos.ContainerProperties{
			ID: "items", DefaultTimeToLive: to.Ptr[int32](2),
			PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}},
		})
		for _, body := range []string{`{"id":"own","pk":"p","ttl":1}`, `{"id":"default","pk":"p"}`, `{"id":"stays","pk":"p","ttl":-1}`} {
			_, err := c.CreateItem(ctx, pk("p"), []byte(body), nil)
			ok(t, err)
		}
		there := func(id string) bool {
			_, err := c.ReadItem(ctx, pk("p"), id, nil)
			if err == nil {
				return true
			}
			var answer *azcore.ResponseError
			if !errors.As(err, &answer) || answer.StatusCode != 404 {
				t.Fatal(err)
			}
			return false
		}
		until(t, "both items expired", func() bool { return !there("own") && !there("default") })
		equal(t, there("stays"), true, "the item with ttl -1 is there")
		left := queried[item](t, c.NewQueryItemsPager("SELECT * FROM c", pk("p"), nil))
		equal(t, len(left), 1, "items left for a query")
		equal(t, len(newFeed(t, c, azcosmos.ChangeFeedOptions{FeedRange: everything()}).drain(t)), 1, "items left for the feed")
		_, err := c.CreateItem(ctx, pk("p"), []byte(`{"id":"own","pk":"p","ttl":3600}`), nil)
		ok(t, err)
		equal(t, there("own"), true, "the item created again is there")
		_, err = c.CreateItem(ctx, pk("p"), []byte(`{"id":"zero","pk":"p","ttl":0}`), nil)
		refused(t, err, 400)
	})
}

package azcosmos

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

type product struct {
	ID        string  `json:"id"`
	Category  string  `json:"category"`
	Name      string  `json:"name"`
	Quantity  int     `json:"quantity"`
	Price     float32 `json:"price"`
	Clearance bool    `json:"clearance"`
}

// The steps of two guides must work. The first is the service's quick start for Go: write
// a product, read it, and query its category. The second is the SDK's README, which
// creates and deletes the containers.
func TestQuickstart(t *testing.T) {
	env.Scenario(t, "quickstart", func(t *testing.T) {
		ctx := t.Context()
		// The server prints this connection string for users of the SDK.
		c, err := azcosmos.NewClientFromConnectionString("AccountEndpoint="+env.Endpoint+"/;AccountKey="+env.Key+";", nil)
		ok(t, err)
		defer c.Close()
		_, err = c.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "cosmicworks-go"}, nil)
		ok(t, err)
		db, err := c.NewDatabase("cosmicworks-go")
		ok(t, err)
		throughput := azcosmos.NewManualThroughputProperties(400)
		_, err = db.CreateContainer(ctx, azcosmos.ContainerProperties{
			ID: "products", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/category"}},
		}, &azcosmos.CreateContainerOptions{ThroughputProperties: &throughput})
		ok(t, err)
		products, err := db.NewContainer("products")
		ok(t, err)

		want := product{"70b63682-b93a-4c77-aad2-65501347265f", "gear-surf-surfboards", "Yamba Surfboard", 12, 850, false}
		key := azcosmos.NewPartitionKeyString(want.Category)
		written, err := products.UpsertItem(ctx, key, encode(want), nil)
		ok(t, err)
		equal(t, written.RawResponse.StatusCode, 201, "status of the first upsert")
		written, err = products.UpsertItem(ctx, key, encode(want), nil)
		ok(t, err)
		equal(t, written.RawResponse.StatusCode, 200, "status of the second upsert")
		if written.RequestCharge <= 0 {
			t.Error("a write costs nothing")
		}

		read, err := products.ReadItem(ctx, key, want.ID, nil)
		ok(t, err)
		equal(t, decode[product](t, read.Value), want, "the item read")

		pager := products.NewQueryItemsPager("SELECT * FROM products p WHERE p.category = @category", key, &azcosmos.QueryOptions{
			QueryParameters: []azcosmos.QueryParameter{{Name: "@category", Value: want.Category}},
		})
		found := queried[product](t, pager)
		equal(t, len(found), 1, "items found")
		equal(t, found[0], want, "the item found")

		patch := azcosmos.PatchOperations{}
		patch.AppendAdd("/sale", true)
		patch.AppendRemove("/clearance")
		_, err = products.PatchItem(ctx, key, want.ID, patch, nil)
		ok(t, err)
		_, err = products.DeleteItem(ctx, key, want.ID, nil)
		ok(t, err)
		_, err = products.ReadItem(ctx, key, want.ID, nil)
		refused(t, err, 404)
		_, err = db.Delete(ctx, nil)
		ok(t, err)
	})
}

func TestReadMany(t *testing.T) {
	env.Scenario(t, "read-many", func(t *testing.T) {
		c := container(t)
		var wanted []azcosmos.ItemIdentity
		for _, key := range []string{"a", "b", "c", "d", "é"} {
			for v, id := range []string{"1", "2", "o'3"} {
				upsert(t, c, item{id, key, v})
				if v != 1 {
					wanted = append(wanted, azcosmos.ItemIdentity{ID: id, PartitionKey: pk(key)})
				}
			}
		}
		wanted = append(wanted, azcosmos.ItemIdentity{ID: "not there", PartitionKey: pk("a")})
		many, err := c.ReadManyItems(t.Context(), wanted, &azcosmos.ReadManyItemsOptions{MaxConcurrency: to.Ptr[int32](4)})
		ok(t, err)
		seen := map[string]bool{}
		for _, b := range many.Items {
			i := decode[item](t, b)
			seen[i.PK+"/"+i.ID] = true
		}
		equal(t, len(many.Items), 10, "items read")
		equal(t, len(seen), 10, "different items read")
		if seen["a/2"] {
			t.Error("an item that was not asked for")
		}
	})
}

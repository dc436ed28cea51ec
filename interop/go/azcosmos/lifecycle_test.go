package azcosmos

import (
	"fmt"
	"slices"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestDatabaseLifecycle(t *testing.T) {
	env.Scenario(t, "database-lifecycle", func(t *testing.T) {
		c, ctx := client(t), t.Context()
		name := fmt.Sprintf("go life %d é", databases.Add(1))
		created, err := c.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: name}, nil)
		ok(t, err)
		equal(t, created.DatabaseProperties.ID, name, "id")
		if created.DatabaseProperties.ResourceID == "" || created.DatabaseProperties.SelfLink == "" || created.ETag == "" {
			t.Errorf("no rid, self link or ETag: %+v", created.DatabaseProperties)
		}
		_, err = c.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: name}, nil)
		refused(t, err, 409)

		db, err := c.NewDatabase(name)
		ok(t, err)
		read, err := db.Read(ctx, nil)
		ok(t, err)
		equal(t, read.DatabaseProperties.ResourceID, created.DatabaseProperties.ResourceID, "rid")
		equal(t, slices.Contains(databaseNames(t, c, "SELECT * FROM c", nil), name), true, "listed")
		found := databaseNames(t, c, "SELECT * FROM root r WHERE r.id = @id", []azcosmos.QueryParameter{{Name: "@id", Value: name}})
		equal(t, fmt.Sprint(found), fmt.Sprint([]string{name}), "found by a query")

		_, err = db.Delete(ctx, nil)
		ok(t, err)
		_, err = db.Read(ctx, nil)
		refused(t, err, 404)
		_, err = db.Delete(ctx, nil)
		refused(t, err, 404)
	})
}

func databaseNames(t *testing.T, c *azcosmos.Client, query string, parameters []azcosmos.QueryParameter) []string {
	t.Helper()
	var names []string
	for pager := c.NewQueryDatabasesPager(query, &azcosmos.QueryDatabasesOptions{QueryParameters: parameters}); pager.More(); {
		page, err := pager.NextPage(t.Context())
		ok(t, err)
		for _, d := range page.Databases {
			names = append(names, d.ID)
		}
	}
	return names
}

func TestContainerLifecycle(t *testing.T) {
	env.Scenario(t, "container-lifecycle", func(t *testing.T) {
		db, ctx := database(t), t.Context()
		properties := azcosmos.ContainerProperties{
			ID:                     "orders",
			PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/customer/id"}},
			UniqueKeyPolicy:        &azcosmos.UniqueKeyPolicy{UniqueKeys: []azcosmos.UniqueKey{{Paths: []string{"/number"}}}},
			IndexingPolicy: &azcosmos.IndexingPolicy{
				Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent,
				IncludedPaths: []azcosmos.IncludedPath{{Path: "/*"}},
				ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/big/*"}},
			},
		}
		created, err := db.CreateContainer(ctx, properties, nil)
		ok(t, err)
		equal(t, created.RawResponse.StatusCode, 201, "status")
		_, err = db.CreateContainer(ctx, properties, nil)
		refused(t, err, 409)

		c, err := db.NewContainer("orders")
		ok(t, err)
		read, err := c.Read(ctx, nil)
		ok(t, err)
		got := read.ContainerProperties
		equal(t, fmt.Sprint(got.PartitionKeyDefinition.Paths), "[/customer/id]", "partition key")
		if got.UniqueKeyPolicy == nil || got.UniqueKeyPolicy.UniqueKeys[0].Paths[0] != "/number" {
			t.Errorf("the unique keys are not kept: %+v", got.UniqueKeyPolicy)
		}
		if got.IndexingPolicy == nil || !slices.ContainsFunc(got.IndexingPolicy.ExcludedPaths, func(p azcosmos.ExcludedPath) bool { return p.Path == "/big/*" }) {
			t.Errorf("the indexing policy is not kept: %+v", got.IndexingPolicy)
		}

		got.DefaultTimeToLive = to.Ptr[int32](3600)
		replaced, err := c.Replace(ctx, *got, nil)
		ok(t, err)
		if ttl := replaced.ContainerProperties.DefaultTimeToLive; ttl == nil || *ttl != 3600 {
			t.Errorf("the ttl is not replaced: %v", ttl)
		}
		equal(t, replaced.ContainerProperties.UniqueKeyPolicy.UniqueKeys[0].Paths[0], "/number", "unique key after a replace")
		got.PartitionKeyDefinition.Paths = []string{"/other"}
		_, err = c.Replace(ctx, *got, nil)
		refused(t, err, 400)
		none := azcore.ETag(`"none of mine"`)
		_, err = c.Delete(ctx, &azcosmos.DeleteContainerOptions{})
		ok(t, err)

		_, err = c.Read(ctx, nil)
		refused(t, err, 404)
		_, err = c.ReadItem(ctx, pk("a"), "1", nil)
		refused(t, err, 404)
		_, err = c.ReplaceItem(ctx, pk("a"), "1", []byte(`{"id":"1","customer":{"id":"a"}}`), &azcosmos.ItemOptions{IfMatchEtag: &none})
		refused(t, err, 404)

		_, err = db.CreateContainer(ctx, azcosmos.ContainerProperties{ID: "again", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}}}, nil)
		ok(t, err)
		var names []string
		for pager := db.NewQueryContainersPager("SELECT * FROM c WHERE c.id != 'orders'", nil); pager.More(); {
			page, err := pager.NextPage(ctx)
			ok(t, err)
			for _, found := range page.Containers {
				names = append(names, found.ID)
			}
		}
		equal(t, fmt.Sprint(names), "[again]", "containers found")
	})
}

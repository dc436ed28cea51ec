package azcosmos

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestManualThroughput(t *testing.T) {
	env.Scenario(t, "throughput-manual", func(t *testing.T) {
		c, ctx := container(t), t.Context()
		read, err := c.ReadThroughput(ctx, nil)
		ok(t, err)
		manual, is := read.ThroughputProperties.ManualThroughput()
		equal(t, is, true, "manual")
		equal(t, manual, 20_000, "throughput")
		ranges, err := c.ReadFeedRanges(ctx, nil)
		ok(t, err)
		equal(t, len(ranges), 2, "partitions")
		replaced, err := c.ReplaceThroughput(ctx, azcosmos.NewManualThroughputProperties(15_000), nil)
		ok(t, err)
		manual, _ = replaced.ThroughputProperties.ManualThroughput()
		equal(t, manual, 15_000, "throughput answered by the replace")
		read, err = c.ReadThroughput(ctx, nil)
		ok(t, err)
		manual, _ = read.ThroughputProperties.ManualThroughput()
		equal(t, manual, 15_000, "throughput after the replace")

		db, err := client(t).NewDatabase(databaseOf(c))
		ok(t, err)
		_, err = db.CreateContainer(ctx, azcosmos.ContainerProperties{ID: "small", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}}}, nil)
		ok(t, err)
		small, err := db.NewContainer("small")
		ok(t, err)
		ranges, err = small.ReadFeedRanges(ctx, nil)
		ok(t, err)
		equal(t, len(ranges), 1, "partitions of a container that names no throughput")
	})
}

func TestAutoscaleThroughput(t *testing.T) {
	env.Scenario(t, "throughput-autoscale", func(t *testing.T) {
		db, ctx := database(t), t.Context()
		throughput := azcosmos.NewAutoscaleThroughputProperties(4_000)
		_, err := db.CreateContainer(ctx, azcosmos.ContainerProperties{
			ID: "items", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}},
		}, &azcosmos.CreateContainerOptions{ThroughputProperties: &throughput})
		ok(t, err)
		c, err := db.NewContainer("items")
		ok(t, err)
		read, err := c.ReadThroughput(ctx, nil)
		ok(t, err)
		most, is := read.ThroughputProperties.AutoscaleMaxThroughput()
		equal(t, is, true, "autoscale")
		equal(t, most, 4_000, "highest throughput")
		replaced, err := c.ReplaceThroughput(ctx, azcosmos.NewAutoscaleThroughputProperties(8_000), nil)
		ok(t, err)
		most, _ = replaced.ThroughputProperties.AutoscaleMaxThroughput()
		equal(t, most, 8_000, "highest throughput answered by the replace")
	})
}

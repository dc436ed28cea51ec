package store

import (
	"context"

	"github.com/changefeed-go/changefeed/feed"
)

// Partitions returns the live partitions in the order of their ranges.
func (c *Container) Partitions(ctx context.Context) ([]feed.Partition, error) { panic("to do") }

// Split divides a partition in two at the effective partition key at (hex);
// empty: the middle of its range. Readers and writers go on; the old ID is
// retired and never used again. It returns the two new partitions.
func (c *Container) Split(ctx context.Context, id, at string) ([]feed.Partition, error) {
	panic("to do")
}

// Merge makes one partition of two neighbours.
func (c *Container) Merge(ctx context.Context, a, b string) (feed.Partition, error) { panic("to do") }

package feed

// Partition is a physical partition of a container. The live partitions of a
// container tile the whole key space.
type Partition struct {
	// ID names the partition. It is never used again in the same container.
	ID string
	// Range holds the partition's keys.
	Range Range
	// Parents are the IDs of all its ancestors, not only the direct ones, so
	// that somebody who slept through several splits recognises them.
	Parents []string
}

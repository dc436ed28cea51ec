package feed

// Partition is a container's physical partition. The live ones cover the whole key space
// without overlaps.
type Partition struct {
	// ID names the partition, and is never reused within the container.
	ID string
	// Range holds the partition's keys.
	Range Range
	// Parents are all ancestors' IDs, not only the direct ones', so that a reader that
	// missed several splits recognises the partition that replaced its own.
	Parents []string
}

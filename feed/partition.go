package feed

// Partition is a physical partition of a container. The live partitions of a container
// cover the whole key space without overlaps.
type Partition struct {
	// ID names the partition. A container never reuses an ID.
	ID string
	// Range is the range of the partition's keys.
	Range Range
	// Parents are the IDs of all ancestors, not only of the direct ones. So a reader that
	// missed several splits recognises the partition that replaced its own.
	Parents []string
}

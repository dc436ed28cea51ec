package feed

// Mode is what a change feed shows of an item that changed more than once.
type Mode int

const (
	// LatestVersion shows each item once, at its last write. Deletes and
	// expired items are not shown.
	LatestVersion Mode = iota
	// AllVersionsAndDeletes (AVAD) shows every version and every delete,
	// within the container's retention.
	AllVersionsAndDeletes
)

// String names the mode for messages.
func (m Mode) String() string {
	if m == AllVersionsAndDeletes {
		return "all versions and deletes"
	}
	return "latest version"
}

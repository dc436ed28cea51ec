package feed

// Mode selects the versions of an item that a change feed returns.
type Mode int

const (
	// LatestVersion returns each item once, at its last write. It returns no deletes and
	// no expired items.
	LatestVersion Mode = iota
	// AllVersionsAndDeletes (AVAD) returns every version and every delete within the
	// container's retention.
	AllVersionsAndDeletes
)

// String returns the name of the mode for messages.
func (m Mode) String() string {
	if m == AllVersionsAndDeletes {
		return "all versions and deletes"
	}
	return "latest version"
}

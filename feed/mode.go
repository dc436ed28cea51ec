package feed

// Mode selects which versions a change feed returns.
type Mode int

const (
	// LatestVersion returns each item once, at its last write, but neither deletes nor
	// expired items. It is what most programs want, because it reaches back to the
	// beginning.
	LatestVersion Mode = iota
	// AllVersionsAndDeletes (AVAD) returns every version and every delete, but only within
	// the container's retention. Reach for it when intermediate versions or deletes matter.
	AllVersionsAndDeletes
)

// String returns the mode's name for messages.
func (m Mode) String() string {
	if m == AllVersionsAndDeletes {
		return "all versions and deletes"
	}
	return "latest version"
}

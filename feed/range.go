package feed

// MinEPK and MaxEPK bound the whole key space: every effective partition key is at least
// MinEPK and less than MaxEPK.
const (
	MinEPK = ""
	MaxEPK = "FF"
)

// Range is the interval [Min, Max) of effective partition keys. The bounds are upper-case
// hexadecimal and are compared as text, byte by byte. Only the Source interprets them.
// The zero Range means every key in a [Request] and in a configuration. [Range.OrFull]
// makes that explicit.
type Range struct {
	Min, Max string
}

// Full returns the range that holds every key.
func Full() Range { return Range{Min: MinEPK, Max: MaxEPK} }

// IsZero reports whether r is the zero Range, which means every key.
func (r Range) IsZero() bool { return r == Range{} }

// OrFull returns r, or [Full] if r is zero.
func (r Range) OrFull() Range {
	if r.IsZero() {
		return Full()
	}
	return r
}

// IsEmpty reports whether r contains no key.
func (r Range) IsEmpty() bool { return r.Min >= r.Max }

// Holds reports whether r contains the effective partition key epk.
func (r Range) Holds(epk string) bool { return r.Min <= epk && epk < r.Max }

// Contains reports whether every key in other lies in r, too.
func (r Range) Contains(other Range) bool {
	return r.Min <= other.Min && other.Max <= r.Max
}

// Overlaps reports whether at least one key lies in both ranges.
func (r Range) Overlaps(other Range) bool {
	return r.Min < other.Max && other.Min < r.Max
}

// Intersect returns the keys that lie in both ranges, an empty range if they do not
// overlap.
func (r Range) Intersect(other Range) Range {
	return Range{Min: max(r.Min, other.Min), Max: min(r.Max, other.Max)}
}

// Cut divides r into len(borders)+1 ranges, at borders that must be inside r and in
// order.
func (r Range) Cut(borders []string) []Range {
	parts := make([]Range, 0, len(borders)+1)
	low := r.Min
	for _, border := range borders {
		parts = append(parts, Range{Min: low, Max: border})
		low = border
	}
	return append(parts, Range{Min: low, Max: r.Max})
}

// String returns r as "Min-Max", the form of an EPK lease token.
func (r Range) String() string { return r.Min + "-" + r.Max }

package feed

// MinEPK and MaxEPK are the borders of the whole key space: every effective
// partition key is at or above MinEPK and below MaxEPK.
const (
	MinEPK = ""
	MaxEPK = "FF"
)

// Range is the interval [Min, Max) of effective partition keys, written in
// upper-case hexadecimal and compared as text, byte by byte. What a point in it
// means is known to the Source alone. The zero Range stands for "everything"
// in a [Request] and in configuration; [Range.OrFull] makes that explicit.
type Range struct {
	Min, Max string
}

// Full is the range of a whole container.
func Full() Range { return Range{Min: MinEPK, Max: MaxEPK} }

// IsZero reports whether r is the zero Range, which stands for everything.
func (r Range) IsZero() bool { return r == Range{} }

// OrFull returns r, or [Full] when r is zero.
func (r Range) OrFull() Range {
	if r.IsZero() {
		return Full()
	}
	return r
}

// IsEmpty reports whether no key lies in r.
func (r Range) IsEmpty() bool { return r.Min >= r.Max }

// Holds reports whether the effective partition key epk lies in r.
func (r Range) Holds(epk string) bool { return r.Min <= epk && epk < r.Max }

// Contains reports whether every key of other lies in r.
func (r Range) Contains(other Range) bool {
	return r.Min <= other.Min && other.Max <= r.Max
}

// Overlaps reports whether some key lies in both ranges.
func (r Range) Overlaps(other Range) bool {
	return r.Min < other.Max && other.Min < r.Max
}

// Intersect returns the keys that lie in both ranges; the result is empty when
// they do not overlap.
func (r Range) Intersect(other Range) Range {
	return Range{Min: max(r.Min, other.Min), Max: min(r.Max, other.Max)}
}

// Cut divides r at borders, which lie inside it, in order: into one range more
// than there are borders.
func (r Range) Cut(borders []string) []Range {
	parts := make([]Range, 0, len(borders)+1)
	low := r.Min
	for _, border := range borders {
		parts = append(parts, Range{Min: low, Max: border})
		low = border
	}
	return append(parts, Range{Min: low, Max: r.Max})
}

// String writes r as "Min-Max", the form of an EPK lease token.
func (r Range) String() string { return r.Min + "-" + r.Max }

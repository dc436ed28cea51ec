package follow

import (
	"cmp"
	"slices"
)

// Over returns the parts that hold keys of r, in the order of their ranges. at is the key
// up to which they cover r without a gap or an overlap. It is r's Max if they cover all.
func Over[R ~struct{ Min, Max string }, P any](r R, parts []P, rangeOf func(P) R) (over []P, at string) {
	type keys = struct{ Min, Max string }
	all := keys(r)
	for _, part := range parts {
		if k := keys(rangeOf(part)); max(k.Min, all.Min) < min(k.Max, all.Max) {
			over = append(over, part)
		}
	}
	slices.SortStableFunc(over, func(a, b P) int { return cmp.Compare(keys(rangeOf(a)).Min, keys(rangeOf(b)).Min) })
	at = all.Min
	for _, part := range over {
		k := keys(rangeOf(part))
		if low := max(k.Min, all.Min); low != at {
			return over, min(low, at)
		}
		at = min(k.Max, all.Max)
	}
	return over, at
}

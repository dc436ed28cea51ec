package feed

import (
	"context"
	"fmt"
)

// SplitRange divides r into n ranges for as many workers, each with a [Reader] of
// its own: evenly in the hashes of the keys, in order and without gaps. The zero
// Range is everything. Parts needn't be partitions: there may be more of them
// than partitions, and where one reaches over a border, its reader reads both
// sides. For the partitions themselves there is [Source.Partitions].
//
// All changes of one partition key are in one part, in their order. The error
// wraps [ErrUnsupported] where s can't divide ranges.
func SplitRange(ctx context.Context, s Source, r Range, n int) ([]Range, error) {
	if n < 1 {
		return nil, fmt.Errorf("split range %s: %d parts are not possible", r.OrFull(), n)
	}
	if n == 1 {
		return []Range{r.OrFull()}, nil
	}
	parts, err := s.SplitRange(ctx, r.OrFull(), n)
	if err != nil {
		return nil, fmt.Errorf("split range %s in %d: %w", r.OrFull(), n, err)
	}
	return parts, nil
}

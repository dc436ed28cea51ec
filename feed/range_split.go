package feed

import (
	"context"
	"fmt"
)

// SplitRange divides r into n ranges, in order and without gaps. The ranges are equal in
// the hashes of the keys. Each can have a worker with a [Reader] of its own. The zero
// Range means every key.
//
// The parts are not partitions. There may be more parts than partitions, and one part may
// cover several partitions; its reader reads all of them. [Source.Partitions] returns the
// partitions.
//
// All changes of one partition key are in one part, in their order. The error wraps
// [ErrUnsupported] if s cannot divide ranges.
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

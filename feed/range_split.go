package feed

import (
	"context"
	"fmt"
)

// SplitRange divides r, or every key if r is zero, into n ranges, so that n workers can
// each have a [Reader] of their own. The ranges get equal shares of the key hashes, and
// come in order and without gaps.
//
// The parts are not partitions (which [Source.Partitions] returns). There may be more of
// them than partitions, and a part may cover several; its reader then reads them all.
//
// All changes with one partition key are in one part, in their order. The error wraps
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

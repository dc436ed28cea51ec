package feed

import (
	"context"
	"fmt"
)

// RangeSplitter is what a [Source] may be besides: one that knows how keys are
// spread over a range, and divides it into parts that hold about as many each.
type RangeSplitter interface {
	// SplitRange divides r (the zero Range is everything) into n parts, n >= 1,
	// in order and without gaps, evenly in the hashes of the keys. What can't be
	// divided so far is an error.
	SplitRange(ctx context.Context, r Range, n int) ([]Range, error)
}

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
	splitter, ok := s.(RangeSplitter)
	if !ok {
		return nil, fmt.Errorf("split range %s: %w by this source", r.OrFull(), ErrUnsupported)
	}
	parts, err := splitter.SplitRange(ctx, r.OrFull(), n)
	if err != nil {
		return nil, fmt.Errorf("split range %s in %d: %w", r.OrFull(), n, err)
	}
	return parts, nil
}

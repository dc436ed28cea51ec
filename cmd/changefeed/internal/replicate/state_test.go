package replicate

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/changefeed-go/changefeed/feed"
)

// splittingSource is a source whose partition splits just before its first reads are
// answered.
type splittingSource struct {
	feed.Source
	gone, reads int
}

func (s *splittingSource) Partitions(context.Context) ([]feed.Partition, error) {
	if s.reads < s.gone {
		return []feed.Partition{{ID: "0", Range: feed.Full()}}, nil
	}
	return []feed.Partition{{ID: "1", Range: feed.Range{Max: "80"}}, {ID: "2", Range: feed.Range{Min: "80", Max: "FF"}}}, nil
}

func (s *splittingSource) Read(_ context.Context, r feed.Request) (feed.Page, error) {
	s.reads++
	if s.reads <= s.gone {
		return feed.Page{}, &feed.GoneError{}
	}
	return feed.Page{End: int64(len(r.Range.Min))}, nil
}

func TestAPartitionThatSplitsWhileTheEndsAreReadCostsAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends, err := endsOf(t.Context(), &splittingSource{gone: 3})
		if want := []stateEnd{{Max: "80"}, {Min: "80", Max: "FF", LSN: 2}}; err != nil || !slices.Equal(ends, want) {
			t.Errorf("the ends are %v, %v; want %v", ends, err, want)
		}
		forever := &splittingSource{gone: 1000}
		_, err = endsOf(t.Context(), forever)
		if _, gone := errors.AsType[*feed.GoneError](err); !gone || forever.reads != maxAttempts {
			t.Errorf("after %d reads: %v", forever.reads, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := endsOf(ctx, &splittingSource{gone: 1}); !errors.Is(err, context.Canceled) {
			t.Errorf("a run that is interrupted: %v", err)
		}
	})
}

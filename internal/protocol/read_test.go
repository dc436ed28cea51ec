package protocol

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
		ends, err := Ends(t.Context(), &splittingSource{gone: 3}, feed.LatestVersion)
		if want := []End{{feed.Range{Max: "80"}, 0}, {feed.Range{Min: "80", Max: "FF"}, 2}}; err != nil || !slices.Equal(ends, want) {
			t.Errorf("the ends are %v, %v; want %v", ends, err, want)
		}
		forever := &splittingSource{gone: 1000}
		_, err = Ends(t.Context(), forever, feed.LatestVersion)
		if _, gone := errors.AsType[*feed.GoneError](err); !gone || forever.reads != 10 {
			t.Errorf("after %d reads: %v", forever.reads, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Ends(ctx, &splittingSource{gone: 1}, feed.LatestVersion); !errors.Is(err, context.Canceled) {
			t.Errorf("a run that is interrupted: %v", err)
		}
	})
}

package replicate

import (
	"context"
	"errors"
	"slices"
	"strings"
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

// Leases that belong to another replication tell nothing about this one. With them it would
// skip what the other one has copied, without a word.
func TestStateOfAnotherReplicationIsRefused(t *testing.T) {
	st := state{ID: stateID("copy"), FromRID: "from", ToRID: "to", SourceKey: []string{"/a"}, TargetKey: []string{"/b"}, Mode: "latest version"}
	if err := st.fits(st); err != nil {
		t.Errorf("its own state: %v", err)
	}
	for name, c := range map[string]struct {
		change func(*state)
		want   string
	}{
		"another source":     {func(s *state) { s.FromRID = "x" }, "from another container"},
		"another target":     {func(s *state) { s.ToRID = "x" }, "into another container"},
		"another source key": {func(s *state) { s.SourceKey = []string{"/a", "/c"} }, "from key /a to /b, but this one is from /a,/c to /b"},
		"another target key": {func(s *state) { s.TargetKey = nil }, "from key"},
		"another mode":       {func(s *state) { s.Mode = "all versions and deletes" }, "mode latest version"},
	} {
		want := st
		c.change(&want)
		if err := st.fits(want); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "replicate:copy") {
			t.Errorf("%s: %v; want a refusal with %q and the document's id", name, err, c.want)
		}
	}
}

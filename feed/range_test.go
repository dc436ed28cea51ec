package feed_test

import (
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

func TestRangeIsHalfOpen(t *testing.T) {
	r := feed.Range{Min: "1F", Max: "3F"}
	for epk, want := range map[string]bool{"1E": false, "1F": true, "1F00": true, "3EFFFF": true, "3F": false, "3F00": false} {
		if got := r.Holds(epk); got != want {
			t.Errorf("%s holds %s = %t; want %t", r, epk, got, want)
		}
	}
}

func TestRangesThatTouchDoNotOverlap(t *testing.T) {
	a, b := feed.Range{Max: "80"}, feed.Range{Min: "80", Max: "FF"}
	if a.Overlaps(b) || b.Overlaps(a) || !a.Intersect(b).IsEmpty() {
		t.Errorf("%s and %s overlap in %s", a, b, a.Intersect(b))
	}
	c := feed.Range{Min: "40", Max: "C0"}
	if got, want := a.Intersect(c), (feed.Range{Min: "40", Max: "80"}); got != want || !a.Overlaps(c) {
		t.Errorf("%s and %s intersect in %s; want %s", a, c, got, want)
	}
	if !feed.Full().Contains(a) || !feed.Full().Contains(b) || a.Contains(c) || !a.Contains(a) {
		t.Error("Contains is not the relation of subsets")
	}
}

func TestZeroRangeMeansEveryKey(t *testing.T) {
	if !(feed.Range{}).IsZero() || (feed.Range{}).OrFull() != feed.Full() || feed.Full().IsZero() {
		t.Error("the zero Range does not mean every key")
	}
	if r := (feed.Range{Max: "80"}); r.OrFull() != r {
		t.Errorf("OrFull changed %s", r)
	}
	if got := feed.Full().String(); got != "-FF" {
		t.Errorf("the full range is written %q; want the EPK lease token -FF", got)
	}
}

func TestStartReturnsItsParts(t *testing.T) {
	if s := (feed.Start{}); s.Kind() != feed.StartNow || s != feed.Now() {
		t.Errorf("the zero Start is %s; want now", s)
	}
	at := time.Date(2026, 11, 21, 13, 0, 5, 999, time.FixedZone("", 3600))
	if s := feed.At(at); s.Kind() != feed.StartTime || !s.Time().Equal(at.Truncate(time.Second)) || s.String() != "2026-11-21T12:00:05Z" {
		t.Errorf("At(%s) is %s", at, s)
	}
	if s := feed.After(`"24"`); s.Kind() != feed.StartContinuation || s.Continuation() != `"24"` {
		t.Errorf("After is %s", s)
	}
	if s := feed.Beginning(); s.Kind() != feed.StartBeginning || s.String() != "beginning" {
		t.Errorf("Beginning is %s", s)
	}
}

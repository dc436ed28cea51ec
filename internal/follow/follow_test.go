package follow

import (
	"slices"
	"testing"
	"time"
)

func TestNoReadFollowsTheLastChangeAtOnce(t *testing.T) {
	for _, c := range []struct {
		name     string
		prompt   bool
		lsn, end int64
		wait     time.Duration
	}{
		{"the end of a source that answers at once", true, 7, 7, 250 * time.Millisecond},
		{"there is more to read", true, 6, 7, time.Millisecond},
		{"the source reports no LSNs", true, -1, -1, time.Millisecond},
		{"the source reports no end", true, 7, -1, time.Millisecond},
		{"the source waits, or it may wait", false, 7, 7, time.Millisecond},
	} {
		var tail Tail
		p := Pace{Interval: 5 * time.Second, prompt: c.prompt}
		started, now := time.Minute, time.Minute+time.Millisecond
		if got := p.Changes(started, now, tail.Changes(c.lsn, c.end)) - started; got != c.wait {
			t.Errorf("%s: again after %s, want %s", c.name, got, c.wait)
		}
	}
}

func TestSourceThatWaitsIsAskedAgainAtOnce(t *testing.T) {
	const interval = 5 * time.Second
	p := Pace{Interval: interval}
	started, now := time.Minute, time.Minute+interval
	if again := p.Empty(started, now, interval); again > now || p.prompt {
		t.Errorf("again %s after the answer, prompt %t", again-now, p.prompt)
	}
	if again := p.Changes(now, now+time.Second, true); again > now+time.Second {
		t.Errorf("after changes again %s after the answer", again-now-time.Second)
	}
	started, now = 2*time.Minute, 2*time.Minute+time.Millisecond
	if again := p.Empty(started, now, 0); again <= now || p.prompt {
		t.Errorf("a source that was not asked to wait is asked again %s after the answer, prompt %t", again-now, p.prompt)
	}
	for _, asked := range []time.Duration{interval, 0} { // a read that need not wait shows nothing
		if again := p.Empty(started, now, asked); again <= now || !p.prompt {
			t.Errorf("a source that answers at once is asked again %s after the answer, prompt %t", again-now, p.prompt)
		}
	}
}

func TestDelayGrowsFromATwentiethToTheInterval(t *testing.T) {
	p := Pace{Interval: 5 * time.Second, Active: time.Minute}
	for since, want := range map[time.Duration]time.Duration{
		0: 250 * time.Millisecond, time.Second: 250 * time.Millisecond, 2 * time.Second: 500 * time.Millisecond,
		20 * time.Second: 5 * time.Second, time.Hour: 5 * time.Second,
	} {
		if got := p.Delay(p.Active + since); got != want {
			t.Errorf("the delay %s after the last change is %s, want %s", since, got, want)
		}
	}
	if p.Interval = 3; p.Delay(p.Active) != 1 {
		t.Errorf("the delay of an interval of 3 ns is %s", p.Delay(p.Active))
	}
}

func TestEmptyPageInTheMiddleOfTheFeedIsNotTheEnd(t *testing.T) {
	for _, c := range []struct {
		name     string
		moved    bool
		lsn, end int64
		want     bool
	}{
		{"in the middle", true, 6, 7, false},
		{"in the middle, at the position of the read", false, 6, 7, true},
		{"at the end", true, 7, 7, true},
		{"the feed has no transaction", true, 0, 0, true},
		{"the source reports no LSN", true, -1, 7, true},
		{"the source reports no end", true, 6, -1, true},
		{"the source reports neither", true, -1, -1, true},
	} {
		for _, once := range []bool{false, true} {
			tail := Tail{Once: once}
			if got := tail.Empty(c.lsn, c.end, c.moved); got != c.want {
				t.Errorf("%s: the end %t, want %t", c.name, got, c.want)
			}
		}
	}
}

// Writes of other keys move the end of the feed between two reads of a range. The reads
// must not follow each other without a delay forever.
func TestEndThatMovesDoesNotKeepTheReadsGoing(t *testing.T) {
	ends := func(tail Tail, page func(lsn int64) bool) (ends []int) {
		for n := range 6 {
			if page(int64(10 * (n + 1))) {
				ends = append(ends, n)
			}
		}
		return ends
	}
	var tail Tail
	if got, want := ends(tail, func(lsn int64) bool { return tail.Empty(lsn, lsn+15, true) }), []int{2, 5}; !slices.Equal(got, want) {
		t.Errorf("of the empty pages, %v are ends, want %v", got, want)
	}
	if got := ends(tail, func(lsn int64) bool { return tail.Changes(lsn, lsn+15) }); got != nil {
		t.Errorf("of the pages with changes, %v are the last, and each shows that there are more", got)
	}
	tail = Tail{Once: true}
	if got, want := ends(tail, func(lsn int64) bool { return tail.Changes(lsn, lsn+15) }), []int{2, 3, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("a reader that stops at the first end reaches it at the pages %v, want %v", got, want)
	}
}

// A page with changes shows how far the source has got by now, so the search for the end
// starts over.
func TestChangesBeginANewSearchForTheEnd(t *testing.T) {
	var tail Tail
	for n, c := range []struct {
		changes  bool
		lsn, end int64
		want     bool
	}{{false, 10, 20, false}, {true, 15, 40, false}, {false, 20, 50, false}, {false, 50, 60, true}} {
		got := false
		if c.changes {
			got = tail.Changes(c.lsn, c.end)
		} else {
			got = tail.Empty(c.lsn, c.end, true)
		}
		if got != c.want {
			t.Errorf("page %d: the end %t, want %t", n, got, c.want)
		}
	}
}

type part struct{ Min, Max string }

func TestOverCutsARange(t *testing.T) {
	for _, c := range []struct {
		name  string
		r     part
		parts []part
		over  []part
		at    string
	}{
		{"whole parts, in another order", part{"20", "60"}, []part{{"40", "60"}, {"60", "80"}, {"20", "40"}, {"", "20"}}, []part{{"20", "40"}, {"40", "60"}}, "60"},
		{"parts that reach beyond", part{"20", "60"}, []part{{"", "40"}, {"40", "FF"}}, []part{{"", "40"}, {"40", "FF"}}, "60"},
		{"a gap at the beginning", part{"20", "60"}, []part{{"30", "60"}}, []part{{"30", "60"}}, "20"},
		{"a gap in between", part{"20", "60"}, []part{{"20", "30"}, {"40", "60"}}, []part{{"20", "30"}, {"40", "60"}}, "30"},
		{"a gap at the end", part{"20", "60"}, []part{{"20", "40"}}, []part{{"20", "40"}}, "40"},
		{"an overlap", part{"20", "60"}, []part{{"20", "60"}, {"40", "60"}}, []part{{"20", "60"}, {"40", "60"}}, "40"},
		{"an empty part", part{"20", "60"}, []part{{"20", "60"}, {"40", "40"}}, []part{{"20", "60"}}, "60"},
		{"nothing", part{"20", "60"}, nil, nil, "20"},
	} {
		over, at := Over(c.r, c.parts, func(p part) part { return p })
		if !slices.Equal(over, c.over) || at != c.at {
			t.Errorf("%s: %v up to %q, want %v up to %q", c.name, over, at, c.over, c.at)
		}
	}
}

package demo

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
)

func batch(r feed.Range, lsns ...int64) *changefeed.Batch {
	b := &changefeed.Batch{Range: r}
	for _, lsn := range lsns {
		b.Changes = append(b.Changes, feed.Change{LSN: lsn, Current: fmt.Appendf(nil, `{"id":"%d"}`, lsn)})
	}
	return b
}

func deliver(t *testing.T, c *counters, b *changefeed.Batch) {
	t.Helper()
	e, err := delivery(b)
	if err != nil {
		t.Fatal(err)
	}
	c.deliver(e)
}

func TestRedeliveriesAreSeparatedFromUpdates(t *testing.T) {
	c := newCounters(time.Now(), nil)
	whole := feed.Full()
	deliver(t, c, batch(whole, 1, 2, 3))
	deliver(t, c, batch(whole, 2, 3, 4)) // two of them are delivered again
	update := batch(whole, 9)
	update.Changes[0].Current = []byte(`{"id":"1"}`)
	deliver(t, c, update)
	if r := c.report(); r.Delivered != 7 || r.Redelivered != 2 {
		t.Errorf("delivered %d, redelivered %d, want 7 and 2", r.Delivered, r.Redelivered)
	}
}

func TestAPauseIsMeasuredFromTheWriteOrTheLastWork(t *testing.T) {
	left, right := feed.Range{Min: "", Max: "80"}, feed.Range{Min: "80", Max: "FF"}
	for _, c := range []struct {
		name string
		play func(t *testing.T, c *counters)
		want time.Duration
	}{
		{"the idle time before a write does not count", func(t *testing.T, c *counters) {
			deliver(t, c, batch(left, 1))
			time.Sleep(time.Hour)
			c.wrote("2", 2)
			time.Sleep(time.Second)
			deliver(t, c, batch(left, 2))
		}, time.Second},
		{"a change that waits since the last work", func(t *testing.T, c *counters) {
			c.wrote("1", 1)
			c.wrote("2", 2)
			deliver(t, c, batch(left, 1))
			time.Sleep(3 * time.Second) // the handler works for three seconds
			c.handled(left)
			time.Sleep(2 * time.Second)
			deliver(t, c, batch(left, 2))
		}, 2 * time.Second},
		{"a redelivery after a crash", func(t *testing.T, c *counters) {
			c.wrote("1", 1)
			deliver(t, c, batch(left, 1))
			time.Sleep(6 * time.Second)
			deliver(t, c, batch(left, 1))
		}, 6 * time.Second},
		{"a change that comes before its writer's answer", func(t *testing.T, c *counters) {
			deliver(t, c, batch(left, 1))
			time.Sleep(time.Hour)
			deliver(t, c, batch(left, 2))
			c.wrote("2", 2)
			time.Sleep(time.Hour)
			deliver(t, c, batch(left, 3))
			c.wrote("3", 3)
		}, 0},
		{"each range for itself", func(t *testing.T, c *counters) {
			c.wrote("1", 1)
			for range 5 {
				time.Sleep(time.Second)
				c.wrote("2", 2)
				deliver(t, c, batch(right, 2))
			}
			deliver(t, c, batch(left, 1))
		}, 5 * time.Second},
		{"a part of a split range continues from the whole", func(t *testing.T, c *counters) {
			c.wrote("1", 1)
			c.wrote("2", 2)
			time.Sleep(time.Second)
			deliver(t, c, batch(feed.Full(), 1))
			time.Sleep(2 * time.Second)
			deliver(t, c, batch(left, 2))
		}, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				count := newCounters(time.Now(), nil)
				c.play(t, count)
				if got := count.report().LongestPause; got != c.want {
					t.Errorf("the longest pause is %s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestALeaseMoveIsCountedWhenAnotherHostHasIt(t *testing.T) {
	c := newCounters(time.Now(), nil)
	c.acquired("a", "0")
	c.acquired("a", "1")
	c.released("a", "0")
	if c.holds("a") != true || c.holds("b") {
		t.Error("a has a lease, and b none")
	}
	c.acquired("a", "0") // the lease returns to its earlier owner
	c.acquired("b", "1") // host b acquires it after a crash, without a release
	c.released("a", "1") // the release of an earlier owner does not count
	c.released("a", "0")
	if got := c.report().LeaseMoves; got != 1 {
		t.Errorf("%d moves, want 1", got)
	}
	if c.holds("a") || !c.holds("b") {
		t.Error("b has a lease, and a none")
	}
}

// A later run does not write the records of an earlier run again, but it may deliver
// their changes. They are counted apart, because otherwise the deliveries would exceed
// the writes.
func TestChangesOfEarlierRunsAreCountedApart(t *testing.T) {
	low, high := feed.Range{Max: "80"}, feed.Range{Min: "80", Max: feed.MaxEPK}
	c := newCounters(time.Now(), []protocol.End{{Range: low, LSN: 3}, {Range: high, LSN: 1}})
	deliver(t, c, batch(low, 2, 3, 4, 5))
	deliver(t, c, batch(low, 3, 4)) // the same changes are delivered again
	if r := c.report(); r.Delivered != 3 || r.Earlier != 3 || r.Redelivered != 2 {
		t.Errorf("%d delivered, %d from before, %d redelivered; want 3, 3 and 2", r.Delivered, r.Earlier, r.Redelivered)
	}
	shown, delivered := c.counts()
	want := []view.Count{{Name: "written"}, {Name: "delivered", N: 3}, {Name: "from before", N: 3}, {Name: "redelivered", N: 2, Minor: true}}
	if !slices.Equal(shown, want) || delivered != 6 {
		t.Errorf("%d delivered in all; shown are %v", delivered, shown)
	}
	if first, _ := newCounters(time.Now(), nil).counts(); len(first) != 3 {
		t.Errorf("of a first run, %v are shown", first)
	}
}

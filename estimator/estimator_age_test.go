package estimator_test

import (
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// oldest makes each read return one change that was written at the time written. The read
// takes as long as after.
func (w *world) oldest(written time.Time, after time.Duration) {
	w.source.answer = func(feed.Request) (feed.Page, error) {
		time.Sleep(after)
		return feed.Page{LSN: 1, End: 1, Changes: []feed.Change{{LSN: 1, Time: written}}}, nil
	}
}

func TestAgeCountsToTheTimeOfTheRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, false)
		w.create(whole(`"0"`))
		w.oldest(time.Now().Add(-time.Minute), 7*time.Second)
		if lag := w.report().Lags[0]; lag.Age != 67*time.Second {
			t.Errorf("listed a minute after the write, and read 7 s later, the change is %s old", lag.Age)
		}
	})
}

// If the lease container's clock is slow, the oldest unread change was written in its
// future. Then Age must be 0, because -1 would mean Unknown.
func TestAgeIsNotNegativeWhereClocksDiffer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, false)
		w.create(whole(`"0"`))
		written := time.Now().Add(10 * time.Second)
		w.oldest(written, 0)
		r := w.report()
		if lag := r.Lags[0]; lag.Age != 0 || !lag.Oldest.Equal(written) || r.Total.Age != 0 {
			t.Errorf("%+v", lag)
		}
	})
}

package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

// A change may be written after a read that found nothing and before the reader begins to
// wait. The wait must return at once, because no later notification would wake the
// reader.
func TestWaitSeesAChangeBetweenReadAndWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{})
		page := readPage(t, c, feed.Request{From: feed.Now()})
		upsert(t, c, "a", "p", 1)
		v, s, err := c.open(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer v.release()
		start := time.Now()
		changed, err := c.db.await(t.Context(), s.meta.partitions[0].changed, page.End, time.Hour)
		if err != nil || !changed || time.Since(start) != 0 {
			t.Errorf("changed %t, %v, after %v", changed, err, time.Since(start))
		}
		if changed, err = c.db.await(t.Context(), s.meta.partitions[0].changed, page.End+1, time.Hour); err != nil || changed {
			t.Errorf("without a change: changed %t, %v", changed, err)
		}
	})
}

package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// scannable returns a container of n items whose order in the log differs from that of
// their first writes. Every third item was written twice, and every seventh expires after a
// minute. With n of a few thousand, several goroutines read the container.
func scannable(t *testing.T, n, partitions int) *Container {
	t.Helper()
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{Partitions: partitions, DefaultTTL: layout.TTLNever})
	var writers sync.WaitGroup
	for w := range 16 {
		writers.Go(func() {
			for i := w; i < n+n/3; i += 16 {
				k, ttl := i, ""
				if i >= n {
					k = (i - n) * 3
				}
				if k%7 == 0 {
					ttl = `"ttl":60,`
				}
				doc := fmt.Appendf(nil, `{"id":"%05d","pk":"p%d",%s"n":%d}`, k, k%101, ttl, k%100)
				if _, err := c.Upsert(t.Context(), nil, doc, storetype.WriteOptions{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	return c
}

// Several goroutines read a large container. VisitItems must still visit the items in the
// order of a page, without expired ones. Each page must begin where the previous one
// ended, whether the visitor, MaxItems or MaxBytes ended it. The same must hold for one
// part of a split partition.
func TestLargeScansLoseAndRepeatNothingBetweenPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		c := scannable(t, n, 2)
		time.Sleep(time.Minute)
		children, err := c.Split(t.Context(), "0", "")
		if err != nil {
			t.Fatal(err)
		}
		const wanted = `"n":7,`
		left := 0
		for k := 7; k < n; k += 100 {
			if k%7 != 0 {
				left++
			}
		}
		for i, request := range []ItemsRequest{
			{},
			{ItemsRequest: storetype.ItemsRequest{Range: children[1].Range}},
			{ItemsRequest: storetype.ItemsRequest{IDPrefix: "07"}},
			{ItemsRequest: storetype.ItemsRequest{MaxItems: 4500}},
			{ItemsRequest: storetype.ItemsRequest{MaxBytes: 1_000_000}},
			{ItemsRequest: storetype.ItemsRequest{Range: feed.Range{Min: "08", Max: children[1].Range.Max}}},
		} {
			var all []string
			for q := request; ; {
				page, err := c.VisitItems(t.Context(), q, func(v *VisitedItem) (bool, error) {
					if bytes.Contains(v.Body, []byte(wanted)) {
						all = append(all, v.Continuation()+string(v.Body))
					}
					return true, nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if q.Continuation = page.Continuation; page.Continuation == "" {
					break
				}
			}
			if len(all) == 0 || i == 0 && len(all) != left {
				t.Fatalf("%+v: the reference scan has %d items", request, len(all))
			}
			for _, stop := range []int{1, 10, 1 << 20} {
				for _, enough := range []int{0, stop} {
					q := request
					q.Filter = filterOf(func(body []byte) (bool, error) { return bytes.Contains(body, []byte(wanted)), nil })
					q.Filter.Enough, q.Filter.AsStored = enough, stop == 10
					var got []string
					for {
						first := len(got)
						page, err := c.VisitItems(t.Context(), q, func(v *VisitedItem) (bool, error) {
							got = append(got, v.Continuation()+string(v.Body))
							return len(got)-first < stop, nil
						})
						if err != nil {
							t.Fatal(err)
						}
						if q.Continuation = page.Continuation; page.Continuation == "" {
							break
						}
					}
					if !slices.Equal(got, all) {
						t.Fatalf("%+v, %d at a time: %d items, want %d", request, stop, len(got), len(all))
					}
				}
			}
		}
	})
}

// A visitor that stops early must not cause the filter to evaluate many later documents.
// The test compares the number of evaluated documents with a limit.
func TestScansEvaluateFewDocumentsInAdvance(t *testing.T) {
	c := scannable(t, 10_000, 1)
	for _, test := range []struct{ enough, one, most int }{
		{10, 2, firstChunk},
		{100, 2, 2 * 200},
		{100, 20, 2 * 2000},
		{1 << 20, 2, 10_000},
	} {
		var judged atomic.Int64
		q := ItemsRequest{
			ItemsRequest: storetype.ItemsRequest{MaxTime: time.Hour}, Filter: filterOf(func(body []byte) (bool, error) {
				judged.Add(1)
				var n int
				_, err := fmt.Sscanf(string(body[bytes.Index(body, []byte(`"n":`)):]), `"n":%d,`, &n)
				return n%test.one == 0, err
			}),
		}
		q.Filter.Enough = test.enough
		seen := 0
		_, err := c.VisitItems(t.Context(), q, func(*VisitedItem) (bool, error) {
			seen++
			return seen < test.enough, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := int(judged.Load()); n > test.most || seen < min(test.enough, 5000) {
			t.Errorf("%d documents are evaluated for %d matches with one match in %d, want at most %d", n, seen, test.one, test.most)
		}
	}
}

// A page with a slow filter must end soon after MaxTime. The scan checks the time only
// between chunks, so it must choose small chunks.
func TestSlowFiltersKeepThePagesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := scannable(t, 10_000, 1)
		var judged atomic.Int64
		slow := func([]byte) (bool, error) {
			judged.Add(1)
			time.Sleep(2 * time.Millisecond)
			return false, nil
		}
		began := time.Now()
		page, err := c.VisitItems(t.Context(), ItemsRequest{ItemsRequest: storetype.ItemsRequest{MaxTime: time.Second}, Filter: filterOf(slow)}, func(*VisitedItem) (bool, error) { return true, nil })
		if err != nil || page.Continuation == "" {
			t.Fatalf("no continuation: %v", err)
		}
		// In the synctest bubble, time passes only in the filter.
		if took := time.Since(began); took > 1100*time.Millisecond || judged.Load() < 400 {
			t.Errorf("%d documents took %v", judged.Load(), took)
		}
		if page.Documents != int(judged.Load()) {
			t.Errorf("%d documents are charged, but %d were evaluated", page.Documents, judged.Load())
		}
	})
}

// When the request is canceled or the filter returns an error, all goroutines that read a
// chunk must end soon.
func TestCanceledScansEndInTheMiddleOfABatch(t *testing.T) {
	c := scannable(t, 10_000, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var judged atomic.Int64
	q := ItemsRequest{
		ItemsRequest: storetype.ItemsRequest{MaxTime: time.Hour}, Filter: filterOf(func([]byte) (bool, error) {
			if judged.Add(1) == 5000 {
				cancel()
			}
			return false, nil
		}),
	}
	_, err := c.VisitItems(ctx, q, func(*VisitedItem) (bool, error) { return true, nil })
	if !errors.Is(err, context.Canceled) || judged.Load() > 5000+maxReaders*checkEvery {
		t.Errorf("%v after %d documents", err, judged.Load())
	}
	enough := errors.New("enough")
	judged.Store(0)
	q.Filter = filterOf(func([]byte) (bool, error) {
		if judged.Add(1) >= 5000 {
			return false, enough
		}
		return false, nil
	})
	if _, err := c.VisitItems(t.Context(), q, func(*VisitedItem) (bool, error) { return true, nil }); err != enough { //nolint:errorlint // must not be wrapped
		t.Errorf("%v, want the filter's error unwrapped", err)
	}
}

// If a filter panics, VisitItems must panic in the goroutine of its caller, because a
// server can recover there. The store must keep working.
func TestPanicsOfFiltersReachTheCaller(t *testing.T) {
	c := scannable(t, 10_000, 1)
	var judged atomic.Int64
	q := ItemsRequest{
		ItemsRequest: storetype.ItemsRequest{MaxTime: time.Hour}, Filter: filterOf(func([]byte) (bool, error) {
			if judged.Add(1) == 9000 {
				panic("the filter's own")
			}
			return false, nil
		}),
	}
	func() {
		defer func() {
			if v := fmt.Sprint(recover()); !strings.Contains(v, "the filter's own") {
				t.Errorf("the panic is %s", v)
			}
		}()
		_, err := c.VisitItems(t.Context(), q, func(*VisitedItem) (bool, error) { return true, nil })
		t.Errorf("no panic: %v", err)
	}()
	if _, err := c.VisitItems(t.Context(), q, func(*VisitedItem) (bool, error) { return true, nil }); err != nil {
		t.Error(err)
	}
}

package feed_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

func TestFollowingPagesReadAnIdleFeedLessOften(t *testing.T) {
	for name, waits := range map[string]bool{"source that waits": true, "source that cannot wait": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFake("40")
				s.waits = waits
				s.write("10", "a")
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour+time.Minute)
				defer cancel()
				wrote := time.Time{}
				go func() {
					<-time.After(time.Hour)
					wrote = time.Now()
					s.write("50", "b")
				}()
				r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), Follow: true, Parallel: 2})
				found := map[string]time.Time{}
				empty := 0
				for page, err := range r.Pages(ctx) {
					if err != nil {
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("the loop ended with %v", err)
						}
						break
					}
					if len(page.Changes) == 0 {
						empty++
						continue
					}
					found[ids(t, page)] = time.Now()
				}
				if reads := len(s.requests); reads < 2*720 || reads > 2*850 {
					t.Errorf("two idle parts were read %d times in an hour; want about 720 times each", reads)
				}
				if empty < 700 || empty > 850 {
					t.Errorf("%d empty pages; want one for each round", empty)
				}
				late := found["b"].Sub(wrote)
				if waits && late != 0 || late < 0 || late > 5*time.Second || found["a"].IsZero() {
					t.Errorf("a change after an hour was found after %s (%v)", late, found)
				}
			})
		})
	}
}

// A part that changes every second is read in short intervals. After a split of its
// partition, the new parts must be read in short intervals too.
func TestPagesThatFollowLookSoonAfterAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		go func() {
			for i := range 100 {
				<-time.After(time.Second / 2)
				if i == 50 {
					s.split(0, "80")
				}
				<-time.After(time.Second / 2)
				s.write("10", fmt.Sprintf("a%02d@%d", i, time.Now().UnixMilli()))
			}
		}()
		r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), Follow: true, Wait: 4 * time.Second})
		n := 0
		for page, err := range r.Pages(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range strings.Fields(ids(t, page)) {
				n++
				var ms int64
				_, at, _ := strings.Cut(id, "@")
				if _, err := fmt.Sscan(at, &ms); err != nil {
					t.Fatal(err)
				}
				if late := time.Since(time.UnixMilli(ms)); late > 300*time.Millisecond {
					t.Errorf("change %s was found after %s", id, late)
				}
			}
			if n == 100 {
				break
			}
		}
	})
}

// A source that cannot wait has nothing to return right after the last change. The loop
// learns it from the first read that was to wait.
func TestFollowingPagesDoNotReadBehindTheLastChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), Follow: true})
		go func() {
			<-time.After(time.Minute)
			s.write("10", "x")
		}()
		for page, err := range r.Pages(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if got := ids(t, page); got == "y" {
				break
			} else if got == "x" {
				go func() {
					<-time.After(200 * time.Millisecond)
					s.write("10", "y")
				}()
			}
		}
		last := s.requests[len(s.requests)-2:]
		if last[0].From != feed.After(`"0"`) || last[1].From != feed.After(`"1"`) {
			t.Errorf("the last two reads were from %v and %v; want one for each change", last[0].From, last[1].From)
		}
	})
}

// Writes of other keys move the end of the feed with every read. A loop over the pages of a
// range must not read without a pause.
func TestFollowingPagesPauseAtAnEndThatMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		s.sparse = true // a read looks at one entry, and so it stays four entries behind
		reads := 0
		for range 4 {
			s.write("90", "other")
		}
		s.fail = func(feed.Request) error {
			s.write("90", "other")
			if reads++; reads > 500 {
				return errors.New("too many reads")
			}
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), Range: feed.Range{Max: "80"}, Follow: true})
		for _, err := range r.Pages(ctx) {
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("in a minute of an idle range: %v", err)
			}
		}
	})
}

// A loop reads one of five parts at a time, and the source can wait. Waiting in one idle
// part must not delay a change in another part.
func TestFollowingPagesReadAllPartsWithOneReadAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake("10", "20", "30", "40")
		s.waits = true
		r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), Follow: true})
		go func() {
			<-time.After(time.Minute)
			s.write("38", "x")
		}()
		began := time.Now()
		for page, err := range r.Pages(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Changes) > 0 {
				break
			}
		}
		if took := time.Since(began); took > 65*time.Second {
			t.Errorf("a change in one of five idle parts was found after %s", took-time.Minute)
		}
	})
}

// A loop over Pages follows any number of splits, as long as it can read between them. Only
// splits in a row without a read show that the source never lists the new partitions.
func TestPagesFollowAnyNumberOfSplits(t *testing.T) {
	s := newFake()
	const splits = 20
	var want []string
	for i := range splits + 5 {
		id := fmt.Sprintf("a%02d", i)
		s.write("00", id)
		want = append(want, id)
	}
	r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), MaxItems: 1})
	var got []string
	for page, err := range r.Pages(t.Context()) {
		if err != nil {
			t.Fatalf("after %d of %d splits: %v", len(s.partitions)-1, splits, err)
		}
		got = append(got, strings.Fields(ids(t, page))...)
		if n := len(s.partitions); n <= splits {
			s.split(0, fmt.Sprintf("%02X", 0x7F-n)) // the first partition has all changes
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the pages have %v; want %v", got, want)
	}
}

// An idle container may be split many times before somebody writes to it. Its empty pages are
// reads as well, so they must not end a loop that follows the feed.
func TestPagesFollowAnyNumberOfSplitsOfAnIdleContainer(t *testing.T) {
	s := newFake()
	const splits = 20
	r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), Follow: true, Wait: time.Millisecond})
	pages := 0
	for page, err := range r.Pages(t.Context()) {
		if err != nil {
			t.Fatalf("after %d of %d splits: %v", len(s.partitions)-1, splits, err)
		}
		if len(page.Changes) > 0 {
			break
		}
		pages++
		if n := len(s.partitions); n <= splits {
			s.split(0, fmt.Sprintf("%02X", 0x7F-n))
		} else {
			s.write("00", "first")
		}
	}
	if pages <= splits {
		t.Errorf("the loop ended after %d empty pages and %d splits", pages, len(s.partitions)-1)
	}
}

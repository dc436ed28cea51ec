package feed_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// pages returns the ids of all documents that a loop over r.Pages reads, sorted.
func pages(t *testing.T, r *feed.Reader) string {
	t.Helper()
	var all []string
	for page, err := range r.Pages(t.Context()) {
		if err != nil {
			t.Fatalf("pages: %v", err)
		}
		if len(page.Changes) == 0 {
			t.Error("a loop without Follow returned an empty page")
		}
		all = append(all, strings.Fields(ids(t, page))...)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestPagesStopAtTheEndAndReadNoPartAgain(t *testing.T) {
	for _, parallel := range []int{0, 1, 2, 5} {
		s := newFake("40", "80")
		for i := range 4 {
			s.write("10", fmt.Sprint("a", i))
		}
		s.write("50", "b")
		r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), MaxItems: 1, Parallel: parallel})
		if got := pages(t, r); got != "a0 a1 a2 a3 b" || !r.Drained() {
			t.Errorf("%d at a time: [%s], drained %t", parallel, got, r.Drained())
		}
		if n := len(s.requests); n != 5+2 {
			t.Errorf("%d at a time: %d reads; want 7: one for each change, and one for each end that no page with changes has reached", parallel, n)
		}
		if got := pages(t, r); got != "" {
			t.Errorf("%d at a time: the second loop returned [%s]", parallel, got)
		}
		s.write("90", "c")
		if got := pages(t, r); got != "c" {
			t.Errorf("%d at a time: the third loop returned [%s]; want c", parallel, got)
		}
	}
}

// busySource is a source into which a document is written with each read.
type busySource struct {
	*fakeSource
	reads *atomic.Int32
}

func (s busySource) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	page, err := s.fakeSource.Read(ctx, r)
	n := s.reads.Add(1)
	s.write("10", fmt.Sprint("late", n))
	s.write("50", fmt.Sprint("late", n))
	return page, err
}

// A loop without Follow must end at the end that it saw first. It would chase the end without
// end if changes are written as fast as it reads.
func TestPagesEndThoughTheWritesDoNot(t *testing.T) {
	for _, parallel := range []int{1, 2} {
		s := newFake("40", "80")
		for i := range 4 {
			s.write("10", fmt.Sprint("a", i))
		}
		s.write("50", "b")
		r, err := feed.NewReader(busySource{s, new(atomic.Int32)}, feed.ReaderConfig{Start: feed.Beginning(), MaxItems: 1, Parallel: parallel})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for page, err := range r.Pages(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if all = append(all, strings.Fields(ids(t, page))...); len(all) > 100 {
				t.Fatalf("%d at a time: the loop does not end: %v", parallel, all)
			}
			if len(all) == 2 {
				s.split(0, "20") // the parts keep the end of their parent
			}
		}
		for _, id := range []string{"a0", "a1", "a2", "a3", "b"} {
			if !slices.Contains(all, id) {
				t.Errorf("%d at a time: %v lacks %s, which was written before", parallel, all, id)
			}
		}
	}
}

func TestPositionExcludesPrefetchedPages(t *testing.T) {
	for _, parallel := range []int{1, 4} {
		s := newFake("40", "80")
		for i := range 3 {
			s.write("10", fmt.Sprint("a", i))
			s.write("50", fmt.Sprint("b", i))
		}
		r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), MaxItems: 1, Parallel: parallel})
		seen, position := "", ""
		for page, err := range r.Pages(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			seen = ids(t, page)
			if want := map[byte]string{'a': "40", 'b': "80"}[seen[0]]; page.Range.Max != want {
				t.Errorf("the page of %s is of range %s", seen, page.Range)
			}
			if position, err = r.Position(t.Context()); err != nil {
				t.Fatal(err)
			}
			break
		}
		rest := map[string]string{"a0": "a1 a2 b0 b1 b2", "b0": "a0 a1 a2 b1 b2"}[seen]
		if got := pages(t, newReader(t, s, feed.ReaderConfig{Position: position})); got != rest {
			t.Errorf("%d at a time: after %s a new reader returned [%s]; want [%s]", parallel, seen, got, rest)
		}
		if got := pages(t, r); got != rest {
			t.Errorf("%d at a time: after %s the next loop returned [%s]; want [%s]", parallel, seen, got, rest)
		}
	}
}

func TestPagesContinueAfterASplitAndAMerge(t *testing.T) {
	for _, parallel := range []int{1, 3} {
		s := newFake("40")
		for i := range 5 {
			s.write("10", fmt.Sprint("a", i))
			s.write("30", fmt.Sprint("b", i))
			s.write("50", fmt.Sprint("c", i))
		}
		r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), MaxItems: 1, Parallel: parallel})
		seen := map[string]int{}
		last := map[string]string{}
		n := 0
		for page, err := range r.Pages(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range strings.Fields(ids(t, page)) {
				seen[id]++
				if last[id[:1]] >= id {
					t.Errorf("%d at a time: %s after %s", parallel, id, last[id[:1]])
				}
				last[id[:1]] = id
			}
			switch n++; n {
			case 4:
				s.split(0, "20")
			case 8:
				s.merge(1)
			}
		}
		if len(seen) != 15 {
			t.Errorf("%d at a time: %d of 15 changes: %v", parallel, len(seen), seen)
		}
		for id, times := range seen {
			if times != 1 {
				t.Errorf("%d at a time: %s was returned %d times", parallel, id, times)
			}
		}
	}
}

// A loop with Parallel 3 may hold three prefetched pages. Then it must start no read
// until the loop's body takes a page.
func TestPagesPrefetchAtMostParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake("10", "20", "30", "40", "50")
		for _, epk := range []string{"08", "18", "28", "38", "48", "58"} {
			for i := range 10 {
				s.write(epk, fmt.Sprint("x", epk, i))
			}
		}
		var shown, under, most atomic.Int32
		s.fail = func(feed.Request) error {
			most.Store(max(most.Load(), under.Add(1)))
			<-time.After(time.Millisecond)
			return nil
		}
		s.after = func(feed.Request) { under.Add(-1) }
		r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), MaxItems: 1, Parallel: 3})
		for _, err := range r.Pages(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			shown.Add(1)
			<-time.After(time.Second)
			synctest.Wait()
			if ahead := len(s.requests) - int(shown.Load()); ahead > 3 {
				t.Fatalf("after page %d, %d more were read", shown.Load(), ahead)
			}
		}
		if shown.Load() != 60 || most.Load() != 3 {
			t.Errorf("%d pages, %d reads at a time at most; want 60 and 3", shown.Load(), most.Load())
		}
	})
}

func TestPagesReturnTheErrorWithItsRangeAndTheNextLoopResumes(t *testing.T) {
	s := newFake("40")
	s.write("10", "a")
	s.write("50", "b")
	broken := errors.New("no answer")
	s.fail = func(r feed.Request) error {
		if r.Partition.ID == "0" {
			return broken
		}
		return nil
	}
	r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning()})
	var got []string
	told := 0
	for page, err := range r.Pages(t.Context()) {
		switch {
		case errors.Is(err, broken) && page.Range.Max == "40" && len(page.Changes) == 0:
			told++
		case err != nil:
			t.Fatalf("range %s: %v", page.Range, err)
		default:
			got = append(got, ids(t, page))
		}
	}
	if told != 1 || r.Drained() {
		t.Errorf("the error was returned %d times, drained %t", told, r.Drained())
	}
	s.fail = nil
	if rest := pages(t, r); strings.TrimSpace(strings.Join(got, "")+" "+rest) != "a b" {
		t.Errorf("before the error [%s], afterwards [%s]", got, rest)
	}
}

func TestPagesRepeatAThrottledReadAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake("40")
		s.write("10", "a")
		s.write("50", "b")
		refused := 0
		s.fail = func(r feed.Request) error {
			if r.Partition.ID == "0" && refused < 3 {
				refused++
				return &feed.ThrottledError{RetryAfter: 2 * time.Second}
			}
			return nil
		}
		began := time.Now()
		if got := pages(t, newReader(t, s, feed.ReaderConfig{Start: feed.Beginning()})); got != "a b" {
			t.Errorf("read [%s]", got)
		}
		if took := time.Since(began); took != 6*time.Second || refused != 3 {
			t.Errorf("it took %s with %d refusals; want 6s with 3", took, refused)
		}
	})
}

func TestPagesGiveUpOnASourceThatNeverListsTheReplacements(t *testing.T) {
	s := newFake()
	s.write("10", "a")
	s.fail = func(r feed.Request) error { return &feed.GoneError{Partition: r.Partition.ID} }
	r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning()})
	var gone *feed.GoneError
	for _, err := range r.Pages(t.Context()) {
		if !errors.As(err, &gone) {
			t.Fatalf("the loop ended with %v; want a GoneError", err)
		}
	}
	if gone == nil || len(s.requests) > 20 {
		t.Errorf("gone: %v, after %d reads", gone, len(s.requests))
	}
	s.fail = nil
	if got := pages(t, r); got != "a" {
		t.Errorf("afterwards read [%s]; want a", got)
	}
}

func TestPagesSkipLostHistoryOnlyIfAllowed(t *testing.T) {
	s := newFake()
	for i := range 4 {
		s.write("10", fmt.Sprint("a", i))
	}
	lost := &feed.HistoryLostError{Reason: "past the retention", Oldest: `"2"`}
	s.fail = func(r feed.Request) error {
		if s.index(r.From) < 2 {
			return lost
		}
		return nil
	}
	skip := false
	r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), OnHistoryLost: func(feed.Range, *feed.HistoryLostError) bool { return skip }})
	var told *feed.HistoryLostError
	for _, err := range r.Pages(t.Context()) {
		if !errors.As(err, &told) {
			t.Fatalf("the loop ended with %v", err)
		}
	}
	if told == nil {
		t.Fatal("lost history returned no error")
	}
	skip = true
	if got := pages(t, r); got != "a2 a3" {
		t.Errorf("skip allowed: read [%s]", got)
	}
}

func TestReaderRefusesOtherUseDuringPages(t *testing.T) {
	s := newFake()
	s.write("10", "a")
	r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning()})
	for _, err := range r.Pages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.Next(t.Context()); err == nil {
			t.Error("Next is not refused in a loop over Pages")
		}
		for _, err := range r.Pages(t.Context()) {
			if err == nil {
				t.Error("Pages is not refused in a loop over Pages")
			}
		}
	}
	if got := next(t, r); got != "" {
		t.Errorf("after the loop, Next returned [%s]", got)
	}
}

func TestPagesReturnTheErrorOfAMissingContainer(t *testing.T) {
	s := newFake()
	s.listed = func() ([]feed.Partition, error) { return nil, errors.New("no answer") }
	n := 0
	for _, err := range newReader(t, s, feed.ReaderConfig{Start: feed.Beginning()}).Pages(t.Context()) {
		if n++; err == nil {
			t.Error("no error")
		}
	}
	if n != 1 {
		t.Errorf("the body was called %d times; want once, with the error", n)
	}
}

func TestSplitRangeErrors(t *testing.T) {
	s := newFake()
	if parts, err := feed.SplitRange(t.Context(), s, feed.Range{}, 1); err != nil || len(parts) != 1 || parts[0] != feed.Full() {
		t.Errorf("one part: %v, %v", parts, err)
	}
	if _, err := feed.SplitRange(t.Context(), s, feed.Range{}, 2); !errors.Is(err, feed.ErrUnsupported) {
		t.Errorf("a source without SplitRange: %v", err)
	}
	if _, err := feed.SplitRange(t.Context(), s, feed.Range{}, 0); err == nil {
		t.Error("zero parts are not refused")
	}
}

func TestRangeCutCoversTheRange(t *testing.T) {
	r := feed.Range{Min: "10", Max: "80"}
	if got := fmt.Sprint(r.Cut([]string{"20", "40"})); got != "[10-20 20-40 40-80]" {
		t.Error(got)
	}
	if got := r.Cut(nil); len(got) != 1 || got[0] != r {
		t.Error(got)
	}
}

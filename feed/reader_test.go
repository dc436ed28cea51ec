package feed_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

func newReader(t *testing.T, s feed.Source, cfg feed.ReaderConfig) *feed.Reader {
	t.Helper()
	r, err := feed.NewReader(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// next calls r.Next and returns the ids of the documents in the page.
func next(t *testing.T, r *feed.Reader) string {
	t.Helper()
	page, _, err := r.Next(t.Context())
	if err != nil {
		t.Fatalf("next: %v", err)
	}
	return ids(t, page)
}

func ids(t *testing.T, page feed.Page) string {
	t.Helper()
	var out []string
	for _, c := range page.Changes {
		id, err := c.ID()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, id)
	}
	return strings.Join(out, " ")
}

// readAll reads until r is drained. It returns the ids of all documents, sorted.
func readAll(t *testing.T, r *feed.Reader) string {
	t.Helper()
	var all []string
	for range 100 {
		all = append(all, strings.Fields(next(t, r))...)
		if r.Drained() {
			slices.Sort(all)
			return strings.Join(all, " ")
		}
	}
	t.Fatal("the reader is never drained")
	return ""
}

func TestReaderReadsTheRangesInTurn(t *testing.T) {
	s := newFake("40", "80")
	for i := range 3 {
		s.write("10", fmt.Sprint("a", i))
		s.write("50", fmt.Sprint("b", i))
		s.write("90", fmt.Sprint("c", i))
	}
	r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), MaxItems: 1})
	var got []string
	for range 9 {
		got = append(got, next(t, r))
	}
	if want := "a0 b0 c0 a1 b1 c1 a2 b2 c2"; strings.Join(got, " ") != want {
		t.Errorf("read %v; want %s", got, want)
	}
}

func TestReaderNamesTheRangeOfEachPage(t *testing.T) {
	s := newFake("40")
	s.write("10", "a")
	s.write("50", "b")
	r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), Range: feed.Range{Min: "08", Max: "60"}})
	for _, want := range []feed.Range{{Min: "08", Max: "40"}, {Min: "40", Max: "60"}} {
		if _, rng, err := r.Next(t.Context()); err != nil || rng != want {
			t.Errorf("the page is of range %s, %v; want %s", rng, err, want)
		}
	}
}

func TestReaderResolvesNowForEveryRangeBeforeTheFirstRead(t *testing.T) {
	s := newFake("40", "80")
	s.write("10", "old")
	reads := 0
	s.after = func(feed.Request) {
		if reads++; reads == 3 { // after the last of the three reads that resolve "now"
			s.write("90", "new-c")
			s.write("10", "new-a")
		}
	}
	r := newReader(t, s, feed.ReaderConfig{})
	if got := readAll(t, r); got != "new-a new-c" {
		t.Errorf("read [%s] from now; want the change written after every now was resolved", got)
	}
	for _, req := range s.requests[:3] {
		if req.From.Kind() != feed.StartNow || req.Wait != 0 {
			t.Errorf("the first requests are from %s with wait %s; want three from now without a wait", req.From, req.Wait)
		}
	}
}

func TestReaderKeepsResolvedNowsWhenOneFails(t *testing.T) {
	s := newFake("40")
	s.fail = func(r feed.Request) error {
		if r.Partition.ID == "1" {
			return errors.New("no answer")
		}
		return nil
	}
	r := newReader(t, s, feed.ReaderConfig{})
	if _, _, err := r.Next(t.Context()); err == nil {
		t.Fatal("a failed read from now returns no error")
	}
	s.write("10", "a") // after the "now" of the first partition
	s.fail = nil
	if got := readAll(t, r); got != "a" {
		t.Errorf("read [%s]; want the change after the resolved now", got)
	}
}

func TestReaderResumesFromTheSamePositionAfterSplitsAndMerges(t *testing.T) {
	s := newFake()
	for _, epk := range []string{"10", "30", "50", "70"} {
		s.write(epk, "x"+epk)
	}
	r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), MaxItems: 2})
	if got := next(t, r); got != "x10 x30" {
		t.Fatalf("the first page is [%s]", got)
	}
	s.split(0, "60")
	s.write("20", "y20")
	s.split(0, "18")
	s.write("88", "y88")
	if got := next(t, r) + " " + next(t, r); strings.TrimSpace(got) != "x50 y20" {
		t.Fatalf("the pages after two splits are [%s]", got)
	}
	s.merge(1)
	s.merge(0)
	s.write("12", "z12")
	if got := readAll(t, r); got != "x70 y88 z12" {
		t.Errorf("after a merge read [%s]; want x70 y88 z12", got)
	}
	if page, rng, err := r.Next(t.Context()); err != nil || page.Continuation == "" || rng.IsEmpty() {
		t.Errorf("at the end: %+v, range %s, %v", page, rng, err)
	}
}

func TestReaderErrorMovesNoCursorAndDelaysNoOtherRange(t *testing.T) {
	s := newFake("40")
	s.write("10", "a")
	s.write("50", "b")
	lost := &feed.HistoryLostError{Reason: "past the retention", Oldest: `"1"`}
	s.fail = func(r feed.Request) error {
		if r.Partition.ID == "0" {
			return lost
		}
		return nil
	}
	r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning()})
	_, rng, err := r.Next(t.Context())
	var told *feed.HistoryLostError
	if !errors.As(err, &told) || told != lost || rng.Max != "40" {
		t.Fatalf("next: range %s, %v; want the source's error and its range", rng, err)
	}
	if got := next(t, r); got != "b" {
		t.Errorf("the other range gave [%s]; want b", got)
	}
	if _, _, err := r.Next(t.Context()); !errors.As(err, &told) || r.Drained() {
		t.Errorf("a range that fails: %v, drained %t", err, r.Drained())
	}
	s.fail = nil
	if got := readAll(t, r); got != "a" {
		t.Errorf("after the error read [%s]; want a", got)
	}
}

func TestReaderSkipsLostHistoryOnlyIfAllowed(t *testing.T) {
	s := newFake("40")
	for i := range 3 {
		s.write("10", fmt.Sprint("a", i))
		s.write("50", fmt.Sprint("b", i))
	}
	lost := &feed.HistoryLostError{Reason: "past the retention", Oldest: `"3"`}
	s.fail = func(r feed.Request) error {
		if r.Partition.ID == "0" && s.index(r.From) < 3 {
			return lost
		}
		return nil
	}
	asked, answer := 0, false
	r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), OnHistoryLost: func(rng feed.Range, e *feed.HistoryLostError) bool {
		asked++
		if rng.Max != "40" || e != lost {
			t.Errorf("called with range %s, %v", rng, e)
		}
		return answer
	}})
	var told *feed.HistoryLostError
	if _, _, err := r.Next(t.Context()); !errors.As(err, &told) || asked != 1 {
		t.Fatalf("skip refused: %v, %d calls; want the error", err, asked)
	}
	answer = true
	if got := readAll(t, r); got != "a2 b0 b1 b2" || asked != 2 {
		t.Errorf("skip allowed: read [%s], %d calls; want a2, all of b and 2 calls", got, asked)
	}
}

func TestReaderGivesUpWhenTheOldestPositionIsLostToo(t *testing.T) {
	s := newFake()
	s.fail = func(feed.Request) error { return &feed.HistoryLostError{Reason: "gone", Oldest: `"0"`} }
	asked := 0
	r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), OnHistoryLost: func(feed.Range, *feed.HistoryLostError) bool {
		asked++
		return true
	}})
	var lost *feed.HistoryLostError
	if _, _, err := r.Next(t.Context()); !errors.As(err, &lost) || asked != 1 {
		t.Errorf("next: %v, %d calls; want the error after one skip", err, asked)
	}
}

func TestReaderGivesUpOnASourceThatNeverListsTheReplacements(t *testing.T) {
	s := newFake()
	s.write("10", "a")
	s.fail = func(r feed.Request) error { return &feed.GoneError{Partition: r.Partition.ID} }
	r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning()})
	var gone *feed.GoneError
	if _, _, err := r.Next(t.Context()); !errors.As(err, &gone) {
		t.Fatalf("next: %v; want a GoneError in the end", err)
	}
	if n := len(s.requests); n > 20 {
		t.Errorf("it took %d reads to give up", n)
	}
	s.fail = nil
	if got := readAll(t, r); got != "a" {
		t.Errorf("afterwards read [%s]; want a", got)
	}
}

func TestReaderGivesUpOnNowIfTheReplacementsAreNeverListed(t *testing.T) {
	s := newFake()
	s.fail = func(r feed.Request) error {
		if len(s.requests) > 100 {
			t.Fatal("the reader never gives up")
		}
		return &feed.GoneError{Partition: r.Partition.ID}
	}
	var gone *feed.GoneError
	if _, _, err := newReader(t, s, feed.ReaderConfig{}).Next(t.Context()); !errors.As(err, &gone) {
		t.Errorf("next: %v; want a GoneError in the end", err)
	}
}

// A source that returns older changes for a read from now must be refused. Otherwise the
// reader would deliver changes that the user did not ask for.
func TestReaderRefusesOlderChangesInAReadFromNow(t *testing.T) {
	s := newFake()
	s.write("10", "old")
	if _, _, err := newReader(t, nowIsTheBeginning{s}, feed.ReaderConfig{}).Next(t.Context()); err == nil || !strings.Contains(err.Error(), "now") {
		t.Errorf("next: %v; want an error", err)
	}
}

type nowIsTheBeginning struct{ *fakeSource }

func (s nowIsTheBeginning) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	r.From = feed.Beginning()
	return s.fakeSource.Read(ctx, r)
}

func TestReaderRefusesPartitionsThatLeaveAGap(t *testing.T) {
	s := newFake("40", "80")
	s.write("50", "b")
	r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning()})
	all := s.partitions
	s.listed = func() ([]feed.Partition, error) { return []feed.Partition{all[0], all[2]}, nil }
	if _, _, err := r.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "40-FF") {
		t.Fatalf("partitions without 40-80: %v; want an error that names the gap", err)
	}
	s.listed = func() ([]feed.Partition, error) { return nil, errors.New("no answer") }
	if _, _, err := r.Next(t.Context()); err == nil {
		t.Fatal("a failed listing returns no error")
	}
	s.listed = nil
	if got := readAll(t, r); got != "b" {
		t.Errorf("afterwards read [%s]; want b", got)
	}
}

func TestReaderKeepsItsPositionWhenTheListingAfterASplitFails(t *testing.T) {
	s := newFake()
	s.write("10", "a")
	s.write("50", "b")
	r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), MaxItems: 1})
	if got := next(t, r); got != "a" {
		t.Fatalf("the first page is [%s]", got)
	}
	s.split(0, "40")
	s.listed = func() ([]feed.Partition, error) { return nil, errors.New("no answer") }
	if _, _, err := r.Next(t.Context()); err == nil {
		t.Fatal("a failed listing returns no error")
	}
	s.listed = nil
	if got := readAll(t, r); got != "b" {
		t.Errorf("afterwards read [%s]; want b", got)
	}
}

func TestReaderWaitsOnlyAtTheEnd(t *testing.T) {
	for name, waits := range map[string]bool{"source that waits": true, "source that cannot wait": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFake("40")
				s.waits = waits
				s.write("10", "a")
				r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), Wait: 8 * time.Second})
				began := time.Now()
				if got := readAll(t, r); got != "a" || time.Since(began) != 0 {
					t.Errorf("read [%s] in %s; want a at once", got, time.Since(began))
				}
				next(t, r)
				next(t, r)
				if held := time.Since(began); held != 8*time.Second {
					t.Errorf("a turn over both ranges at the end took %s; want 8s", held)
				}
			})
		})
	}
}

// A reader that took an empty page from the middle for the end would wait before each of
// the pages that other keys leave empty.
func TestReaderAtTheEndWaitsOnceForAChangeBehindEmptyPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake("40")
		s.sparse = true
		s.write("50", "a")
		r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), Range: feed.Range{Min: "40", Max: "FF"}, Wait: 8 * time.Second})
		readAll(t, r)
		for i := range 5 {
			s.write("10", fmt.Sprint("x", i))
		}
		s.write("50", "b")
		began := time.Now()
		for next(t, r) != "b" {
		}
		if held := time.Since(began); held != 8*time.Second {
			t.Errorf("the change came after %s; want 8s", held)
		}
	})
}

func TestReaderStopsWaitingWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		r := newReader(t, s, feed.ReaderConfig{Wait: time.Hour})
		readAll(t, r)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, _, err := r.Next(ctx); err != nil || time.Since(began) != time.Second {
			t.Errorf("the waiting read took %s, %v; want the page after 1s", time.Since(began), err)
		}
		if _, _, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the next: %v; want the context's error", err)
		}
	})
}

func TestReaderFollowsAPrefixOverSeveralPartitions(t *testing.T) {
	s := newFake("40", "80")
	for _, epk := range []string{"18", "50", "90"} {
		s.write(epk, "k"+epk)
		s.write(epk, "other"+epk)
	}
	r := newReader(t, s, feed.ReaderConfig{Key: feed.PartitionKey{"k"}, Start: feed.Beginning()})
	if got := readAll(t, r); got != "k18 k50 k90" {
		t.Errorf("read [%s]; want k18 k50 k90", got)
	}
	for range 3 {
		if _, rng, err := r.Next(t.Context()); err != nil || !(feed.Range{Min: "10", Max: "D0"}).Contains(rng) {
			t.Errorf("the reader reads range %s, %v; the prefix covers only 10-D0", rng, err)
		}
	}
	text, err := r.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.split(1, "60")
	s.write("58", "k58")
	r = newReader(t, s, feed.ReaderConfig{Position: text})
	if got := readAll(t, r); got != "k58" {
		t.Errorf("resumed, read [%s]; want k58", got)
	}
}

func TestReaderFollowsOneKeyWithoutListingPartitions(t *testing.T) {
	s := newFake("40")
	s.listed = func() ([]feed.Partition, error) { return nil, errors.New("unexpected listing") }
	s.write("10", "a1")
	s.write("50", "a2")
	r := newReader(t, s, feed.ReaderConfig{Key: feed.PartitionKey{"a", "a2"}, Start: feed.Beginning()})
	if got := readAll(t, r); got != "a2" {
		t.Errorf("read [%s]; want a2", got)
	}
}

func TestNewReaderNamesTheInvalidField(t *testing.T) {
	s := newFake()
	for field, cfg := range map[string]feed.ReaderConfig{
		"MaxItems": {MaxItems: -1},
		"Wait":     {Wait: -1},
		"365 days": {Wait: math.MaxInt64},
		"Range":    {Range: feed.Range{Min: "80", Max: "80"}},
		"Position": {Position: "x"},
	} {
		if _, err := feed.NewReader(s, cfg); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("invalid %s: %v", field, err)
		}
	}
	if _, err := feed.NewReader(nil, feed.ReaderConfig{}); err == nil || !strings.Contains(err.Error(), "Source") {
		t.Errorf("no Source: %v", err)
	}
}

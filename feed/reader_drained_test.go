package feed_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
)

// A program that reads with Next until Drained would otherwise never end if changes are
// written as fast as it reads.
func TestReaderIsDrainedThoughTheWritesDoNotEnd(t *testing.T) {
	s := newFake("40", "80")
	write := func(n int) {
		for i := range n {
			s.write([]string{"10", "50", "90"}[i%3], fmt.Sprint("a", len(s.log)))
		}
	}
	write(5)
	s.after = func(feed.Request) { write(3) }
	r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), MaxItems: 2})
	for round := range 3 { // a drained reader reads on, and is drained again
		before, pages := len(s.log), 0
		var all []string
		for drained := false; !drained; drained = r.Drained() {
			all = append(all, strings.Fields(next(t, r))...)
			if pages++; pages > 100 {
				t.Fatalf("round %d: not drained after %d pages", round, pages)
			}
		}
		if round == 0 && len(all) < before {
			t.Errorf("drained after %v, without all of the %d changes written before", all, before)
		}
	}
}

func TestReaderIsDrainedAtTheEndOfEveryRange(t *testing.T) {
	s := newFake("40")
	s.write("50", "b")
	r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning()})
	for i, want := range []bool{false, true, true, true, true} { // pages: part a empty, b with b, a empty, b empty
		if i == 0 && r.Drained() {
			t.Fatal("a reader that never read is drained")
		}
		next(t, r)
		if r.Drained() != want {
			t.Errorf("after read %d drained is %t", i+1, !want)
		}
	}
	s.write("10", "a")
	if got := next(t, r) + next(t, r); got != "a" || r.Drained() {
		t.Errorf("after a change read [%s], drained %t", got, r.Drained())
	}
}

func TestReaderIsNotDrainedBeforeItReadEveryPieceOfASplit(t *testing.T) {
	s := newFake()
	r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning()})
	readAll(t, r)
	s.split(0, "80")
	s.write("90", "b")
	if got := next(t, r); got != "" || r.Drained() {
		t.Fatalf("the first piece gave [%s], drained %t; the second was not read yet", got, r.Drained())
	}
	if got := readAll(t, r); got != "b" {
		t.Errorf("read [%s]; want b", got)
	}
}

func TestReaderDoesNotEndAtAnEmptyPageFromTheMiddle(t *testing.T) {
	s := newFake("40")
	s.sparse = true
	for i := range 5 {
		s.write("10", fmt.Sprint("a", i))
	}
	s.write("50", "b")
	r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), Range: feed.Range{Min: "40", Max: "FF"}})
	if got := readAll(t, r); got != "b" {
		t.Errorf("read [%s] to the end; want b, after five empty pages", got)
	}
}

// A source may report an End that the continuations of a sub-range never reach. The
// reader must be drained when its continuation no longer moves.
func TestReaderIsDrainedWhereTheContinuationNoLongerMoves(t *testing.T) {
	s := newFake()
	s.write("10", "a")
	r := newReader(t, endIsFurther{s}, feed.ReaderConfig{Start: feed.Beginning()})
	if got := readAll(t, r); got != "a" {
		t.Errorf("read [%s]; want a", got)
	}
}

type endIsFurther struct{ *fakeSource }

func (s endIsFurther) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	page, err := s.fakeSource.Read(ctx, r)
	page.End++
	return page, err
}

// After an error the reader must not be drained until it has read every part again,
// because the part whose read failed may have changes.
func TestReaderIsNotDrainedAfterAnError(t *testing.T) {
	s := newFake("40")
	r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning()})
	readAll(t, r)
	s.fail = func(feed.Request) error { return errors.New("503") }
	if _, _, err := r.Next(t.Context()); err == nil || r.Drained() {
		t.Errorf("%v, drained %t", err, r.Drained())
	}
	s.fail = nil
	next(t, r)
	if r.Drained() {
		t.Error("drained, and the other part was not read since the error")
	}
	readAll(t, r)
}

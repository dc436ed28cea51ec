package changefeed

import (
	"math/rand/v2"
	"testing"
)

// TestPositionNeverPassesAnOpenPage calls the methods of progress in random orders of pages,
// empty pages, and parts of pages that are done. After each call it compares the due position
// with a plain model: the number of parts that are left of each page.
func TestPositionNeverPassesAnOpenPage(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		p := newProgress("start")
		left := make([]int, 61) // of each page; those without changes have none
		var open []*openPage
		read, handled, stored := 0, 0, 0
		at := func(page int) pagePosition {
			return pagePosition{page: int64(page), at: position(int64(page))}
		}
		check := func() {
			t.Helper()
			due, covered := read, 0
			for page := 1; page <= read; page++ {
				if left[page] > 0 {
					due = page - 1
					break
				}
			}
			if p.due.page != int64(due) || due > 0 && p.due.at != position(int64(due)) {
				t.Fatalf("seed %d: due is %+v; want page %d, of %v", seed, p.due, due, left[:read+1])
			}
			for _, c := range p.covered {
				covered += c.changes
			}
			if covered != p.changes || p.changes+p.uncovered != handled-stored {
				t.Fatalf("seed %d: %d changes are covered (%d) and %d are not; want %d", seed, p.changes, covered, p.uncovered, handled-stored)
			}
		}
		for read < 60 {
			read++
			if rng.IntN(3) == 0 {
				p.pass(at(read))
			} else {
				left[read] = 1 + rng.IntN(3)
				page := &openPage{number: int64(read), pagePosition: at(read), left: left[read]}
				open = append(open, page)
				p.open(page)
			}
			check()
			for len(open) > 0 && rng.IntN(3) > 0 {
				i := rng.IntN(len(open))
				page := open[i]
				if rng.IntN(3) > 0 { // the filter hides the others
					p.handled(page, 1)
					handled++
				}
				p.finish(page, 1)
				if left[page.number]--; left[page.number] == 0 {
					open = append(open[:i], open[i+1:]...)
				}
				check()
			}
			if rng.IntN(4) == 0 {
				stored += p.changes
				p.stored(p.due)
				if p.behind() || len(p.covered) > 0 {
					t.Fatalf("seed %d: after %+v was stored, behind is %t, and %v is not covered", seed, p.due, p.behind(), p.covered)
				}
				check()
			}
		}
	}
}

// However many pages are done behind one that is not, there is a record of that one only.
func TestPagesThatAreDoneBehindAnOpenOneNeedNoMemory(t *testing.T) {
	p := newProgress("")
	open := func(n int64) *openPage {
		page := &openPage{number: n, pagePosition: pagePosition{n, position(n)}, left: 1}
		p.open(page)
		return page
	}
	first := open(1)
	for n := int64(2); n <= 1000; n++ {
		page := open(n)
		p.handled(page, 1)
		p.finish(page, 1)
	}
	if p.first != first || p.last != first || first.after != nil || p.due.page != 0 {
		t.Fatalf("%+v and %+v are open, due is %+v", p.first, p.last, p.due)
	}
	p.handled(first, 1)
	p.finish(first, 1)
	if p.due.page != 1000 || p.changes != 1000 || p.uncovered != 0 {
		t.Fatalf("due is %+v, with %d changes; %d are not covered", p.due, p.changes, p.uncovered)
	}
}

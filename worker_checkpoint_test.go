package changefeed

import (
	"math/rand/v2"
	"testing"
)

// TestPositionNeverPassesAnUnacknowledgedBatch calls the methods of progress in random
// orders of batches, empty pages and acknowledgements. After each call it compares the
// due position with a plain model: the set of delivered pages that were not acknowledged.
func TestPositionNeverPassesAnUnacknowledgedBatch(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		p := newProgress("start")
		open := map[int64]bool{} // the pages that were delivered and not acknowledged
		var batches, pages []int64
		at := func(page int64) pagePosition { return pagePosition{page: page, at: position(page)} }
		for page := int64(1); page <= 60; page++ {
			pages = append(pages, page)
			if rng.IntN(3) == 0 {
				p.pass(at(page))
			} else {
				p.handedOut(page)
				open[page] = true
				batches = append(batches, page)
			}
			for len(batches) > 0 && rng.IntN(3) == 0 {
				acked := batches[rng.IntN(len(batches))]
				p.acknowledge(at(acked))
				for b := range open {
					if b <= acked {
						delete(open, b)
					}
				}
			}
			before := p.due
			for b := range open {
				if p.due.page >= b {
					t.Fatalf("seed %d: due is page %d, page %d is unacknowledged", seed, p.due.page, b)
				}
			}
			if len(open) == 0 && p.due.page != pages[len(pages)-1] {
				t.Fatalf("seed %d: everything is acknowledged up to page %d, due is %d", seed, page, p.due.page)
			}
			if p.due.page > 0 && p.due.at != position(p.due.page) {
				t.Fatalf("seed %d: due is %+v", seed, p.due)
			}
			p.acknowledge(at(rng.Int64N(before.page + 1))) // an older mark has no effect
			if p.due != before {
				t.Fatalf("seed %d: an older acknowledgement moved due from %+v to %+v", seed, before, p.due)
			}
		}
	}
}

func TestIdlePageAfterUnacknowledgedBatchCountsOnceTheBatchIsAcknowledged(t *testing.T) {
	p := newProgress("")
	p.handedOut(1)
	p.pass(pagePosition{page: 2, at: "2"})
	if p.due.page != 0 {
		t.Fatalf("due is %+v before the batch is acknowledged", p.due)
	}
	p.acknowledge(pagePosition{page: 1, at: "1"})
	if p.due.at != "2" {
		t.Fatalf("due is %+v", p.due)
	}
	p.stored(p.due)
	if p.behind() {
		t.Fatal("behind is true after the due position was stored")
	}
}

package simulation

import (
	"context"

	"github.com/changefeed-go/changefeed/feed"
)

// This file makes the source refuse start times, and return unusual pages.

// refusingSource is a source that refuses start times.
type refusingSource struct {
	feed.Source
	world *world
}

// Read implements [feed.Source].
func (s refusingSource) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	if r.From.Kind() == feed.StartTime {
		s.world.occurs(refusedStart)
		return feed.Page{}, feed.ErrUnsupported
	}
	return s.Source.Read(ctx, r)
}

// pageOdds contains the probabilities with which a source returns unusual pages. Package
// feed allows these pages, and only some sources return them.
type pageOdds struct {
	noLSN, noEnd float64 // the page's LSN or End is -1
	empty        float64 // an empty page precedes the next changes
}

func (s *scenario) pageOdds() *pageOdds { return stateOf[pageOdds](&s.states) }

func (w *world) pageOdds() *pageOdds { return stateOf[pageOdds](&w.states) }

func (r *run) oddPages(context.Context) { *r.world.pageOdds() = *r.scenario.pageOdds() }

// oddSource is the source of a host, with unusual pages.
type oddSource struct {
	feed.Source
	host *host
}

// Read implements [feed.Source].
func (s oddSource) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	page, err := s.Source.Read(ctx, r)
	if err != nil || r.From.Kind() == feed.StartNow {
		return page, err
	}
	return s.host.alter(page, r, tokenOf(r)), nil
}

// seesOddPages gives a host such a source.
func (*run) seesOddPages(h *host) {
	if _, has := h.source.(oddSource); !has {
		h.source = oddSource{h.source, h}
	}
}

// alter turns a page of a lease's feed into an unusual page of the same feed, as the odds of
// the world say.
func (h *host) alter(page feed.Page, r feed.Request, token string) feed.Page {
	w := h.world
	odds := *w.pageOdds()
	if odds == (pageOdds{}) {
		return page
	}
	d := newDraw(w.seed, uint64(h.count("page", token)), "page", h.id, token)
	if len(page.Changes) > 0 && d.chance(odds.empty) && !w.isCalm() {
		w.occurs(emptyPages)
		page = emptied(page, r.From, d.chance(0.5))
	}
	if d.chance(odds.noLSN) {
		w.occurs(unknownLSNs)
		page.LSN = -1
	}
	if d.chance(odds.noEnd) {
		w.occurs(unknownLSNs)
		page.End = -1
	}
	return page
}

// emptied returns a page without changes that a source may return before page. Its
// position equals the read's position. If advances is true, or if the read has no
// position, it is the position before the first change of page.
func emptied(page feed.Page, from feed.Start, advances bool) feed.Page {
	lsn := page.Changes[0].LSN - 1
	if from.Kind() == feed.StartContinuation && !advances {
		lsn, _ = lsnOf(from.Continuation()) // the source has accepted the text
	}
	page.Changes, page.Bytes = nil, 0
	page.LSN, page.Continuation = lsn, continuation(lsn)
	return page
}

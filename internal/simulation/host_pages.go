package simulation

import "github.com/changefeed-go/changefeed/feed"

// pageOdds contains the probabilities with which a source returns unusual pages. Package
// feed allows these pages, and only some sources return them.
type pageOdds struct {
	noLSN, noEnd float64 // the page's LSN or End is -1
	empty        float64 // an empty page precedes the next changes
}

// alter turns a page of a lease's feed into an unusual page of the same feed.
func (s *hostSource) alter(page feed.Page, r feed.Request, token string) feed.Page {
	w := s.host.world
	if w.pages == (pageOdds{}) {
		return page
	}
	d := newDraw(w.seed, uint64(s.host.count("page", token)), "page", s.host.id, token)
	if len(page.Changes) > 0 && d.chance(w.pages.empty) && !w.isCalm() {
		w.occurs(emptyPages)
		page = emptied(page, r.From, d.chance(0.5))
	}
	if d.chance(w.pages.noLSN) {
		w.occurs(unknownLSNs)
		page.LSN = -1
	}
	if d.chance(w.pages.noEnd) {
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

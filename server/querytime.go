package server

import (
	"context"
	"errors"
	"time"

	"github.com/changefeed-go/changefeed/internal/query"
)

// The time of a page whose rows come in the order of the documents. Between documents a page ends when its time is up. Within one it
// ends where the next page can go on: behind a row of it, or before it if documents came before; otherwise the document is
// evaluated further, as long as server/query allows. So no page ends where it began, whatever an item's joins make.

// errPageTime ends the evaluation of a document when the page's time is up.
var errPageTime = errors.New("the page's time is up")

// pageTime is the time of a page: maxScan, but in tests.
func (s *Server) pageTime() time.Duration {
	if s.pages != 0 {
		return s.pages
	}
	return maxScan
}

// hurry has documents evaluated until the page's time is up; then r.late is set, and a document that the page can end within is left
// with errPageTime.
func (r *queryRun) hurry(ctx context.Context, canEnd func() bool) {
	end := time.Now().Add(r.time)
	r.rows.While(func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.late = r.late || !time.Now().Before(end); r.late && canEnd() {
			return errPageTime
		}
		return nil
	})
}

// judgedPart is the part of a page's time that one document is judged for: a small batch of them takes a fraction of the page.
const judgedPart = 1000

// judge says of documents whether the condition is true of them. Where the page ends in time, documents that take long, those whose turn comes
// after end and that aren't judged at once, and those that the condition fails for are let through: they are evaluated anyway when they are
// visited, if the page doesn't end before. A batch is judged in the order of the log: what was found out about documents behind the page's end
// is lost, so there is little of it.
func (r *queryRun) judge(ctx context.Context, where *query.Where, end time.Time) func(doc []byte) (bool, error) {
	if byKey(r.shape) {
		return where.Filter(ctx)
	}
	var long time.Time // when the document has taken long; zero: that wasn't asked yet
	filter := where.While(func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		now := time.Now()
		if long.IsZero() {
			long = now.Add(r.time / judgedPart)
		}
		if !now.Before(end) || !now.Before(long) {
			return errPageTime
		}
		return nil
	})
	return func(doc []byte) (bool, error) {
		long = time.Time{}
		holds, err := filter(doc)
		if err != nil && ctx.Err() == nil {
			return true, nil // what fails does so in its turn: the page may end before
		}
		return holds, err
	}
}

package feed

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Reader follows a range of a container's feed, alone and without leases: the
// pull model. It asks the source which partitions hold the range, keeps one
// cursor for each of them and reads them in turn. When a partition is split or
// merged, its cursor is cut at the borders of the partitions that took over, and
// the pieces go on at the same continuation: nothing is lost, nothing repeated.
//
// Read with a loop over [Reader.Pages], or page by page with [Reader.Next]. An
// error never moves a Reader: the caller may go on after any. Nothing runs behind
// the end of a loop or between two calls. A Reader may not be used by several
// goroutines at a time; for several workers there is [SplitRange].
type Reader struct {
	source Source
	cfg    ReaderConfig

	// begun is set once the cursors stand for the whole range and, when the start
	// is now, all of them have their place.
	begun bool
	// identity is the container's, asked for by begin.
	identity Identity
	// cursors tile the range that is followed, in no particular order. turn is
	// the next one to read.
	cursors []*cursor
	turn    int
	// paging is set while a loop over Pages runs.
	paging bool
}

// ReaderConfig says what a [Reader] follows. The zero value follows the whole
// container, in latest version mode, from now.
type ReaderConfig struct {
	// Range is the range of keys to follow. Default: everything.
	Range Range
	// Key narrows the feed to one logical partition key, or to a prefix of a
	// hierarchical one. Default: all keys.
	Key PartitionKey
	// Start is where to begin. A continuation ([After]) is taken as the position
	// of every partition, which is right only where it was read from the same
	// partition or one LSN counts the whole container, as in the embedded store.
	// Default: now.
	Start Start
	// Position is a text of [Reader.Position] to go on from. With it Start is not
	// looked at, and Range, Key and Mode may be left zero; if they are set, they
	// must be what the text was made with.
	Position string
	// Mode is latest version (default) or all versions and deletes.
	Mode Mode
	// MaxItems is a hint of how many changes a page should hold. Default: the
	// source's, 100.
	MaxItems int
	// Follow lets [Reader.Pages] wait for more at the end of the feed. Default: the
	// loop ends there.
	Follow bool
	// Parallel is how many parts of the range Pages reads at the same time, and
	// the most pages that it holds beside the one in the loop's hands. Default: 1.
	Parallel int
	// Wait is how long a read is held, or put off, at the end of the feed, at most.
	//
	// Next holds its answer that long when nothing new comes. It is divided among
	// the parts of the range: while one is being held, a change in another is
	// found at the next call. Default: 0, Next answers at once.
	//
	// Pages with Follow reads an idle part again after a pause that grows from a
	// twentieth of Wait, just after changes, to the whole of it. Default: 5 s.
	//
	// It may not be longer than 365 days.
	Wait time.Duration
	// OnHistoryLost chooses to go on at the oldest position (return true) when the
	// feed of a part of the range no longer reaches back to the reader's place: the
	// changes between the two are lost. Default: never; Next returns the error and
	// the place stands.
	OnHistoryLost func(Range, *HistoryLostError) bool
}

// cursor is the place in a part of the range that one partition holds.
type cursor struct {
	// partition is to be read; without an ID, the source finds it (by the key).
	partition Partition
	// rng is the cursor's part of the range that is followed.
	rng Range
	// from is where the next read starts.
	from Start
	// end is set by a read that found nothing new, until something is found.
	end bool
	// gone counts the splits and merges since a read of it or of what it is a
	// piece of succeeded.
	gone int

	// The rest is for Pages. reading: a read is under way, or its page isn't
	// handed out yet. due is when to read next, active when it last had changes,
	// and visited whether it was read since a page was handed out.
	reading, visited bool
	due, active      time.Time
}

// maxReroutes bounds how often a part of the range is followed over splits and merges
// without a read that succeeds, before the error is given back: a source that goes on answering gone without showing
// the replacements would otherwise keep it for ever.
const maxReroutes = 8

// maxWait is the longest [ReaderConfig.Wait]: sums of longer ones may overflow.
const maxWait = 365 * 24 * time.Hour

// NewReader returns a reader of s. It asks the source for nothing yet; its
// errors are those of the configuration.
func NewReader(s Source, cfg ReaderConfig) (*Reader, error) {
	r := &Reader{source: s, cfg: cfg}
	if s == nil {
		return nil, errors.New("reader: Source is required")
	}
	if cfg.MaxItems < 0 {
		return nil, fmt.Errorf("reader: MaxItems is %d; it can't be negative", cfg.MaxItems)
	}
	if cfg.Parallel < 0 {
		return nil, fmt.Errorf("reader: Parallel is %d; it can't be negative", cfg.Parallel)
	}
	if cfg.Wait < 0 {
		return nil, fmt.Errorf("reader: Wait is %s; it can't be negative", cfg.Wait)
	}
	if cfg.Wait > maxWait {
		return nil, fmt.Errorf("reader: Wait is %s; it can't be more than 365 days (%s)", cfg.Wait, maxWait)
	}
	if !cfg.Range.IsZero() && cfg.Range.IsEmpty() {
		return nil, fmt.Errorf("reader: Range %s holds no key", cfg.Range)
	}
	if cfg.Position != "" {
		if err := r.restore(cfg.Position); err != nil {
			return nil, fmt.Errorf("reader: Position: %w", err)
		}
	}
	return r, nil
}

// Next reads one page of one part of the range and returns it together with that
// part. The page may be empty; its continuation is that of the part alone, and
// [Reader.Position] the one of everything. At the end of the feed Next holds the
// answer for a while if the configuration says so.
//
// Its errors are those of [Source.Read], ctx's, and errors that wrap a
// *GoneError when partitions change faster than they can be followed. None of
// them moves the reader, and the next call goes on with the next part.
func (r *Reader) Next(ctx context.Context) (Page, Range, error) {
	if r.paging {
		return Page{}, Range{}, errPaging
	}
	if err := r.begin(ctx); err != nil {
		return Page{}, Range{}, err
	}
	var err error
	for range maxReroutes {
		if err = ctx.Err(); err != nil {
			return Page{}, Range{}, err
		}
		r.turn %= len(r.cursors)
		c := r.cursors[r.turn]
		var page Page
		page, err = r.read(ctx, c)
		var gone *GoneError
		switch {
		case err == nil:
			if !c.advance(page) {
				r.reopen()
			}
			r.turn++
			page.Range = c.rng
			return page, c.rng, nil
		case r.skip(c, err):
			continue
		case !errors.As(err, &gone):
			r.turn++
			r.reopen()
			return Page{}, c.rng, fmt.Errorf("read range %s: %w", c.rng, err)
		}
		r.reopen()
		if rerouteErr := r.reroute(ctx, c, gone); rerouteErr != nil {
			r.turn++
			return Page{}, c.rng, rerouteErr
		}
	}
	return Page{}, Range{}, fmt.Errorf("gave up after %d attempts: %w", maxReroutes, err)
}

// errPaging tells that a loop over Pages has the reader.
var errPaging = errors.New("reader: a loop over its Pages runs")

// Drained reports whether the reader has come to the end of the feed: each of
// its parts was read and had nothing new. Next keeps it true until the next page
// with changes, error, split or merge; a loop over Pages, which reads a part to
// its end and no further, until it finds changes again.
func (r *Reader) Drained() bool {
	for _, c := range r.cursors {
		if !c.end {
			return false
		}
	}
	return r.begun
}

// reopen makes the reader read every part again before it is drained.
func (r *Reader) reopen() {
	for _, c := range r.cursors {
		c.end = false
	}
}

// read asks for the next page of c, and at the end of the feed holds the answer
// for c's share of the wait, also where the source can't.
func (r *Reader) read(ctx context.Context, c *cursor) (Page, error) {
	req := r.request(c)
	if !r.Drained() || r.cfg.Wait == 0 {
		return r.source.Read(ctx, req)
	}
	req.Wait = max(r.cfg.Wait/time.Duration(len(r.cursors)), 1)
	began := time.Now()
	page, err := r.source.Read(ctx, req)
	if left := req.Wait - time.Since(began); err == nil && len(page.Changes) == 0 && left > 0 {
		pause := time.NewTimer(left)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done(): // the page stands; the next call tells of ctx
		}
	}
	return page, err
}

// skip moves c over lost history, if the user chooses so.
func (r *Reader) skip(c *cursor, err error) bool {
	var lost *HistoryLostError
	if r.cfg.OnHistoryLost == nil || !errors.As(err, &lost) || lost.Oldest == "" {
		return false
	}
	if c.from == After(lost.Oldest) || !r.cfg.OnHistoryLost(c.rng, lost) {
		return false
	}
	c.from = After(lost.Oldest)
	return true
}

// request is the request for the next page of c.
func (r *Reader) request(c *cursor) Request {
	req := Request{
		Partition: c.partition,
		Key:       r.cfg.Key,
		From:      c.from,
		Mode:      r.cfg.Mode,
		MaxItems:  r.cfg.MaxItems,
	}
	if c.partition.ID != "" && c.rng != c.partition.Range {
		req.Range = c.rng
	}
	return req
}

// advance moves c behind page, and reports whether that is the end of its feed.
func (c *cursor) advance(page Page) bool {
	before := c.from
	c.from = After(page.Continuation)
	c.gone = 0
	// A source may answer a read of a part that had nothing with an empty page
	// from the middle of the feed, where it knows that there is more.
	behind := page.LSN >= 0 && page.End >= 0 && page.LSN < page.End && c.from != before
	c.end = len(page.Changes) == 0 && !behind
	return c.end
}

package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/internal/follow"
)

// Reader follows a container's feed, or a range of it, without leases (the pull model).
// It lists the partitions that hold the range, keeps a cursor for each, and reads them in
// turn. When a partition is split or merged, its cursor is cut at the new ones' borders
// and each piece resumes from the same continuation, so that no change is lost or
// repeated.
//
// Read with a loop over [Reader.Pages]; reach for [Reader.Next] when your own code
// decides when to read the next page. An error does not move a Reader, and you may
// continue after any error. No goroutine outlives a loop or a call.
//
// A Reader is not safe for concurrent use; give several workers a Reader each, with
// [SplitRange].
type Reader struct {
	source Source
	cfg    ReaderConfig

	// begun is true once the cursors cover the whole range. If the start is now, every
	// cursor also has the position of "now".
	begun bool
	// identity is the container's identity, which begin reads.
	identity Identity
	// cursors cover the range without overlaps, in no particular order. turn is the index
	// of the next cursor to read.
	cursors []*cursor
	turn    int
	// paging is true while a loop over Pages runs.
	paging bool
}

// ReaderConfig configures a [Reader]. The zero value follows the whole container in
// latest version mode, from now.
type ReaderConfig struct {
	// Range holds the keys to follow. If zero, the Reader follows all.
	Range Range
	// Key limits the feed to one logical partition key, or to a prefix of a hierarchical
	// key. If nil, the Reader follows all keys.
	Key PartitionKey
	// Start is where the first read begins. If zero, it is now. A continuation ([After])
	// must come from a read of the same keys, because it applies to every partition and each
	// counts its own LSNs.
	Start Start
	// Position is what an earlier [Reader.Position] returned, and the Reader resumes there.
	// Start is then ignored. Range, Key and Mode may be zero, or must equal the earlier
	// reader's.
	Position string
	// Mode is the feed's mode. If zero, it is latest version mode.
	Mode Mode
	// MaxItems is a hint for how many changes a page should have. If zero, 100 is used.
	MaxItems int
	// Follow makes a loop over [Reader.Pages] wait for changes at the end of the feed. If
	// false, the loop ends there, even while others continue to write.
	Follow bool
	// Parallel is how many parts Pages reads at the same time, and how many pages it holds
	// at most besides the one in the loop's body. If zero, 1 is used. Raise it when reading,
	// rather than the loop's body, takes the time.
	Parallel int
	// Wait is the longest wait at the end of the feed, up to 365 days.
	//
	// Next waits that long for changes before it returns an empty page, or returns at once
	// if Wait is zero. The range's parts share that time: while Next waits for one, it finds
	// a change in another only at the next call.
	//
	// Pages with Follow pauses between two reads of an idle part, from a twentieth of Wait
	// just after changes up to the whole. If zero, Pages uses 5 s.
	Wait time.Duration
	// OnHistoryLost decides what happens if a part's feed no longer reaches back to the
	// reader's position, or ends before it. If it returns true, the Reader resumes at the
	// oldest position, and the changes in between are lost. If it returns false or is nil,
	// Next returns the error and the position does not move.
	OnHistoryLost func(Range, *HistoryLostError) bool
}

// cursor is the reader's position in one part of its range. One partition holds that
// part.
type cursor struct {
	// partition is the partition to read. If it has no ID, the source finds the partition
	// by the key.
	partition Partition
	// rng is the cursor's part of the range that the reader follows.
	rng Range
	// from is the start of the next read.
	from Start
	// end is true if the last read reached the end of the part's feed, which tail finds.
	end  bool
	tail follow.Tail
	// gone counts the splits and merges that the reader has followed since the last
	// successful read of this part.
	gone int

	// The remaining fields are used by Pages. reading is true while a read runs or its
	// page waits for delivery. visited is true if the cursor was read after the last
	// delivered page. due is the time of the next read, which pace determines.
	reading, visited bool
	due              time.Duration
	pace             follow.Pace
}

// maxReroutes limits how often the reader follows splits and merges of a part without a
// successful read. Without the limit, a source that never lists the new partitions would
// keep the reader busy forever.
const maxReroutes = 8

// maxWait is the maximum [ReaderConfig.Wait]. Sums with longer durations might overflow.
const maxWait = 365 * 24 * time.Hour

// NewReader returns a reader of s, or an error if cfg is not valid. It sends no request.
func NewReader(s Source, cfg ReaderConfig) (*Reader, error) {
	r := &Reader{source: s, cfg: cfg}
	if s == nil {
		return nil, errors.New("reader: Source is required")
	}
	if cfg.MaxItems < 0 {
		return nil, fmt.Errorf("reader: MaxItems is %d; it cannot be negative", cfg.MaxItems)
	}
	if cfg.Parallel < 0 {
		return nil, fmt.Errorf("reader: Parallel is %d; it cannot be negative", cfg.Parallel)
	}
	if cfg.Wait < 0 {
		return nil, fmt.Errorf("reader: Wait is %s; it cannot be negative", cfg.Wait)
	}
	if cfg.Wait > maxWait {
		return nil, fmt.Errorf("reader: Wait is %s; it cannot be more than 365 days (%s)", cfg.Wait, maxWait)
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

// Next reads one page, which may be empty, from one part, and returns it with that part.
// The page's continuation belongs to the part only; [Reader.Position] is for the whole
// range. At the end of the feed, Next waits up to [ReaderConfig.Wait] for changes.
//
// Next fails as [Source.Read] does, or with ctx's error, or with one that wraps a
// [*GoneError] if partitions change faster than the reader can follow. An error does not
// move the reader, and the next call reads the next part.
func (r *Reader) Next(ctx context.Context) (Page, Range, error) {
	if r.paging {
		return Page{}, Range{}, errPaging
	}
	if err := r.begin(ctx); err != nil {
		return Page{}, Range{}, err
	}
	for {
		if err := ctx.Err(); err != nil {
			return Page{}, Range{}, err
		}
		r.turn %= len(r.cursors)
		c := r.cursors[r.turn]
		if r.Drained() {
			c.tail = follow.Tail{} // look for the end anew
		}
		c.tail.Once = true
		page, err := r.read(ctx, c)
		if err == nil {
			if r.Drained() && len(page.Changes) > 0 {
				r.reopen()
			}
			c.advance(page)
			r.turn++
			page.Range = c.rng
			return page, c.rng, nil
		}
		if r.skip(c, err) {
			continue
		}
		r.reopen()
		if err := r.reroute(ctx, c, err); err != nil {
			r.turn++
			return Page{}, c.rng, err
		}
	}
}

// errPaging is returned by Next and Pages while a loop over Pages runs.
var errPaging = errors.New("reader: a loop over Pages is running")

// Drained reports whether the reader has reached the end of the feed that it saw first,
// even if changes are written faster than it reads. If the source does not report
// [Page.End], that is when the last read of each part returned no changes.
//
// With [Reader.Next], a drained reader looks for the end anew after a page with changes, an
// error, a split or a merge; until it has read every part again, it is not drained. In a
// loop over [Reader.Pages] with [ReaderConfig.Follow], it is drained until a part has
// changes again.
func (r *Reader) Drained() bool {
	for _, c := range r.cursors {
		if !c.end {
			return false
		}
	}
	return r.begun
}

// reopen clears end of every cursor, so that the reader is not drained. If it was, every
// part looks for its end anew.
func (r *Reader) reopen() {
	drained := r.Drained()
	for _, c := range r.cursors {
		c.end = false
		if drained {
			c.tail = follow.Tail{Once: true}
		}
	}
}

// read reads the next page of c. At the end of the feed it waits for c's part of the
// configured Wait, even if the source cannot wait.
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
		case <-ctx.Done(): // return the empty page; the next call returns ctx's error
		}
	}
	return page, err
}

// skip handles an error that reports lost history. If OnHistoryLost allows it, skip moves
// c to the oldest position and returns true.
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

// request returns the request for the next page of c.
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

// advance moves c to the position after page. It reports whether the page reaches the end
// of its feed. Then c is at the end, unless the reader is to read on after changes.
func (c *cursor) advance(page Page) (last bool) {
	moved := c.from != After(page.Continuation)
	c.from = After(page.Continuation)
	c.gone = 0
	if len(page.Changes) == 0 {
		c.end = c.tail.Empty(page.LSN, page.End, moved)
		return c.end
	}
	last = c.tail.Changes(page.LSN, page.End)
	c.end = last && c.tail.Once
	return last
}

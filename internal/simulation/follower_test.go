package simulation

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// follower reads a range of the change feed with a [feed.Reader], without leases. Its
// requests go over a link like those of a host. At random it drops the reader and resumes
// with a new one, from a position that it stored before.
type follower struct {
	*hostSource

	keys     feed.Range
	key      feed.PartitionKey // a key, or a prefix of a hierarchical key; it may be nil
	prefix   feed.Range        // the range of key, or all keys
	start    feed.Start
	parallel int // for Pages; 0 reads with Next
	cancel   context.CancelFunc
	draw     draw

	// Only the follower's own goroutine uses these fields, and after its end the run's.
	reader *feed.Reader
	saved  bookmark
	ended  bool

	mu   sync.Mutex // guards done
	done tiles
}

// bookmark is a stored position of a reader, with the changes that it has received until
// then. Without a text, it is the start.
type bookmark struct {
	text string
	done tiles
}

// tile is a range of keys with the LSN of the last change that a reader has received in
// it. lsn is -1 before the position of "now" is known.
type tile struct {
	keys feed.Range
	lsn  int64
}

// tiles are the parts of a reader's range, without overlaps.
type tiles []tile

// set returns the tiles in which range r has an LSN.
func (t tiles) set(r feed.Range, lsn int64) tiles {
	var all tiles
	for _, old := range t {
		for _, left := range []feed.Range{{Min: old.keys.Min, Max: min(old.keys.Max, r.Min)}, {Min: max(old.keys.Min, r.Max), Max: old.keys.Max}} {
			if !left.IsEmpty() {
				all = append(all, tile{left, old.lsn})
			}
		}
	}
	return append(all, tile{r, lsn})
}

// at returns the LSN of the tile that contains range r.
func (t tiles) at(r feed.Range) (lsn int64, found bool) {
	i := slices.IndexFunc(t, func(x tile) bool { return x.keys.Contains(r) })
	if i < 0 {
		return 0, false
	}
	return t[i].lsn, true
}

// follower returns the follower of a run. It is nil if there is none.
func (r *run) follower() **follower { return stateOf[*follower](&r.world.states) }

// follow starts a follower, unless there is one.
func (r *run) follow(ctx context.Context) {
	if *r.follower() != nil {
		return
	}
	w, d := r.world, newDraw(r.scenario.seed, 0, "follower")
	h := &host{world: w, id: "reader", party: readerParty, joined: time.Now(), dead: make(chan struct{}), done: make(chan struct{}), calls: map[callName]int{}}
	f := &follower{hostSource: &hostSource{host: h, inner: w.engine.source(), waits: w.waits}, keys: feed.Full(), prefix: feed.Full(), start: feed.Beginning()}
	if w.mode == feed.AllVersionsAndDeletes || d.chance(0.3) {
		f.start = feed.Now()
	}
	if d.chance(0.5) {
		pieces, err := f.inner.SplitRange(ctx, feed.Full(), feedCuts)
		if err != nil {
			w.fails("cannot cut the keys: %v", err)
			return
		}
		first := d.intn(len(pieces))
		f.keys = feed.Range{Min: pieces[first].Min, Max: pieces[d.between(first, len(pieces)-1)].Max}
	}
	if r.scenario.has(prefixReaders) {
		key := r.scenario.key(d.intn(keyCount))
		f.key = key[:d.between(1, len(key))]
		f.prefix = w.prefix(f.key)
	}
	f.parallel = d.intn(5)
	f.draw = d
	lsn := int64(0)
	if f.start.Kind() == feed.StartNow {
		lsn = -1
	}
	f.saved.done = tiles{{f.keys, lsn}}
	f.resume()
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f.cancel = cancel
	*r.follower() = f
	go f.run(life)
}

// resume replaces the reader by one that resumes from the stored position.
func (f *follower) resume() {
	w := f.host.world
	cfg := feed.ReaderConfig{
		Range: f.keys, Key: f.key, Start: f.start, Position: f.saved.text, Mode: w.mode, MaxItems: w.maxItems,
		Follow: true, Parallel: f.parallel, Wait: w.times.poll, OnHistoryLost: f.historyLost,
	}
	var err error
	if f.reader, err = feed.NewReader(f, cfg); err != nil {
		w.fails("cannot resume the reader: %v", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = f.saved.done
	w.ledger.add(&readerMoves{f.done})
}

// run reads until ctx ends.
func (f *follower) run(ctx context.Context) {
	defer close(f.host.done)
	for f.host.sleep(ctx, "rest", f.draw.span(time.Millisecond, f.host.world.times.poll)) == nil {
		if f.parallel > 0 {
			f.pages(ctx)
		} else {
			f.next(ctx)
		}
		switch {
		case f.draw.chance(0.3):
			f.save(ctx)
		case f.draw.chance(0.1):
			f.host.trace("resume", "", "", 0)
			f.resume()
		}
	}
}

// next reads one page. At an error the reader stays where it is.
func (f *follower) next(ctx context.Context) {
	if page, keys, err := f.reader.Next(ctx); err == nil {
		f.received(page, keys)
	}
}

// pages reads pages in a loop until an error or a random moment.
func (f *follower) pages(ctx context.Context) {
	left := f.draw.between(1, 60)
	for page, err := range f.reader.Pages(ctx) {
		if err != nil {
			return
		}
		f.received(page, page.Range)
		if left--; left == 0 {
			return
		}
	}
}

// save stores the position of the reader.
func (f *follower) save(ctx context.Context) {
	text, err := f.reader.Position(ctx)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.saved = bookmark{text: text, done: f.done}
}

// received records a page that the reader returned for a range of keys.
func (f *follower) received(page feed.Page, keys feed.Range) {
	if len(page.Changes) == 0 {
		return
	}
	w := f.host.world
	w.ledger.add(&readerPage{keys, f.prefix, page.Changes})
	w.occurs(readers)
	w.occurs(prefixReaders)
	f.moves(keys, page.Changes[len(page.Changes)-1].LSN)
}

// moves records up to which LSN the reader has read a range of keys.
func (f *follower) moves(keys feed.Range, lsn int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = f.done.set(keys, lsn)
	f.host.world.ledger.add(&readerMoves{f.done})
}

// historyLost lets the reader skip the changes that the source has dropped.
func (f *follower) historyLost(keys feed.Range, lost *feed.HistoryLostError) bool {
	lsn, err := lsnOf(lost.Oldest)
	if err != nil {
		f.host.world.fails("the reader lost the history before %q", lost.Oldest)
		return false
	}
	f.moves(keys, lsn)
	return true
}

// Partitions implements [feed.Source].
func (f *follower) Partitions(ctx context.Context) ([]feed.Partition, error) {
	ctx, cancel := context.WithTimeout(ctx, f.host.world.times.timeout)
	defer cancel()
	return f.hostSource.Partitions(ctx)
}

// Identity implements [feed.Source].
func (f *follower) Identity(ctx context.Context) (feed.Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, f.host.world.times.timeout)
	defer cancel()
	return f.hostSource.Identity(ctx)
}

// Read implements [feed.Source].
func (f *follower) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	w := f.host.world
	if !f.waits {
		r.Wait = 0
	}
	ctx, cancel := context.WithTimeout(ctx, w.times.timeout+r.Wait)
	defer cancel()
	keys, selected := keysOf(w.engine.partitions(), r), r
	selected.Range = r.Range.OrFull().Intersect(f.prefix)
	return send(ctx, call{host: f.host, op: opRead, key: r.Partition.ID + keys.String()}, func(ctx context.Context) (feed.Page, error) {
		if err := w.historyLost(selected); err != nil {
			return feed.Page{}, err
		}
		page, err := f.inner.Read(ctx, r)
		if err != nil {
			return page, err
		}
		if r.From.Kind() == feed.StartNow {
			f.moves(keys, page.LSN)
			return page, nil
		}
		return f.host.alter(page, r, keys.String()), nil
	})
}

// finishFollowing ends the follower, if it has not ended yet.
func (r *run) finishFollowing(ctx context.Context) {
	if f := *r.follower(); f != nil && !f.ended {
		f.ended = true
		f.finish(ctx)
	}
}

// finish ends the follower, and reads the rest of the feed. The reader may be drained since a
// time before the last changes. So finish reads until no part has returned a change in one
// whole round.
func (f *follower) finish(ctx context.Context) {
	f.end()
	ends := &readerEnds{prefix: f.prefix, err: errUnavailable}
	var first *feed.Range // the first part of this round
	for range 10_000 {
		page, keys, err := f.reader.Next(ctx)
		if err == nil {
			f.received(page, keys)
		}
		if err != nil || len(page.Changes) > 0 {
			first = nil
			ends.err = err
			continue
		}
		if first == nil {
			first = &keys
		} else if keys == *first && f.reader.Drained() {
			ends.err = nil
			break
		}
		ends.err = errUnavailable
	}
	f.host.world.ledger.add(ends)
}

// end ends the follower's goroutine.
func (f *follower) end() {
	f.cancel()
	<-f.host.done
}

// These are the facts of readers.
type (
	// readerPage is a page that a reader returns, for a range of keys.
	readerPage struct {
		keys, prefix feed.Range
		changes      []feed.Change
	}
	// readerMoves says that a reader starts, or resumes, or skips changes, with everything
	// read up to the LSNs of its parts.
	readerMoves struct{ done tiles }
	// readerEnds is the end of a reader that has read everything.
	readerEnds struct {
		prefix feed.Range
		err    error
	}
)

// concludes implements [observation].
func (m *readerMoves) concludes(v *view, _ bool) { *stateOf[tiles](&v.states) = m.done }

// unread describes the changes that follow a position and that the change feed contains.
type unread struct {
	transactions int64 // number of different LSNs
	first        int64 // LSN of the first change
	at           time.Time
}

// unread returns the unread changes of range r after the start of a read.
func (j *journal) unread(r feed.Range, from feed.Start) (u unread) {
	last := lsnAt(from.Continuation())
	for _, e := range j.between(r, last, math.MaxInt64) {
		if e.at.Before(from.Time()) || e.at.Before(from.Since()) || !j.contains(e) {
			continue
		}
		if u.transactions == 0 {
			u.first, u.at = e.lsn, e.at
		}
		if e.lsn != last {
			u.transactions++
		}
		last = e.lsn
	}
	return u
}

func judgeReaderPage(v *view, p *readerPage, breach report) {
	from, found := stateOf[tiles](&v.states).at(p.keys)
	if begun := found && from >= 0; len(p.changes) > 0 {
		breach(!begun, "the reader returns changes of %s, which it has not begun to read", p.keys)
		m := v.journal.match(p.keys.Intersect(p.prefix), from, p.changes, v.journal.contains)
		breach(begun && m.wrong != "", "the reader, in %s after %d: the page %s", p.keys, from, m.wrong)
	}
}

func judgeReaderEnds(v *view, f *readerEnds, breach report) {
	breach(f.err != nil, "the reader has not reached the end of the feed: %v", f.err)
	for _, t := range *stateOf[tiles](&v.states) {
		left := v.journal.unread(t.keys.Intersect(f.prefix), feed.After(continuation(t.lsn)))
		breach(left.transactions > 0, "the reader has not returned %d transactions of %s, from %d on", left.transactions, t.keys, left.first)
	}
}

// prefix returns the range of the keys that begin with the given components.
func (w *world) prefix(components feed.PartitionKey) feed.Range {
	low := w.engine.epk(components)
	return feed.Range{Min: low, Max: low + feed.MaxEPK}
}

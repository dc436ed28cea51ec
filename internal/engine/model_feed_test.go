package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/epk"
)

// scope is the part of the container that a read covers: the range rng, and in it the
// partition key or key prefix key. A nil key means all keys.
type scope struct {
	rng feed.Range
	key feed.PartitionKey
}

func (s scope) holds(w *world, key feed.PartitionKey) bool {
	switch {
	case s.key == nil:
	case len(s.key) == len(key):
		if w.point(s.key) != w.point(key) {
			return false
		}
	case key[:len(s.key)].String() != s.key.String():
		return false
	}
	return s.rng.OrFull().Holds(w.point(key))
}

// someScope returns a random scope: the whole container, a range of keys, one key, or a
// key prefix.
func (w *world) someScope() scope {
	switch w.rng.IntN(4) {
	case 0:
		a, b := w.point(w.someKey()), w.point(w.someKey())
		if a > b {
			a, b = b, a
		}
		if w.rng.IntN(2) == 0 {
			a = feed.MinEPK
		}
		if a == b || w.rng.IntN(2) == 0 {
			b = feed.MaxEPK
		}
		return scope{rng: feed.Range{Min: a, Max: b}}
	case 1:
		return scope{key: w.someKey()}
	case 2:
		key := w.someKey()
		if w.hash == epk.MultiHash {
			key = key[:1+w.rng.IntN(len(key))]
		}
		return scope{key: key}
	}
	return scope{}
}

// cursor is the position of a follower in one part of its scope. A split replaces a
// cursor by several ones.
type cursor struct {
	rng       feed.Range
	partition feed.Partition // if its ID is empty, reads name only the range or the key
	from      feed.Start
	// known reports whether after is set. It is false before the first page. after is the
	// position after the last page.
	known bool
	after marks
	// begin is the position at which the first page begins.
	begin marks
	// polled is the last second in which the position was the end of the feed.
	polled int64
}

// follower reads the feed of a scope page by page and compares each page with the model.
type follower struct {
	w     *world
	mode  feed.Mode
	scope scope
	// spans reports whether each read covers the whole scope, in several partitions if
	// necessary. Otherwise each read covers one partition.
	spans   bool
	cursors []*cursor
	// The follower expects the events from the second sinceTS on and after the position
	// since.
	sinceTS int64
	since   marks
	// seen counts the deliveries of each change, by item and version.
	seen map[string]int
	lost bool // whether a read has returned a HistoryLostError, or the store was restored
}

// follow returns a follower with the given mode, scope and start.
func (w *world) follow(mode feed.Mode, rng feed.Range, key feed.PartitionKey, from feed.Start, spans bool) *follower {
	f := &follower{w: w, mode: mode, scope: scope{rng, key}, spans: spans, seen: map[string]int{}, since: marks{{}}}
	polled := w.now()
	switch from.Kind() {
	case feed.StartNow:
		f.sinceTS = 1 << 62
	case feed.StartBeginning:
	case feed.StartTime:
		f.sinceTS = from.Time().Unix()
	case feed.StartContinuation:
		f.since, polled = marksOf(w, from.Continuation()), 0 // it is unknown when this position was the end of the feed
	}
	c := &cursor{rng: rng.OrFull(), from: from, polled: polled}
	if key != nil && rng.IsZero() {
		c.rng = feed.Range{}
	}
	f.cursors = []*cursor{c}
	if from.Kind() == feed.StartNow || mode == feed.AllVersionsAndDeletes {
		// A follower that starts now begins at the moment of its first read, not of its
		// creation. So it reads at once.
		for fresh := true; fresh; {
			fresh = false
			for _, c := range slices.Clone(f.cursors) {
				if !c.known {
					f.page(c)
					fresh = true
				}
			}
		}
	}
	if from.Kind() == feed.StartNow {
		f.sinceTS, f.since = 0, nil
		for _, c := range f.cursors {
			for n, m := range c.after {
				if n == 0 {
					m.border = c.rng.Min
				}
				f.since = append(f.since, m)
			}
		}
	}
	return f
}

// marks are a position: an LSN for each range of keys, sorted by range.
type marks []mark

// mark is the LSN of the keys from a border on.
type mark struct {
	border string
	lsn    int64
}

// find returns the index of the mark of a key by its point.
func (m marks) find(point string) int {
	n := 0
	for n+1 < len(m) && m[n+1].border <= point {
		n++
	}
	return n
}

// at returns the LSN of a key by its point.
func (m marks) at(point string) int64 { return m[m.find(point)].lsn }

// only returns the LSN of all keys, or -1 if they have several.
func (m marks) only() int64 {
	if len(m) > 1 {
		return -1
	}
	return m[0].lsn
}

// marksOf returns the position of a continuation, such as "7" or "7;3F:12".
func marksOf(w *world, c feed.Continuation) marks {
	text, ok := strings.CutPrefix(string(c), `"`)
	text, ok2 := strings.CutSuffix(text, `"`)
	var all marks
	for _, part := range strings.Split(":"+text, ";") {
		border, digits, _ := strings.Cut(part, ":")
		lsn, err := strconv.ParseInt(digits, 10, 64)
		if n := len(all); !ok || !ok2 || err != nil || n > 0 && (all[n-1].border >= border || all[n-1].lsn == lsn) {
			w.t.Fatalf("continuation %q: %v", c, err)
		}
		all = append(all, mark{border, lsn})
	}
	return all
}

// newFollower adds a follower with a random scope. It starts at a random start, or at the
// position of another follower.
func (w *world) newFollower() {
	if len(w.followers) > 12 {
		w.followers[0].drain()
		w.followers = w.followers[1:]
	}
	mode := feed.LatestVersion
	if w.props.Retention > 0 && w.rng.IntN(2) == 0 {
		mode = feed.AllVersionsAndDeletes
	}
	from := feed.Now()
	if mode == feed.LatestVersion {
		switch w.rng.IntN(4) {
		case 0:
			from = feed.Beginning()
		case 1:
			from = feed.At(w.db.Now().Add(-time.Duration(w.rng.Int64N(int64(60 * time.Second)))))
			if n := len(w.events); n > 0 && w.rng.IntN(2) == 0 {
				from = feed.At(time.Unix(w.events[w.rng.IntN(n)].ts, 0)) // starts exactly at the second of a write, which is the border case
			}
		}
	}
	s := w.someScope()
	if len(w.followers) > 0 && w.rng.IntN(4) == 0 {
		// A continuation is valid for the keys that were read, so another follower's
		// position can be the start, whether or not the two read several partitions.
		other := w.followers[w.rng.IntN(len(w.followers))]
		if c := other.cursors[0]; c.known && (mode == feed.LatestVersion || other.mode == mode && !other.lost) {
			s, from = scope{c.rng, other.scope.key}, c.from
		}
	}
	if from.Kind() == feed.StartTime {
		w.checkBefore(s, from.Time())
	}
	spans := w.rng.IntN(3) == 0
	w.logf("follower %d: %v of %v from %v, spans %v", len(w.followers), mode, s, from, spans)
	w.followers = append(w.followers, w.follow(mode, s.rng, s.key, from, spans))
}

// checkBefore checks the result of FeedBefore for a scope and a time. Exactly the items
// that were written in that second or later must have LSNs after the returned position.
func (w *world) checkBefore(s scope, at time.Time) {
	page, err := w.c.FeedBefore(w.t.Context(), feed.Request{Range: s.rng, Key: s.key}, at)
	if err != nil {
		w.t.Fatal(err)
	}
	before := marksOf(w, page.Continuation)
	if page.LSN != before.only() || page.End >= 0 && page.LSN > page.End || len(page.Changes) > 0 {
		w.t.Fatalf("before %d: %+v", at.Unix(), page)
	}
	for id, i := range w.items {
		if w.visible(id) == nil || !s.holds(w, i.key) {
			continue
		}
		if follows := i.lsn > before.at(w.point(i.key)); follows != (i.ts >= at.Unix()) {
			w.t.Fatalf("the position before %d of %v is %v, but %v has the LSN %d and the time %d", at.Unix(), s, before, id, i.lsn, i.ts)
		}
	}
}

// step reads one page of a random cursor.
func (f *follower) step() { f.page(f.cursors[f.w.rng.IntN(len(f.cursors))]) }

// page reads the next page at c and compares it with the model. It reports whether the
// page has changes or c has moved.
func (f *follower) page(c *cursor) bool {
	w := f.w
	r := feed.Request{Partition: c.partition, Range: c.rng, Key: f.scope.key, From: c.from, Mode: f.mode, MaxItems: 1 + w.rng.IntN(5)}
	if c.rng == feed.Full() && w.rng.IntN(2) == 0 {
		r.Range = feed.Range{}
	}
	if c.begin = f.since; !c.known && c.from.Kind() == feed.StartTime {
		before, err := w.c.FeedBefore(w.t.Context(), feed.Request{Range: c.rng, Key: r.Key}, c.from.Time())
		if err != nil {
			w.t.Fatal(err)
		}
		c.begin = marksOf(w, before.Continuation)
	}
	if r.Partition.ID == "" && r.Range.IsZero() && r.Key == nil {
		r.Range = feed.Full()
	}
	page, ends, err := f.read(r)
	var gone *feed.GoneError
	var history *feed.HistoryLostError
	switch {
	case f.spans && errors.As(err, &gone):
		w.t.Fatalf("read %+v: %v", r, err)
	case errors.As(err, &gone):
		f.divide(c)
		return true
	case errors.As(err, &history):
		f.historyLost(c, history)
		return true
	case err != nil:
		w.t.Fatalf("read %+v: %v", r, err)
	}
	to, atEnd := marksOf(w, page.Continuation), true
	check := func(lsn, end int64) {
		if atEnd = atEnd && lsn == end; lsn > end {
			w.t.Fatalf("read %+v: continuation %s, LSN %d, ends %v", r, page.Continuation, page.LSN, ends)
		}
	}
	for _, e := range ends {
		check(to.at(max(e.border, r.Range.Min)), e.lsn)
	}
	for _, m := range to[1:] {
		check(m.lsn, ends.at(m.border))
	}
	if page.LSN != to.only() || atEnd && len(ends) == 1 && page.LSN != page.End {
		w.t.Fatalf("read %+v: continuation %s, LSN %d, end %d", r, page.Continuation, page.LSN, page.End)
	}
	f.compare(c, r, page, to)
	c.from, c.known, c.after = feed.After(page.Continuation), true, to
	if n := len(page.Changes); atEnd {
		c.polled = w.now()
	} else if n > 0 && !f.spans && !w.merged {
		c.polled = page.Changes[n-1].Time.Unix()
	}
	return len(page.Changes) > 0
}

// read reads a page of one partition, or of all partitions that overlap the request's
// scope. ends has the last LSNs of the partitions that served it.
func (f *follower) read(r feed.Request) (page feed.Page, ends marks, err error) {
	w := f.w
	if !f.spans {
		page, err = w.src.Read(w.t.Context(), r)
		return page, marks{{lsn: page.End}}, err
	}
	return f.readAll(r)
}

// readAll reads a page of all partitions that overlap the request's scope.
func (f *follower) readAll(r feed.Request) (feed.Page, marks, error) {
	w := f.w
	page, err := w.c.Feed(w.t.Context(), r)
	if err != nil {
		return feed.Page{}, nil, err
	}
	served, tokens, ends := map[string]bool{}, []string{}, marks{}
	end := int64(-1)
	for _, p := range page.Served {
		served[p.ID] = true
		tokens = append(tokens, fmt.Sprintf("%s:-1#%d", p.ID, p.End))
		end = p.End
	}
	if len(page.Served) > 1 {
		end = -1
	}
	for _, p := range w.partitions() {
		if n := slices.IndexFunc(page.Served, func(s engine.PartitionEnd) bool { return s.ID == p.ID }); n >= 0 {
			ends = append(ends, mark{p.Range.Min, page.Served[n].End})
		}
	}
	if page.SessionToken != strings.Join(tokens, ",") || page.End != end {
		w.t.Fatalf("read %+v: session token %s and end %d of %v", r, page.SessionToken, page.End, page.Served)
	}
	for _, p := range w.partitions() {
		s := scope{r.Range, r.Key}
		for _, e := range w.events {
			if !served[p.ID] && p.Range.Holds(e.point) && s.holds(w, e.key) {
				w.t.Fatalf("read %+v: %v has keys of the scope, but only %v served it", r, p, page.Served)
			}
		}
	}
	return page.Page, ends, nil
}

// divide replaces c by one cursor for each partition that now has a part of its range.
func (f *follower) divide(c *cursor) {
	w := f.w
	at := slices.Index(f.cursors, c)
	rng := c.rng.OrFull()
	if f.scope.key != nil {
		lo, hi := w.hash.Prefix(components(f.scope.key))
		rng = rng.Intersect(feed.Range{Min: lo, Max: hi})
	}
	var parts []*cursor
	for _, p := range w.partitions() {
		if !p.Range.Overlaps(rng) {
			continue
		}
		part := *c
		part.rng, part.partition = p.Range.Intersect(rng), p
		if w.rng.IntN(3) == 0 {
			part.partition = feed.Partition{} // names the part by its range only, as a lease of an EPK range does
		}
		parts = append(parts, &part)
	}
	w.logf("%v of %v is gone: %d parts", c.partition.ID, c.rng, len(parts))
	if len(parts) == 0 || len(parts) == 1 && c.partition.ID == "" {
		w.t.Fatalf("range %v is reported as gone, but is in %d partitions", rng, len(parts))
	}
	f.cursors = slices.Replace(f.cursors, at, at+1, parts...)
}

// historyLost handles a HistoryLostError of a read at c. It checks that c is before the
// retention. It then moves c to the oldest position, after which all versions within the
// retention must follow.
func (f *follower) historyLost(c *cursor, e *feed.HistoryLostError) {
	w := f.w
	oldest := marksOf(w, e.Oldest)
	w.logf("history lost at %v, oldest %v", c.after, oldest)
	if f.mode != feed.AllVersionsAndDeletes || c.known && slices.Equal(oldest, c.after) {
		w.t.Fatalf("%v at %v: history lost, oldest %v", f.mode, c.after, oldest)
	}
	position := f.since
	if c.known {
		position = c.after
	}
	cut := w.now() - int64(w.props.Retention/time.Second)
	if c.polled >= cut {
		w.t.Fatalf("the position %v of %v was the newest at %d, within the retention, but was refused at %d", c.after, c.rng, c.polled, w.now())
	}
	for _, e := range w.events {
		if !(scope{c.rng, f.scope.key}).holds(w, e.key) {
			continue
		}
		from := position.at(e.point)
		if oldest.at(e.point) < from || e.ts >= cut && e.lsn <= oldest.at(e.point) && e.lsn > from {
			w.t.Fatalf("LSN %d of second %d is within the retention, but the position was %v and the oldest is %v", e.lsn, e.ts, position, oldest)
		}
	}
	f.lost = true
	c.from, c.known, c.after, c.polled = feed.After(e.Oldest), true, oldest, 0
}

package engine_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
)

// scope is the part of the container that a read covers: the range rng, and in it the
// partition key or key prefix key. A nil key means all keys.
type scope struct {
	rng feed.Range
	key feed.PartitionKey
}

func (s scope) holds(w *world, key feed.PartitionKey) bool {
	if s.key != nil && key[:len(s.key)].String() != s.key.String() {
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
	// LSN of the last page.
	known bool
	after int64
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
	// since is the number of events when the follower started. If it starts earlier,
	// since is 0. It then expects the events from the second sinceTS on and after the LSN
	// sinceLSN.
	since    int
	sinceTS  int64
	sinceLSN int64
	// seen counts the deliveries of each change, by item and version.
	seen map[string]int
	lost bool // whether a read has returned a HistoryLostError
}

// follow returns a follower with the given mode, scope and start.
func (w *world) follow(mode feed.Mode, rng feed.Range, key feed.PartitionKey, from feed.Start, spans bool) *follower {
	f := &follower{w: w, mode: mode, scope: scope{rng, key}, spans: spans, seen: map[string]int{}, since: len(w.events)}
	polled := w.now()
	switch from.Kind() {
	case feed.StartNow:
		f.sinceTS = 1 << 62
	case feed.StartBeginning:
		f.since = 0
	case feed.StartTime:
		f.since, f.sinceTS = 0, from.Time().Unix()
	case feed.StartContinuation:
		f.since, f.sinceLSN, polled = 0, lsnOf(w, from.Continuation()), 0 // it is unknown when this position was the end of the feed
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
	return f
}

func lsnOf(w *world, c feed.Continuation) int64 {
	text, ok := strings.CutPrefix(string(c), `"`)
	text, ok2 := strings.CutSuffix(text, `"`)
	lsn, err := strconv.ParseInt(text, 10, 64)
	if !ok || !ok2 || err != nil {
		w.t.Fatalf("continuation %q", c)
	}
	return lsn
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
		// A continuation is valid for every scope of the container, so another follower's
		// position can be the start.
		other := w.followers[w.rng.IntN(len(w.followers))]
		if c := other.cursors[0]; c.known && (mode == feed.LatestVersion || other.mode == mode && !other.lost) {
			from = feed.After(feed.Continuation(strconv.Quote(strconv.FormatInt(c.after, 10))))
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
	if page.LSN != lsnOf(w, page.Continuation) || page.LSN > page.End || len(page.Changes) > 0 {
		w.t.Fatalf("before %d: %+v", at.Unix(), page)
	}
	for id, i := range w.items {
		if w.visible(id) != nil && s.holds(w, i.key) && (i.ts >= at.Unix()) != (i.lsn > page.LSN) {
			w.t.Fatalf("the position before %d of %v is %d, but %v has the LSN %d and the time %d", at.Unix(), s, page.LSN, id, i.lsn, i.ts)
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
	if r.Partition.ID == "" && r.Range.IsZero() && r.Key == nil {
		r.Range = feed.Full()
	}
	page, err := f.read(r)
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
	// The position may come from another partition and be after this partition's end. A
	// read must then return the same position.
	beyond := c.known && page.LSN == c.after || r.From.Kind() == feed.StartContinuation && page.LSN == f.sinceLSN
	if page.LSN != lsnOf(w, page.Continuation) || page.End < page.LSN && (!beyond || len(page.Changes) > 0) {
		w.t.Fatalf("read %+v: continuation %s, LSN %d, end %d", r, page.Continuation, page.LSN, page.End)
	}
	f.compare(c, r, page)
	c.from, c.known, c.after = feed.After(page.Continuation), true, page.LSN
	if page.LSN >= page.End {
		c.polled = w.now()
	} else if n := len(page.Changes); n > 0 {
		c.polled = page.Changes[n-1].Time.Unix()
	}
	return len(page.Changes) > 0
}

// read reads a page of one partition, or of all partitions that overlap the request's
// scope.
func (f *follower) read(r feed.Request) (feed.Page, error) {
	w := f.w
	if !f.spans {
		return w.src.Read(w.t.Context(), r)
	}
	page, err := w.c.Feed(w.t.Context(), r)
	if err != nil {
		return feed.Page{}, err
	}
	served, tokens := map[string]bool{}, []string{}
	end := int64(0)
	for _, p := range page.Served {
		served[p.ID] = true
		tokens = append(tokens, fmt.Sprintf("%s:-1#%d", p.ID, p.End))
		end = max(end, p.End)
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
	return page.Page, nil
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
	oldest := lsnOf(w, e.Oldest)
	w.logf("history lost at %d, oldest %d", c.after, oldest)
	if f.mode != feed.AllVersionsAndDeletes || oldest <= c.after && c.known {
		w.t.Fatalf("%v at %d: history lost, oldest %d", f.mode, c.after, oldest)
	}
	cut := w.now() - int64(w.props.Retention/time.Second)
	if c.polled >= cut {
		w.t.Fatalf("the position %d of %v was the newest at %d, within the retention, but was refused at %d", c.after, c.rng, c.polled, w.now())
	}
	for _, e := range w.events {
		if e.ts >= cut && e.lsn <= oldest && e.lsn > c.after && (scope{c.rng, f.scope.key}).holds(w, e.key) {
			w.t.Fatalf("LSN %d of second %d is within the retention, but the oldest position is %d", e.lsn, e.ts, oldest)
		}
	}
	f.lost = true
	c.from, c.known, c.after, c.polled = feed.After(e.Oldest), true, oldest, 0
}

// expected returns the events of the model that a read at c must return, up to the LSN
// to.
func (f *follower) expected(c *cursor, to int64) []event {
	w := f.w
	s := scope{c.rng, f.scope.key}
	due := func(lsn, ts int64) bool {
		switch {
		case lsn > to:
			return false
		case c.known:
			return lsn > c.after
		}
		return ts >= f.sinceTS && lsn > f.sinceLSN
	}
	var events []event
	if f.mode == feed.AllVersionsAndDeletes {
		for _, e := range w.events {
			if due(e.lsn, e.ts) && s.holds(w, e.key) {
				events = append(events, e)
			}
		}
		return events
	}
	for id, i := range w.items {
		if due(i.lsn, i.ts) && w.visible(id) != nil && s.holds(w, i.key) {
			events = append(events, event{id: id, key: i.key, lsn: i.lsn, ts: i.ts, current: i.stored()})
		}
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.lsn, b.lsn) })
	return events
}

// compare checks that a page has exactly the changes that the model expects. The page
// begins at c and ends at its own LSN. If the page is empty, the model must have no later
// change.
func (f *follower) compare(c *cursor, r feed.Request, page feed.Page) {
	w := f.w
	want := f.expected(c, page.LSN)
	fail := func(format string, args ...any) {
		w.t.Helper()
		w.t.Fatalf("%v of %+v up to %d: %s\npage %v\nwant %v", f.mode, r, page.LSN, fmt.Sprintf(format, args...), changes(page.Changes), want)
	}
	if len(page.Changes) != len(want) {
		fail("%d changes, want %d", len(page.Changes), len(want))
	}
	if len(want) == 0 {
		if rest := f.expected(c, 1<<62); len(rest) > 0 {
			fail("the page is empty, but %d changes remain", len(rest))
		}
		return
	}
	// In latest version mode, the changes of one transaction may come in any order. So
	// both lists are sorted.
	got := slices.Clone(page.Changes)
	if f.mode == feed.LatestVersion {
		byText := func(a, b []byte) int { return bytes.Compare(a, b) }
		slices.SortStableFunc(got, func(a, b feed.Change) int {
			return cmp.Or(cmp.Compare(a.LSN, b.LSN), byText(a.Current, b.Current))
		})
		slices.SortStableFunc(want, func(a, b event) int {
			return cmp.Or(cmp.Compare(a.lsn, b.lsn), byText(a.current, b.current))
		})
	}
	for n, g := range got {
		e := want[n]
		if n > 0 && page.Changes[n].LSN < page.Changes[n-1].LSN {
			fail("change %d comes before an earlier one", n)
		}
		if g.LSN != e.lsn || g.Time.Unix() != e.ts || !bytes.Equal(g.Current, e.current) || g.Op != e.op || g.Expired != e.expired || !bytes.Equal(g.Previous, e.previous) {
			fail("change %d is %s", n, changes([]feed.Change{g}))
		}
		if e.op == feed.Delete && (g.Current != nil || g.DeletedID != e.id.id || g.DeletedKey.String() != e.id.key) {
			fail("delete %d names %q %s", n, g.DeletedID, g.DeletedKey)
		}
		version := fmt.Sprint(e.id, e.lsn, e.op, string(e.current))
		if f.seen[version]++; f.seen[version] > 1 {
			fail("change %d was delivered before", n)
		}
	}
}

func changes(cs []feed.Change) string {
	var b strings.Builder
	for _, c := range cs {
		fmt.Fprintf(&b, "\n  %v %d %v %s <- %s expired=%v", c.Op, c.LSN, c.Time.Unix(), c.Current, c.Previous, c.Expired)
	}
	return b.String()
}

// drain reads all cursors to the end. It then checks that the follower has seen every
// change since its start, unless a later version has replaced it.
func (f *follower) drain() {
	w := f.w
	for more := true; more; {
		more = false
		for _, c := range slices.Clone(f.cursors) {
			more = f.page(c) || more
		}
	}
	if f.lost {
		return // the follower has skipped changes past the retention
	}
	missing := func(e event) {
		if f.seen[fmt.Sprint(e.id, e.lsn, e.op, string(e.current))] == 0 {
			w.t.Fatalf("%v of %v never saw %v at LSN %d: %s", f.mode, f.scope, e.id, e.lsn, e.current)
		}
	}
	for n, e := range w.events {
		if n < f.since || e.ts < f.sinceTS && f.sinceTS < 1<<62 || e.lsn <= f.sinceLSN || !f.scope.holds(w, e.key) {
			continue
		}
		if f.mode == feed.AllVersionsAndDeletes {
			missing(e)
		} else if i := w.visible(e.id); i != nil && i.lsn == e.lsn && e.op != feed.Delete && bytes.Equal(i.stored(), e.current) {
			e.op = feed.Upsert
			missing(e)
		}
	}
}

// audit reads the container's feed of all versions. It adds the writes that the model did
// not make, which are the deletes of the purge, to the model.
func (w *world) audit() {
	f := w.auditor
	if f == nil {
		return
	}
	for more := true; more; {
		more = false
		for _, c := range slices.Clone(f.cursors) {
			more = f.auditPage(c) || more
		}
	}
}

// auditPage reads one page for audit and reports whether it must be called again. A
// change that the model does not have must be the delete of an expired item.
func (f *follower) auditPage(c *cursor) bool {
	w := f.w
	page, err := w.src.Read(w.t.Context(), feed.Request{Partition: c.partition, Range: c.rng, From: c.from, Mode: f.mode, MaxItems: 100})
	var gone *feed.GoneError
	if errors.As(err, &gone) {
		f.divide(c)
		return true
	}
	if err != nil {
		w.t.Fatalf("audit: %v", err)
	}
	for _, g := range page.Changes {
		known := slices.ContainsFunc(w.events, func(e event) bool { return e.lsn == g.LSN && e.id.id == idOf(w, g) })
		if known {
			continue
		}
		at := itemID{g.DeletedKey.String(), g.DeletedID}
		i := w.items[at]
		if g.Op != feed.Delete || !g.Expired || i == nil || !w.expired(i) {
			w.t.Fatalf("no step wrote this: %s; the model has %+v", changes([]feed.Change{g}), i)
		}
		w.logf("purged %v at LSN %d", at, g.LSN)
		delete(w.items, at)
		w.events = append(w.events, event{
			op: feed.Delete, id: at, key: i.key, point: w.point(i.key), lsn: g.LSN, ts: g.Time.Unix(), previous: i.stored(), expired: true,
		})
		// The partitions are read one after the other, so the deletes must be sorted by
		// their LSNs.
		slices.SortStableFunc(w.events, func(a, b event) int { return cmp.Compare(a.lsn, b.lsn) })
	}
	c.from, c.known, c.after = feed.After(page.Continuation), true, page.LSN
	return len(page.Changes) > 0
}

func idOf(w *world, c feed.Change) string {
	id, err := c.ID()
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

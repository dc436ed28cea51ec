package engine_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
)

// expected returns the events of the model that a read at c must return, up to the
// position to. If to is nil, they are all later ones.
func (f *follower) expected(c *cursor, to marks) []event {
	w := f.w
	s := scope{c.rng, f.scope.key}
	due := func(point string, lsn, ts int64) bool {
		switch {
		case to != nil && lsn > to.at(point):
			return false
		case c.known:
			return lsn > c.after.at(point)
		case ts < f.sinceTS:
			return false
		}
		return lsn > f.since.at(point)
	}
	var events []event
	if f.mode == feed.AllVersionsAndDeletes {
		for _, e := range w.events {
			if due(e.point, e.lsn, e.ts) && s.holds(w, e.key) {
				events = append(events, e)
			}
		}
		return events
	}
	for id, i := range w.items {
		if due(w.point(i.key), i.lsn, i.ts) && w.visible(id) != nil && s.holds(w, i.key) {
			events = append(events, event{id: id, key: i.key, point: w.point(i.key), lsn: i.lsn, ts: i.ts, current: i.stored()})
		}
	}
	return events
}

// compare checks that a page has exactly the changes that the model expects. The page
// begins at c and ends at the position to. If the page is empty, the model must have no
// later change.
func (f *follower) compare(c *cursor, r feed.Request, page feed.Page, to marks) {
	w := f.w
	want := f.expected(c, to)
	fail := func(format string, args ...any) {
		w.t.Helper()
		w.t.Fatalf("%v of %+v up to %v: %s\npage %v\nwant %v", f.mode, r, to, fmt.Sprintf(format, args...), changes(page.Changes), want)
	}
	if len(page.Changes) != len(want) {
		fail("%d changes, want %d", len(page.Changes), len(want))
	}
	if len(want) == 0 {
		if rest := f.expected(c, nil); len(rest) > 0 {
			fail("the page is empty, but %d changes remain", len(rest))
		}
		return
	}
	f.checkOrder(c, page.Changes, fail)
	// Transactions with the same LSN may come in any order, and in latest version mode
	// the changes of a transaction, too. So both lists are sorted.
	got := slices.Clone(page.Changes)
	byText := func(a, b []byte) int {
		if f.mode == feed.AllVersionsAndDeletes {
			return 0
		}
		return bytes.Compare(a, b)
	}
	slices.SortStableFunc(got, func(a, b feed.Change) int {
		return cmp.Or(cmp.Compare(a.LSN, b.LSN), cmp.Compare(w.pointOf(a), w.pointOf(b)), byText(a.Current, b.Current))
	})
	slices.SortStableFunc(want, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.lsn, b.lsn), cmp.Compare(a.point, b.point), byText(a.current, b.current))
	})
	for n, g := range got {
		e := want[n]
		if g.LSN != e.lsn || g.Time.Unix() != e.ts || !bytes.Equal(g.Current, e.current) || g.Op != e.op || g.Expired != e.expired || !bytes.Equal(g.Previous, e.previous) {
			fail("change %d is %s", n, changes([]feed.Change{g}))
		}
		if e.op == feed.Delete && (g.Current != nil || g.DeletedID != e.id.id || g.DeletedKey.String() != e.key.String()) {
			fail("delete %d names %q %s", n, g.DeletedID, g.DeletedKey)
		}
		version := fmt.Sprint(e.id, e.lsn, e.op, string(e.current))
		if f.seen[version]++; f.seen[version] > 1 {
			fail("change %d was delivered before", n)
		}
	}
}

// checkOrder checks that the LSNs of a page never decrease within a partition, and within
// a range of keys that began at another position than the keys before it. The changes of a
// transaction must be together.
func (f *follower) checkOrder(c *cursor, page []feed.Change, fail func(format string, args ...any)) {
	w := f.w
	ps, from := w.partitions(), c.begin
	if c.known {
		from = c.after
	}
	type part struct {
		id   string
		mark int
	}
	type unit struct {
		lsn   int64
		point string
	}
	last, units := map[part]int64{}, map[unit]int{}
	for n, g := range page {
		point := w.pointOf(g)
		at := part{id: ps[slices.IndexFunc(ps, func(p feed.Partition) bool { return p.Range.Holds(point) })].ID}
		at.mark = from.find(point)
		if g.LSN < last[at] {
			fail("change %d comes before an earlier one", n)
		}
		last[at] = g.LSN
		u := unit{g.LSN, point}
		if before, known := units[u]; known && before != n-1 {
			fail("change %d is apart from the others of its transaction", n)
		}
		units[u] = n
	}
}

// pointOf returns the effective partition key of a change's item.
func (w *world) pointOf(c feed.Change) string {
	if c.Op == feed.Delete {
		return w.point(c.DeletedKey)
	}
	point, known := w.points[string(c.Current)]
	if !known {
		w.t.Fatalf("no step wrote this: %s", changes([]feed.Change{c}))
	}
	return point
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
		return // the follower has skipped changes past the retention, or lost ones
	}
	missing := func(e event) {
		if f.seen[fmt.Sprint(e.id, e.lsn, e.op, string(e.current))] == 0 {
			w.t.Fatalf("%v of %v never saw %v at LSN %d: %s", f.mode, f.scope, e.id, e.lsn, e.current)
		}
	}
	for _, e := range w.events {
		if e.ts < f.sinceTS || e.lsn <= f.since.at(e.point) || !f.scope.holds(w, e.key) {
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
		point := w.pointOf(g)
		known := slices.ContainsFunc(w.events, func(e event) bool { return e.lsn == g.LSN && e.point == point && e.id.id == idOf(w, g) })
		if known {
			continue
		}
		at := w.item(g.DeletedKey, g.DeletedID)
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
		// their times.
		slices.SortStableFunc(w.events, func(a, b event) int { return cmp.Compare(a.ts, b.ts) })
	}
	c.from, c.known, c.after = feed.After(page.Continuation), true, marksOf(w, page.Continuation)
	return len(page.Changes) > 0
}

func idOf(w *world, c feed.Change) string {
	id, err := c.ID()
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

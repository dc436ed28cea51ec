package engine_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// stepItems reads all items of a random scope page by page, and compares them with the
// model. Between pages it may split and merge partitions, but it writes nothing.
func (w *world) stepItems() {
	s := w.someScope()
	prefix := []string{"", "", "i", "i1", "x"}[w.rng.IntN(5)]
	visits := w.rng.IntN(2) == 0
	r := engine.ItemsRequest{ItemsRequest: storetype.ItemsRequest{Key: s.key, Range: s.rng, IDPrefix: prefix}, Sets: w.someSets()}
	var got []string
	moved := false // whether partitions were split or merged between two pages
	for pages := 0; ; pages++ {
		r.MaxItems = 1 + w.rng.IntN(7)
		if w.rng.IntN(4) == 0 {
			r.MaxBytes = 1 + w.rng.IntN(1000)
		}
		n := len(got)
		var next string
		if visits {
			got, next = w.visitItems(r, got)
		} else {
			got, next = w.pageOfItems(r, got)
		}
		if len(got)-n > r.MaxItems || pages > 200 || next != "" && next == r.Continuation {
			w.t.Fatalf("items %+v: page %d has %d items and the continuation %q", r, pages, len(got)-n, next)
		}
		if r.Continuation = next; next == "" {
			break
		}
		if w.rng.IntN(8) == 0 {
			w.stepTopology()
			moved = true
		}
	}
	w.compareItems(s, r, got, moved)
}

// someSets returns nil half of the time, and otherwise up to four random sets of items.
func (w *world) someSets() (sets []engine.ItemSet) {
	if w.rng.IntN(2) == 0 {
		return nil
	}
	sets = []engine.ItemSet{}
	for range w.rng.IntN(5) {
		id := w.someID()
		set := engine.ItemSet{From: id, To: id + "\x00"}
		if w.rng.IntN(2) == 0 {
			set.From, set.To = []string{"", "i", "i1", "i3"}[w.rng.IntN(4)], []string{"", "i2", "i3", "i9"}[w.rng.IntN(4)]
		}
		if w.rng.IntN(4) > 0 {
			set.Key = w.someKey()
		}
		sets = append(sets, set)
	}
	return sets
}

// inSets reports whether one of the sets has the item with a key and an id. If sets is
// nil, every item is selected.
func (w *world) inSets(sets []engine.ItemSet, key feed.PartitionKey, id string) bool {
	return sets == nil || slices.ContainsFunc(sets, func(s engine.ItemSet) bool {
		return (s.Key == nil || w.point(s.Key) == w.point(key)) && id >= s.From && (s.To == "" || id < s.To)
	})
}

// compareItems checks that got has the bodies of exactly the items that the scope and the
// request select. Unless partitions have moved meanwhile, they must come one partition
// after the other: in the order of their numbers if the scope has the whole partition or
// one key, and otherwise sorted by key before.
func (w *world) compareItems(s scope, r engine.ItemsRequest, got []string, moved bool) {
	type item struct {
		partition   int
		point, body string
		number      uint32
	}
	ps := w.partitions()
	var want []item
	for id, i := range w.items {
		if w.visible(id) == nil || !s.holds(w, i.key) || !strings.HasPrefix(id.id, r.IDPrefix) || !w.inSets(r.Sets, i.key, id.id) {
			continue
		}
		at := item{point: w.point(i.key), body: string(i.body), number: i.number(w.t)}
		at.partition = slices.IndexFunc(ps, func(p feed.Partition) bool { return p.Range.Holds(at.point) })
		if s.key == nil && s.rng.OrFull().Contains(ps[at.partition].Range) {
			at.point = ""
		}
		want = append(want, at)
	}
	slices.SortFunc(want, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.point, b.point), cmp.Compare(a.number, b.number))
	})
	var bodies []string
	for _, i := range want {
		bodies = append(bodies, i.body)
	}
	if moved {
		slices.Sort(bodies)
		slices.Sort(got)
	}
	if !slices.Equal(got, bodies) {
		w.t.Fatalf("items of %v with %+v: got\n%s\nwant\n%s", s, r, strings.Join(got, "\n"), strings.Join(bodies, "\n"))
	}
}

// number returns the item's document number, which its rid contains.
func (i *modelItem) number(t *testing.T) uint32 {
	var doc struct {
		RID string `json:"_rid"`
	}
	if err := json.Unmarshal(i.body, &doc); err != nil {
		t.Fatal(err)
	}
	b, err := layout.RIDEncoding.DecodeString(doc.RID)
	if err != nil || len(b) != 16 {
		t.Fatalf("the rid %q: %v", doc.RID, err)
	}
	return binary.BigEndian.Uint32(b[8:])
}

// pageOfItems reads a page with Items. It returns got with the bodies of the items
// appended, and the page's continuation.
func (w *world) pageOfItems(r engine.ItemsRequest, got []string) ([]string, string) {
	page, err := w.c.Items(w.t.Context(), r)
	if err != nil {
		w.t.Fatalf("items %+v: %v", r, err)
	}
	for _, i := range page.Items {
		got = append(got, string(i.Body))
	}
	return got, page.Continuation
}

// visitItems reads a page with VisitItems, and stops at a random item. It checks each
// visited item. It returns got with the bodies appended, and the page's continuation.
func (w *world) visitItems(r engine.ItemsRequest, got []string) ([]string, string) {
	stop, n, next := w.rng.IntN(12), 0, ""
	page, err := w.c.VisitItems(w.t.Context(), r, func(v *engine.VisitedItem) (bool, error) {
		n++
		item := v.Item()
		if string(item.Body) != string(v.Body) || item.LSN != v.LSN || !strings.Contains(string(v.Body), fmt.Sprintf(`"id":%q`, v.ID)) {
			w.t.Errorf("visit of %q: %+v", v.ID, item)
		}
		if i := w.itemOf(string(v.ID), v.Body); i == nil || i.etag != item.ETag || i.lsn != item.LSN || i.ts != item.Modified.Unix() {
			w.t.Errorf("visit of %q: %+v, want %+v", v.ID, item, i)
		}
		got = append(got, string(item.Body))
		next = v.Continuation()
		return n != stop, nil
	})
	if err != nil || len(page.Items) > 0 {
		w.t.Fatalf("visit %+v: %d items, %v", r, len(page.Items), err)
	}
	if n == stop && page.Continuation != next {
		w.t.Fatalf("visit %+v stopped after %q, but its continuation is %q", r, next, page.Continuation)
	}
	return got, page.Continuation
}

// itemOf returns the item with an id and a document, or nil.
func (w *world) itemOf(id string, body []byte) *modelItem {
	for at, i := range w.items {
		if at.id == id && bytes.Equal(i.body, body) {
			return i
		}
	}
	return nil
}

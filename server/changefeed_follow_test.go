package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// follower reads a change feed as SDKs do. It has a list of key ranges, each with an
// etag, and reads each range from the partition that contains it.
//
// After a 410 it lists the partitions again. If the partition of a range was split, the
// range is divided among the children, which all resume from its etag. After a merge the
// ranges stay the same, and each is read as a part of the merged partition.
type follower struct {
	ts     *testServer
	mode   headers
	live   []keyRange
	ranges []followed
	// seen holds the highest version of each document that has arrived. got counts how
	// often each version has arrived.
	seen map[string]int
	got  map[string]int
}

type followed struct {
	keys feed.Range
	etag string
}

func newFollower(ts *testServer, mode headers) *follower {
	f := &follower{ts: ts, mode: mode, seen: map[string]int{}, got: map[string]int{}}
	f.refresh()
	for _, r := range f.live {
		keys := feed.Range{Min: r.MinInclusive, Max: r.MaxExclusive}
		a := ts.read(mode, inRange(r.ID), after("*")).want(304)
		f.ranges = append(f.ranges, followed{keys, a.header.Get("Etag")})
	}
	return f
}

func (f *follower) refresh() {
	var list keyRanges
	f.ts.do("GET", ordersRanges, nil, "").want(200).decode(&list)
	f.live = list.Ranges
}

// step reads one page of range number i. more reports whether the page had documents.
func (f *follower) step(i int) (more bool) {
	r := f.ranges[i]
	var parts []followed
	for _, p := range f.live {
		keys := r.keys.Intersect(feed.Range{Min: p.MinInclusive, Max: p.MaxExclusive})
		if !keys.IsEmpty() {
			parts = append(parts, followed{keys, r.etag})
		}
	}
	if len(parts) > 1 {
		f.ranges = append(append(f.ranges[:i:i], parts...), f.ranges[i+1:]...)
		return true
	}
	var id string
	h := headers{}
	for _, p := range f.live {
		if whole := (feed.Range{Min: p.MinInclusive, Max: p.MaxExclusive}); whole.Contains(r.keys) {
			id = p.ID
			if whole != r.keys {
				h = headers{"x-ms-start-epk": r.keys.Min, "x-ms-end-epk": r.keys.Max, "x-ms-read-key-type": "EffectivePartitionKeyRange"}
			}
		}
	}
	a := f.ts.read(f.mode, h, inRange(id), after(r.etag), items(5))
	if a.status == 410 {
		a.want(410, wire.SubPartitionGone)
		f.refresh()
		return true
	}
	f.ranges[i].etag = a.header.Get("Etag")
	for _, item := range f.page(a) {
		f.seen[item.ID] = max(f.seen[item.ID], item.V)
		f.got[fmt.Sprintf("%s/%d", item.ID, item.V)]++
	}
	return a.status == 200
}

// page returns the documents in an answer, in the follower's change feed mode.
func (f *follower) page(a response) []feedItem {
	if a.status == 304 || f.mode == nil {
		return a.page()
	}
	var all []feedItem
	for _, v := range a.versions() {
		all = append(all, v.Current)
	}
	return all
}

// drain reads all ranges until none has a new document.
func (f *follower) drain() {
	for idle := false; !idle; {
		idle = true
		for i := 0; i < len(f.ranges); i++ {
			for f.step(i) {
				idle = false
			}
		}
	}
}

// A follower reads a feed while documents are written and partitions are split and merged
// between its pages. In both modes, every change must arrive exactly once.
func TestAReaderThatFollowsSplitsAndMergesMissesNothing(t *testing.T) {
	for name, mode := range map[string]headers{
		"latest":   nil,
		"versions": {"A-IM": "Full-Fidelity Feed", "x-ms-cosmos-changefeed-wire-format-version": "2021-09-15"},
	} {
		t.Run(name, func(t *testing.T) {
			ts := newTestServer(t, Options{})
			c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: 2, Retention: 1 << 40})
			f := newFollower(ts, mode)
			r := rand.New(rand.NewPCG(3, uint64(len(name))))
			last := map[string]int{}
			for round := range 120 {
				for range 1 + r.IntN(8) {
					id := fmt.Sprint(r.IntN(60))
					last[id]++
					put(t, c, `{"id":"%s","pk":"k%s","v":%d}`, id, id, last[id])
				}
				for range r.IntN(4) {
					f.step(r.IntN(len(f.ranges)))
				}
				live, err := c.Partitions(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				at := r.IntN(len(live))
				switch {
				case round%3 == 0 && len(live) < 8:
					split(t, c, live[at].ID)
				case round%3 == 1 && at+1 < len(live):
					merge(t, c, live[at].ID, live[at+1].ID)
				}
			}
			f.drain()
			for id, v := range last {
				if f.seen[id] != v {
					t.Errorf("document %s: version %d of %d arrived", id, f.seen[id], v)
				}
				if mode == nil {
					continue
				}
				for i := 1; i <= v; i++ {
					if f.got[fmt.Sprintf("%s/%d", id, i)] != 1 {
						t.Errorf("document %s: version %d arrived %d times", id, i, f.got[fmt.Sprintf("%s/%d", id, i)])
					}
				}
			}
			for version, n := range f.got {
				if n != 1 {
					t.Errorf("%s arrived %d times", strings.ReplaceAll(version, "/", ", version "), n)
				}
			}
		})
	}
}

package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/storetype"
)

// holeWidth is the number of LSNs that a restore leaves out.
const holeWidth = 1 << 32

// backup is a copy of a store, and the model at that moment.
type backup struct {
	fs             vfs.FS
	items          map[itemID]*modelItem
	events         []event
	ends           map[string]int64
	live           []feed.Partition
	merged, purges bool
	props          storetype.ContainerProperties
	auditor        []cursor
}

// usedNames has what a store has used before it was lost: no restored one may use it again.
type usedNames struct{ etags, rids, partitions map[string]bool }

// stepRestore makes a copy of the store at its first call. At the second one it loses the
// store, and restores the copy. Positions in the lost part of the log must be refused, and
// followers at other positions go on.
func (w *world) stepRestore() {
	if w.backup == nil {
		w.logf("backup")
		w.backup = w.copyStore()
		return
	}
	b := w.backup
	w.backup = nil
	w.logf("restore: last LSNs %v", b.ends)
	for _, e := range w.events {
		if len(e.current) > 0 {
			w.used.etags[fmt.Sprint(e.id, string(property(w.t, e.current, "_etag")))] = true
			w.used.rids[string(property(w.t, e.current, "_rid"))] = true
		}
	}
	for _, p := range w.partitions() {
		w.used.partitions[p.ID] = true
	}
	for _, p := range b.live {
		delete(w.used.partitions, p.ID)
	}
	if err := w.db.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.fs = b.fs
	w.o.FS = b.fs
	plan, err := engine.Restore(w.t.Context(), "db", w.o, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.open()
	c, err := w.db.Container(w.t.Context(), "db", "c")
	if err != nil {
		w.t.Fatal(err)
	}
	w.use(c)
	w.items, w.events, w.ends, w.merged, w.purges, w.props = b.items, b.events, b.ends, b.merged, b.purges, b.props
	known := map[string]bool{}
	for _, e := range w.events {
		if len(e.current) > 0 {
			known[string(property(w.t, e.current, "_rid"))] = true
		}
	}
	maps.DeleteFunc(w.used.rids, func(rid string, _ bool) bool { return known[rid] })
	if w.auditor != nil {
		w.auditor.cursors = nil
		for _, c := range b.auditor {
			w.auditor.cursors = append(w.auditor.cursors, &c)
		}
	}
	w.followers = slices.DeleteFunc(w.followers, func(f *follower) bool { return f.refused(b) })
	for _, f := range w.followers {
		// In latest version mode, a follower that lags may have passed an item whose next
		// version was lost. Its pages are still compared with the model.
		f.lost = f.lost || f.mode == feed.LatestVersion
	}
	for _, p := range plan.Containers[0].Partitions {
		w.ends[p.ID] = p.Next - 1
	}
	w.check()
}

// copyStore returns a copy of the store and of the model.
func (w *world) copyStore() *backup {
	b := &backup{
		fs: vfs.NewMem(), items: maps.Clone(w.items), events: slices.Clone(w.events), ends: map[string]int64{}, live: w.partitions(),
		merged: w.merged, purges: w.purges, props: w.props,
	}
	if _, err := vfs.Clone(w.fs, b.fs, "db", "db"); err != nil {
		w.t.Fatal(err)
	}
	stats, err := w.c.PartitionStats(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, s := range stats {
		b.ends[s.ID] = s.LSN
	}
	if w.auditor != nil {
		for _, c := range w.auditor.cursors {
			b.auditor = append(b.auditor, *c)
		}
	}
	return b
}

// refused reports whether a read of one of the follower's positions is refused, because it
// lies in the lost part of the log. It checks that exactly such positions are refused, and
// that the oldest position is the end of the restored log.
func (f *follower) refused(b *backup) bool {
	w := f.w
	for divided := true; divided; {
		divided = false
		for _, c := range slices.Clone(f.cursors) {
			_, _, err := f.read(feed.Request{Partition: c.partition, Range: c.rng, Key: f.scope.key, From: c.from, Mode: f.mode, MaxItems: 1})
			var gone *feed.GoneError
			if errors.As(err, &gone) {
				f.divide(c)
				divided = true
			}
		}
	}
	refused := false
	for _, c := range f.cursors {
		if c.from.Kind() != feed.StartContinuation {
			continue
		}
		_, _, err := f.read(feed.Request{Partition: c.partition, Range: c.rng, Key: f.scope.key, From: c.from, Mode: f.mode, MaxItems: 1})
		at := marksOf(w, c.from.Continuation())
		keys := c.rng.OrFull()
		if f.scope.key != nil {
			lo, hi := w.hash.Prefix(components(f.scope.key))
			keys = keys.Intersect(feed.Range{Min: lo, Max: hi})
		}
		beyond := false
		for _, p := range b.live {
			part := p.Range.Intersect(keys)
			if part.IsEmpty() {
				continue
			}
			beyond = beyond || at.at(part.Min) > b.ends[p.ID]
			for _, m := range at[1:] {
				beyond = beyond || part.Holds(m.border) && m.lsn > b.ends[p.ID]
			}
		}
		lost, ok := errors.AsType[*feed.HistoryLostError](err)
		if ended := ok && lost.Ended; ended != beyond || err != nil && !ok {
			w.t.Fatalf("%v of %v in the restored store, which ended at %v, from %v: %v", f.mode, keys, b.ends, c.from, err)
		}
		refused = refused || beyond
		if beyond && !strings.HasPrefix(string(lost.Oldest), `"`) {
			w.t.Fatalf("the oldest position is %s", lost.Oldest)
		}
	}
	return refused
}

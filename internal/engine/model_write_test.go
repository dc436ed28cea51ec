package engine_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

// conditions returns random values of IfMatch and IfNoneMatch for a write of item i,
// which is nil if the item does not exist.
func (w *world) conditions(i *modelItem) (match, none string) {
	switch w.rng.IntN(12) {
	case 0:
		match = "*"
	case 1:
		match = `"another"`
	case 2, 3:
		match = `"none"`
		if i != nil {
			match = i.etag
		}
	case 4:
		none = "*"
	}
	return match, none
}

// expect returns the error that the store must return for an operation on item i, or nil.
// i is nil if the item does not exist.
func expect(kind storetype.OpKind, i *modelItem, match, none string) (want error) {
	switch {
	case kind == storetype.OpCreate && i != nil:
		return storetype.ErrConflict
	case kind != storetype.OpCreate && kind != storetype.OpUpsert && i == nil:
		return feed.ErrNotFound
	case match != "" && (i == nil || match != "*" && match != i.etag):
		return storetype.ErrPreconditionFailed
	case none != "" && i != nil && (none == "*" || none == i.etag):
		if kind == storetype.OpRead {
			return storetype.ErrNotModified
		}
		return storetype.ErrPreconditionFailed
	}
	return nil
}

func (w *world) stepWrite() {
	key, id := w.someKey(), w.someID()
	kind := []storetype.OpKind{storetype.OpCreate, storetype.OpUpsert, storetype.OpUpsert, storetype.OpReplace, storetype.OpDelete}[w.rng.IntN(5)]
	at := w.item(key, id)
	match, none := w.conditions(w.visible(at))
	want := expect(kind, w.visible(at), match, none)
	body, ttl := w.body(key, id)
	given := w.sibling(key)
	o := storetype.WriteOptions{IfMatch: match, IfNoneMatch: none}
	if kind != storetype.OpDelete && w.rng.IntN(2) == 0 {
		given = nil
	}
	var res storetype.Result
	var err error
	switch kind {
	case storetype.OpCreate:
		res, err = w.c.Create(w.t.Context(), given, body, o)
	case storetype.OpUpsert:
		res, err = w.c.Upsert(w.t.Context(), given, body, o)
	case storetype.OpReplace:
		res, err = w.c.Replace(w.t.Context(), given, id, body, o)
	case storetype.OpDelete:
		res, err = w.c.Delete(w.t.Context(), given, id, o)
	case storetype.OpRead, storetype.OpChange:
	}
	w.logf("op %d %v match=%q none=%q: lsn %d, %v", kind, at, match, none, res.LSN, err)
	if !errors.Is(err, want) || want == nil && err != nil {
		w.t.Fatalf("operation %d on %v: %v, want %v", kind, at, err, want)
	}
	if err == nil {
		w.apply(kind, key, id, res, body, ttl, true)
	}
}

// apply checks the result of a successful write and records the write in the model. key is
// the one in the written document. first reports whether it is the first write of its
// transaction.
func (w *world) apply(kind storetype.OpKind, key feed.PartitionKey, id string, res storetype.Result, body []byte, ttl int, first bool) {
	at := w.item(key, id)
	old := w.visible(at)
	e := event{op: feed.Create, id: at, key: key, point: w.point(key), lsn: res.LSN, ts: w.now()}
	if n := len(w.events); n > 0 && e.ts < w.events[n-1].ts {
		w.t.Fatalf("_ts %d after _ts %d", e.ts, w.events[n-1].ts)
	}
	w.checkLSN(e.point, res, first)
	if stale := w.items[at]; stale != nil && old == nil {
		w.events = append(w.events, event{
			op: feed.Delete, id: at, key: stale.key, point: e.point, lsn: res.LSN, ts: e.ts, previous: stale.stored(), expired: true,
		})
	}
	if old != nil {
		e.op, e.previous = feed.Replace, old.stored()
	}
	if kind == storetype.OpDelete {
		e.op, e.key = feed.Delete, old.key
		delete(w.items, at)
		w.events = append(w.events, e)
		return
	}
	if res.Created != (old == nil) {
		w.t.Fatalf("%v: created is %v, but the old item was %v", at, res.Created, old)
	}
	i := &modelItem{key: key, body: slices.Clone(res.Body), etag: res.ETag, ts: e.ts, lsn: res.LSN, ttl: ttl}
	if res.Modified.Unix() != e.ts {
		w.t.Fatalf("%v was written at %v, but the clock is at %d", at, res.Modified, e.ts)
	}
	w.checkBody(i, body)
	if old != nil && !bytes.Equal(property(w.t, old.body, "_rid"), property(w.t, i.body, "_rid")) {
		w.t.Fatalf("%v: the replace changed _rid", at)
	}
	usedTag := w.used.etags[fmt.Sprint(at, string(property(w.t, i.body, "_etag")))]
	if usedTag || old == nil && w.used.rids[string(property(w.t, i.body, "_rid"))] {
		w.t.Fatalf("%v: the etag or the _rid was used before the restore: %s", at, i.body)
	}
	w.items[at] = i
	e.current = i.stored()
	w.points[string(e.current)] = e.point
	w.events = append(w.events, e)
}

// checkLSN checks that a write took the next LSN of the partition that has the point.
// Purges take LSNs, too.
func (w *world) checkLSN(point string, res storetype.Result, first bool) {
	ps := w.partitions()
	id := ps[slices.IndexFunc(ps, func(p feed.Partition) bool { return p.Range.Holds(point) })].ID
	next := w.ends[id]
	if first {
		next++
	}
	if res.Partition != id || res.LSN < next || res.LSN > next && !(w.purges && first) || res.End < res.LSN {
		w.t.Fatalf("partition %s, LSN %d, end %d; want partition %s, LSN %d", res.Partition, res.LSN, res.End, id, next)
	}
	w.ends[id] = res.LSN
}

func property(t *testing.T, body []byte, name string) json.RawMessage {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return m[name]
}

// checkBody checks that the stored document equals the sent body, apart from the system
// properties, and that it is canonical.
func (w *world) checkBody(i *modelItem, sent []byte) {
	var got, want map[string]any
	if err := errors.Join(json.Unmarshal(i.body, &got), json.Unmarshal(sent, &want)); err != nil {
		w.t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, i.body); err != nil || !bytes.Equal(compact.Bytes(), i.body) || bytes.Contains(i.body, []byte(":12.50")) {
		w.t.Fatalf("not canonical: %s (%v)", i.body, err)
	}
	if got["_etag"] != i.etag || got["_ts"] != float64(i.ts) || got["_lsn"] != nil {
		w.t.Fatalf("system properties: %s", i.body)
	}
	for _, m := range []map[string]any{got, want} {
		for _, name := range []string{"_rid", "_self", "_etag", "_attachments", "_ts"} {
			delete(m, name)
		}
	}
	g, _ := json.Marshal(got)
	s, _ := json.Marshal(want)
	if !bytes.Equal(g, s) {
		w.t.Fatalf("sent %s, stored %s", s, g)
	}
}

// stepBatch sends a random batch on one partition key. It computes the expected result on
// a copy of the model.
func (w *world) stepBatch() {
	key := w.someKey()
	shadow := &world{t: w.t, rng: w.rng, items: maps.Clone(w.items), events: w.events, props: w.props, paths: w.paths, hash: w.hash, db: w.db, value: w.value}
	var ops []storetype.Operation
	var keys []feed.PartitionKey // the key in the body of each operation
	var ttls []int
	failsAt, want := -1, error(nil)
	touched := map[string]bool{}
	for n := range 1 + w.rng.IntN(6) {
		id := w.someID()
		for touched[id] && w.rng.IntN(3) > 0 {
			id = w.someID()
		}
		kinds := []storetype.OpKind{storetype.OpCreate, storetype.OpUpsert, storetype.OpUpsert, storetype.OpReplace, storetype.OpDelete, storetype.OpRead, storetype.OpChange}
		op := storetype.Operation{Kind: kinds[w.rng.IntN(len(kinds))], ID: id}
		i := shadow.visible(w.item(key, id))
		// If the batch has already written the item, the item's new ETag cannot be
		// predicted.
		if !touched[id] {
			op.IfMatch, op.IfNoneMatch = w.conditions(i)
		}
		own := w.sibling(key)
		body, ttl := w.body(own, id)
		switch op.Kind {
		case storetype.OpCreate, storetype.OpUpsert, storetype.OpReplace:
			op.Body = body
		case storetype.OpChange:
			op.Change = func([]byte) ([]byte, error) { return body, nil }
		case storetype.OpDelete, storetype.OpRead:
		}
		ops, keys, ttls = append(ops, op), append(keys, own), append(ttls, ttl)
		if failsAt < 0 {
			if want = expect(op.Kind, i, op.IfMatch, op.IfNoneMatch); want != nil {
				failsAt = n
			}
		}
		touched[id] = true
		switch op.Kind {
		case storetype.OpDelete:
			delete(shadow.items, w.item(key, id))
		case storetype.OpRead:
		default:
			shadow.items[w.item(key, id)] = &modelItem{ts: w.now()}
		}
	}
	results, err := w.c.Batch(w.t.Context(), key, ops)
	w.logf("batch of %d on %s: %v", len(ops), key, err)
	w.judgeBatch(ops, keys, ttls, results, err, failsAt, want)
}

func (w *world) judgeBatch(ops []storetype.Operation, keys []feed.PartitionKey, ttls []int, results []storetype.Result, err error, failsAt int, want error) {
	if failsAt >= 0 {
		var batch *storetype.BatchError
		if !errors.As(err, &batch) || batch.Index != failsAt || !errors.Is(err, want) {
			w.t.Fatalf("batch: %v, want operation %d to fail with %v", err, failsAt, want)
		}
		return
	}
	if err != nil || len(results) != len(ops) {
		w.t.Fatalf("batch of %d: %d results, %v", len(ops), len(results), err)
	}
	lsn := int64(0)
	for n, op := range ops {
		if op.Kind == storetype.OpRead {
			i := w.visible(w.item(keys[n], op.ID))
			if !bytes.Equal(results[n].Body, i.body) || results[n].ETag != i.etag {
				w.t.Fatalf("operation %d of the batch read %s, want %s", n, results[n].Body, i.body)
			}
			continue
		}
		if lsn != 0 && results[n].LSN != lsn {
			w.t.Fatalf("operation %d of the batch has LSN %d, another one has LSN %d", n, results[n].LSN, lsn)
		}
		first := lsn == 0
		lsn = results[n].LSN
		body := op.Body
		if op.Kind == storetype.OpChange {
			body, _ = op.Change(nil)
		}
		w.apply(op.Kind, keys[n], op.ID, results[n], body, ttls[n], first)
	}
}

func (w *world) stepRead() {
	key, id := w.someKey(), w.someID()
	i := w.visible(w.item(key, id))
	none := ""
	if i != nil && w.rng.IntN(3) == 0 {
		none = i.etag
	}
	res, err := w.c.Read(w.t.Context(), key, id, storetype.ReadOptions{IfNoneMatch: none})
	want := expect(storetype.OpRead, i, "", none)
	if !errors.Is(err, want) || want == nil && err != nil {
		w.t.Fatalf("read %s %q: %v, want %v", key, id, err, want)
	}
	if err == nil && (!bytes.Equal(res.Body, i.body) || res.ETag != i.etag || res.LSN != i.lsn || res.Modified.Unix() != i.ts) {
		w.t.Fatalf("read %s %q: %+v, want %+v", key, id, res, i)
	}
}

// stepStats compares the statistics of each partition with the model. Expired items may
// be purged or not, so the number of items has a lower and an upper bound. Check verifies
// the exact numbers.
func (w *world) stepStats() {
	stats, err := w.c.PartitionStats(w.t.Context())
	parts := w.partitions()
	if err != nil || len(stats) != len(parts) {
		w.t.Fatalf("got statistics of %d partitions, %v, want %d", len(stats), err, len(parts))
	}
	for n, p := range parts {
		var least, most int64
		end := int64(0)
		for id, i := range w.items {
			if p.Range.Holds(w.point(i.key)) {
				most++
				end = max(end, i.lsn)
				if w.visible(id) != nil {
					least++
				}
			}
		}
		s := stats[n]
		if s.ID != p.ID || s.Range != p.Range || s.Items < least || s.Items > most || s.LSN < end || (s.Bytes > 0) != (s.Items > 0) {
			w.t.Fatalf("statistics of %v: %+v; there are %d to %d items up to LSN %d", p, s, least, most, end)
		}
	}
}

package replicate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
)

// This file is a model test of a copy under another key. Batches are repeated, cut off in
// the middle, interleaved with batches of other leases, and followed by new changes. The
// test checks two properties:
//
//   - At rest the target has exactly the source's documents, each only under its last key.
//     In latest version mode the source has no deletes.
//   - A run never stops at a collision that the source does not have.

// world is the state of one model run, in memory: a source of two partitions, its feed,
// and a target.
type world struct {
	draw     *rand.Rand
	rules    rules
	versions bool

	source  map[string]json.RawMessage // by source key and id
	log     []feed.Change              // the changes of both partitions, in the order of their LSNs
	target  map[string]stored          // by target key and id
	etags   int
	failing bool
}

type stored struct {
	body json.RawMessage
	etag string
}

func (w *world) partition(c feed.Change) int {
	key := c.DeletedKey
	if key == nil {
		d, err := w.rules.parse(c.Current)
		if err != nil {
			panic(err) // an error would be a mistake in the test
		}
		key = d.source.PartitionKey
	}
	return int(key.String()[2]) % 2
}

// change makes one random change of the source. It never gives two documents the same id
// and target key.
func (w *world) change() {
	key, id := fmt.Sprint(w.draw.IntN(4)), fmt.Sprint(w.draw.IntN(2))
	name := key + "/" + id
	before := w.source[name]
	lsn := int64(len(w.log) + 1)
	if before != nil && w.versions && w.draw.IntN(4) == 0 {
		delete(w.source, name)
		w.log = append(w.log, feed.Change{Op: feed.Delete, LSN: lsn, Previous: w.previous(before), DeletedID: id, DeletedKey: feed.PartitionKey{key}})
		return
	}
	to := fmt.Sprint("T", w.draw.IntN(5))
	for other, body := range w.source {
		if other != name && strings.HasSuffix(other, "/"+id) && strings.Contains(string(body), to) {
			return
		}
	}
	doc := json.RawMessage(fmt.Sprintf(`{"id":%q,"a":%q,"b":%q,"n":%d}`, id, key, to, lsn))
	w.source[name] = doc
	c := feed.Change{LSN: lsn, Current: doc}
	if w.versions {
		c.Op = feed.Create
		if before != nil {
			c.Op, c.Previous = feed.Replace, w.previous(before)
		}
	}
	w.log = append(w.log, c)
}

// previous returns the previous image of a change, or nil as some accounts do.
func (w *world) previous(body json.RawMessage) json.RawMessage {
	if w.rules.moves && w.draw.IntN(3) == 0 {
		return nil
	}
	return body
}

// page returns the next page of a partition's feed, after an LSN.
func (w *world) page(partition int, after int64) []feed.Change {
	var page []feed.Change
	for i, c := range w.log {
		if c.LSN <= after || w.partition(c) != partition {
			continue
		}
		if !w.versions { // the feed shows only the last write of a document
			name := w.name(c)
			if slices.ContainsFunc(w.log[i+1:], func(later feed.Change) bool { return w.name(later) == name }) {
				continue
			}
		}
		if page = append(page, c); len(page) == 3 {
			break
		}
	}
	return page
}

func (w *world) name(c feed.Change) string {
	next, _, err := w.rules.read(c)
	if err != nil {
		panic(err) // an error would be a mistake in the test
	}
	return next.name()
}

// sourceBulk and targetBulk are the source and the target as the writer reaches them.
type (
	sourceBulk struct{ *world }
	targetBulk struct{ *world }
)

func (s sourceBulk) Do(_ context.Context, ops []cosmos.BulkOperation) ([]cosmos.BulkResult, error) {
	results := make([]cosmos.BulkResult, len(ops))
	for i, o := range ops {
		key, _ := o.Key[0].(string)
		body := s.source[key+"/"+o.ID]
		results[i] = cosmos.BulkResult{Status: http.StatusOK, Body: body}
		if body == nil {
			results[i].Status = http.StatusNotFound
		}
	}
	return results, nil
}

var errLost = errors.New("the answer is lost")

func (t targetBulk) Do(_ context.Context, ops []cosmos.BulkOperation) ([]cosmos.BulkResult, error) {
	results := make([]cosmos.BulkResult, len(ops))
	lost := t.failing && t.draw.IntN(4) == 0
	for _, i := range t.draw.Perm(len(ops)) {
		if lost && t.draw.IntN(2) == 0 {
			continue // the request fails and is not carried out
		}
		results[i] = t.one(ops[i])
	}
	if lost {
		return nil, errLost
	}
	return results, nil
}

func (t targetBulk) one(o cosmos.BulkOperation) cosmos.BulkResult {
	id := o.ID
	if o.Body != nil {
		d, err := t.rules.parse(o.Body)
		if err != nil || d.target.String() != o.Key.String() {
			return cosmos.BulkResult{Status: http.StatusBadRequest}
		}
		id = d.id
	}
	at := o.Key.String() + "/" + id
	was, there := t.target[at]
	switch {
	case o.Kind == cosmos.BulkCreate && there:
		return cosmos.BulkResult{Status: http.StatusConflict}
	case o.Kind != cosmos.BulkCreate && o.Kind != cosmos.BulkUpsert && !there:
		return cosmos.BulkResult{Status: http.StatusNotFound}
	case o.IfMatch != "" && o.IfMatch != was.etag:
		return cosmos.BulkResult{Status: http.StatusPreconditionFailed}
	case o.Kind == cosmos.BulkRead:
		return cosmos.BulkResult{Status: http.StatusOK, Body: was.body, ETag: was.etag}
	case o.Kind == cosmos.BulkDelete:
		delete(t.target, at)
		return cosmos.BulkResult{Status: http.StatusNoContent}
	}
	t.etags++
	t.target[at] = stored{o.Body, fmt.Sprint(t.etags)}
	return cosmos.BulkResult{Status: http.StatusCreated, ETag: fmt.Sprint(t.etags)}
}

// find implements finder.
func (t targetBulk) find(_ context.Context, ids []string) ([]found, error) {
	var all []found
	for _, s := range t.target {
		d, err := t.rules.parse(s.body)
		if err != nil {
			return nil, err
		}
		if slices.Contains(ids, d.id) {
			all = append(all, found{d, s.etag})
		}
	}
	return all, nil
}

// lane is the state of one lease: the checkpoint, the position up to which changes were
// read, and a failed batch. The failed batch is delivered again without changes.
type lane struct {
	checkpoint, position int64
	again                []feed.Change
}

func (l *lane) step(t *testing.T, w *world, x *writer, partition int) (moved bool) {
	t.Helper()
	if w.failing && w.draw.IntN(5) == 0 { // the host crashes, and another one resumes at the checkpoint
		l.position, l.again = l.checkpoint, nil
	}
	batch := l.again
	if batch == nil {
		batch = w.page(partition, l.position)
	}
	if len(batch) == 0 {
		return false
	}
	rng := feed.Full().Cut([]string{"80"})[partition]
	err := x.handle(t.Context(), w.rules, &changefeed.Batch{Changes: batch, Range: rng})
	switch {
	case errors.Is(err, errLost), errors.Is(err, errContended):
		l.again = batch
		return true
	case err != nil:
		t.Fatalf("%v\nsource %s\ntarget %s", err, w.source, w.target)
	}
	l.again, l.position = nil, batch[len(batch)-1].LSN
	if w.draw.IntN(3) > 0 {
		l.checkpoint = l.position
	}
	return true
}

func TestModelOfACopyUnderAnotherKey(t *testing.T) {
	for seed := range uint64(600) {
		w := &world{draw: rand.New(rand.NewPCG(seed, 1)), source: map[string]json.RawMessage{}, target: map[string]stored{}, failing: true}
		w.versions = seed%2 == 1
		w.rules = rules{shape: keyed(t, "/a", "/b"), rekeyed: true, moves: true, empty: true}
		if !w.versions { // in all versions mode, the feed begins with the replication
			for range w.draw.IntN(12) {
				w.change()
			}
			w.rules.ends = []protocol.End{{Range: feed.Full(), LSN: int64(len(w.log))}}
		}
		x := &writer{source: sourceBulk{w}, target: targetBulk{w}, finder: targetBulk{w}}
		var lanes [2]lane
		for range 60 {
			if n := w.draw.IntN(4); n < 2 {
				lanes[n].step(t, w, x, n)
			} else {
				w.change()
			}
		}
		w.failing = false
		for range 200 {
			a, b := lanes[0].step(t, w, x, 0), lanes[1].step(t, w, x, 1)
			if !a && !b {
				break
			}
		}
		want, got := map[string]string{}, map[string]string{}
		for _, body := range w.source {
			d, err := w.rules.parse(body)
			if err != nil {
				t.Fatal(err)
			}
			want[d.target.String()+"/"+d.id] = string(body)
		}
		for at, s := range w.target {
			got[at] = string(s.body)
		}
		if !maps.Equal(want, got) {
			t.Fatalf("seed %d: the source has %v\nthe target has %v", seed, want, got)
		}
	}
}

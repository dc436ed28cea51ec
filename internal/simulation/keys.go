package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/changefeed-go/changefeed/feed"
)

// keyCount is the number of partition keys of a run.
const keyCount = 60

// key returns a partition key of the run by its number, which is below keyCount. A
// hierarchical key has one of four first components, which 15 keys share.
func (s *scenario) key(n int) feed.PartitionKey {
	first := fmt.Sprintf("t%d", n%4)
	switch s.levels {
	case 2:
		return feed.PartitionKey{first, float64(n / 4)}
	case 3:
		return feed.PartitionKey{first, float64(n / 4 % 5), []any{true, nil, feed.Undefined}[n/20]}
	}
	return feed.PartitionKey{fmt.Sprintf("k%d", n)}
}

// keyProperties are the properties of a document that hold the components of its key.
var keyProperties = []string{"pk", "pk2", "pk3"}

// document returns the document of an item.
func document(key feed.PartitionKey, id string) map[string]any {
	doc := map[string]any{"id": id}
	for i, component := range key {
		if component != feed.Undefined {
			doc[keyProperties[i]] = component
		}
	}
	return doc
}

// keyOf returns the EPK of the key of a change of this run.
func (w *world) keyOf(c feed.Change) string {
	if c.Current == nil && c.DeletedKey != nil {
		return w.engine.epk(c.DeletedKey)
	}
	item := c.Current
	if item == nil {
		item = c.Previous
	}
	var doc map[string]any
	if err := json.Unmarshal(item, &doc); err != nil {
		w.fails("a change cannot be decoded: %v", err)
	}
	key := make(feed.PartitionKey, len(w.keyPaths))
	for i, path := range w.keyPaths {
		component, known := doc[path[1:]]
		if !known {
			component = feed.Undefined
		}
		key[i] = component
	}
	return w.engine.epk(key)
}

// keyRange returns the range of the keys with one EPK.
func keyRange(epk string) feed.Range { return feed.Range{Min: epk, Max: epk + "!"} }

// keyPaths returns the partition key paths of the run's container.
func (s *scenario) paths() []string {
	var paths []string
	for _, name := range keyProperties[:max(s.levels, 1)] {
		paths = append(paths, "/"+name)
	}
	return paths
}

// split splits a partition. In runs with hierarchical keys, the new border is the EPK of a
// key or of a prefix, which n selects. Then split does nothing if no such EPK is inside
// the partition. recent is the range of keys that later changes concern.
func (r *run) split(ctx context.Context, p feed.Partition, n int, recent feed.Range) {
	e := r.world.engine
	if r.scenario.levels == 0 {
		r.changed(e.split(ctx, p.ID, ""), recent)
		return
	}
	var borders []string
	for i := range keyCount {
		key := r.scenario.key(i)
		for levels := range len(key) {
			if at := e.epk(key[:levels+1]); p.Range.Holds(at) && at > p.Range.Min {
				borders = append(borders, at)
			}
		}
	}
	if len(borders) == 0 {
		return
	}
	slices.Sort(borders)
	at := borders[(n>>8)%len(borders)]
	r.changed(e.split(ctx, p.ID, at), recent)
	if len(at) > len(e.epk(r.scenario.key(0)[:1])) {
		r.world.occurs(hierarchicalKeys)
	}
}

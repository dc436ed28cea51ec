package engine_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/internal/race"
	"github.com/changefeed-go/changefeed/storetype"
)

// The model test drives a store and a model of it in memory with the same random
// operations, on fake time, and compares every result. Properties:
//
//   - Create, upsert, replace, delete, read, batches and their conditions return what the
//     model expects. A failed batch changes nothing.
//   - An expired item is invisible at once, purged or not. A purge is visible only in all
//     versions mode, as one delete that is marked as an expiry.
//   - A page of a feed holds exactly the model's changes between its two positions, in
//     LSN order, byte for byte, and divides no transaction. This holds by partition, by
//     range of keys, by key and by prefix, in both modes, from every kind of start.
//   - The same holds for one page over all partitions that overlap a range. Such a page
//     is never gone, and its continuation is right for all these partitions.
//   - A reader of all items sees every item once that existed all the time. It reads by
//     scope and prefix of the id, page by page or by visits, resumes after any item, and
//     continues through splits and merges.
//   - A reader that follows its range through splits and merges misses nothing and sees
//     nothing twice.
//   - Exactly the writes from a second on come after the position before that second.
//   - After an older copy was restored, no ETag, _rid, LSN or partition ID is used again.
//     Exactly the positions in the lost part of the log are refused. All readers with
//     other positions go on.
//   - All of that holds after the store was closed and opened again, and Check finds
//     nothing.

var (
	modelSeeds = flag.Int("model.seeds", 0, "number of seeds that the model test runs; if 0, it is 60, or 10 with -short or -race")
	modelSeed  = flag.Uint64("model.seed", 0, "the only seed that the model test runs; if 0, the test runs as many as -model.seeds")
)

const modelSteps = 250

func TestModel(t *testing.T) {
	seeds := *modelSeeds
	if seeds == 0 {
		seeds = 60
		if testing.Short() || race.Enabled {
			seeds = 10
		}
	}
	first := uint64(1)
	if *modelSeed != 0 {
		first, seeds = *modelSeed, 1
	}
	for seed := first; seed < first+uint64(seeds); seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { runModel(t, seed) })
		})
	}
}

func runModel(t *testing.T, seed uint64) {
	w := newWorld(t, seed)
	defer func() {
		if t.Failed() {
			t.Logf("replay with -run TestModel -model.seed=%d; the last steps:\n%s", seed, strings.Join(w.steps, "\n"))
		}
		_ = w.db.Close()
	}()
	for range modelSteps {
		w.step()
		synctest.Wait()
		w.audit()
	}
	w.finish()
}

// itemID identifies an item by its logical partition, which its effective partition key
// names, and its id.
type itemID struct{ point, id string }

// modelItem is an item as the model expects it in the store.
type modelItem struct {
	key  feed.PartitionKey
	body []byte // the document with the system properties that a read returns
	etag string
	ts   int64
	lsn  int64
	ttl  int
}

// stored returns the document as a feed returns it: the body with _lsn.
func (i *modelItem) stored() []byte {
	return fmt.Appendf(slices.Clone(i.body[:len(i.body)-1]), `,"_lsn":%d}`, i.lsn)
}

// event is one write of an item, with all data that the feed of all versions must return
// for it.
type event struct {
	op                feed.Op
	id                itemID
	key               feed.PartitionKey
	point             string
	lsn, ts           int64
	current, previous []byte
	expired           bool
}

// world is a store and the model with which its results are compared.
type world struct {
	t     *testing.T
	rng   *rand.Rand
	fs    vfs.FS
	o     engine.Options
	db    *engine.DB
	c     *engine.Container
	src   feed.Source
	hash  epk.Hash
	paths []string
	props storetype.ContainerProperties

	keys   []feed.PartitionKey
	items  map[itemID]*modelItem
	events []event
	// ends has the last known LSN of each live partition, by ID. merged reports whether
	// partitions were merged.
	ends   map[string]int64
	merged bool
	// purges reports whether the store may have purged items, which takes LSNs.
	purges bool
	// points has the point of each document that was written.
	points map[string]string
	// auditor follows the whole container in all versions mode, to find the deletes of
	// the purge. It is nil if the container keeps no versions.
	auditor   *follower
	followers []*follower
	// backup is the copy of the store that the next restore restores, or nil. used has
	// what lost parts of the store have used.
	backup *backup
	used   usedNames
	value  int
	steps  []string
}

// logf adds a line to the list of steps, which is printed if the test fails.
func (w *world) logf(format string, args ...any) {
	w.steps = append(w.steps, fmt.Sprintf(format, args...))
	if len(w.steps) > 40 {
		w.steps = w.steps[1:]
	}
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), fs: vfs.NewMem(), items: map[itemID]*modelItem{}, ends: map[string]int64{}, points: map[string]string{}}
	w.used = usedNames{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	w.o = engine.Options{FS: w.fs, Memory: 4 << 20}
	if w.rng.IntN(4) == 0 {
		w.o.PurgeInterval = -1
	}
	w.paths = [][]string{{"/pk"}, {"/pk"}, {"/a/b", "/c"}, {"/a/b", "/a/c", "/d"}}[w.rng.IntN(4)]
	w.props = storetype.ContainerProperties{ID: "c", KeyPaths: w.paths, Partitions: 1 + w.rng.IntN(3)}
	versions := []storetype.KeyVersion{storetype.HashV1, storetype.HashV2, storetype.DefaultHash}
	if len(w.paths) > 1 {
		versions = append(versions, storetype.MultiHash)
	}
	w.props.KeyVersion = versions[w.rng.IntN(len(versions))]
	switch {
	case w.props.KeyVersion == storetype.HashV1:
		w.hash = epk.V1
	case len(w.paths) > 1 && w.props.KeyVersion != storetype.HashV2:
		w.hash = epk.MultiHash
	default:
		w.hash = epk.V2
	}
	w.props.DefaultTTL = []int{0, -1, 5, 30}[w.rng.IntN(4)]
	w.purges = w.props.DefaultTTL != 0 && w.o.PurgeInterval >= 0
	w.props.Retention = []time.Duration{0, time.Hour, 2 * time.Minute}[w.rng.IntN(3)]
	w.open()
	if _, err := w.db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
		t.Fatal(err)
	}
	c, err := w.db.CreateContainer(t.Context(), "db", w.props)
	if err != nil {
		t.Fatal(err)
	}
	w.use(c)
	w.makeKeys()
	if w.props.Retention > 0 {
		w.auditor = w.follow(feed.AllVersionsAndDeletes, feed.Full(), nil, feed.Now(), false)
	}
	return w
}

func (w *world) open() {
	db, err := engine.Open("db", w.o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.db = db
}

func (w *world) use(c *engine.Container) { w.c, w.src = c, w.db.Source(c) }

// makeKeys creates eight random partition keys with values of all types. Some of their
// strings have the same first 100 characters, so that they are one logical partition under
// HashV1.
func (w *world) makeKeys() {
	long := strings.Repeat("é", 100)
	pool := []any{"a", "b", "ключ", long + "1", long + "2", 0.0, 7.0, -1.5, true, false, nil, feed.Undefined}
	for len(w.keys) < 8 {
		key := feed.PartitionKey{}
		for range w.paths {
			key = append(key, pool[w.rng.IntN(len(pool))])
		}
		if !slices.ContainsFunc(w.keys, func(k feed.PartitionKey) bool { return k.String() == key.String() }) {
			w.keys = append(w.keys, key)
		}
	}
}

func components(key feed.PartitionKey) []epk.Component {
	var out []epk.Component
	for _, v := range key {
		switch v := v.(type) {
		case nil:
			out = append(out, epk.Component{Kind: epk.Null})
		case bool:
			out = append(out, epk.OfBool(v))
		case float64:
			out = append(out, epk.OfNumber(v))
		case string:
			out = append(out, epk.OfString(v))
		default:
			out = append(out, epk.Component{})
		}
	}
	return out
}

func (w *world) point(key feed.PartitionKey) string {
	return epk.Hex(w.hash.Append(nil, components(key)))
}

// item returns the name of the item with a key and an id.
func (w *world) item(key feed.PartitionKey, id string) itemID { return itemID{w.point(key), id} }

// sibling returns a random key of the logical partition of a key.
func (w *world) sibling(key feed.PartitionKey) feed.PartitionKey {
	keys := slices.DeleteFunc(slices.Clone(w.keys), func(k feed.PartitionKey) bool { return w.point(k) != w.point(key) })
	return keys[w.rng.IntN(len(keys))]
}

func (w *world) someKey() feed.PartitionKey { return w.keys[w.rng.IntN(len(w.keys))] }
func (w *world) someID() string             { return fmt.Sprintf("i%d", w.rng.IntN(5)) }

// now returns the time of the store's clock in seconds. It does not change during a step,
// because time in a synctest bubble passes only when all goroutines wait.
func (w *world) now() int64 { return w.db.Now().Unix() }

// expired reports whether an item is past its time to live.
func (w *world) expired(i *modelItem) bool {
	ttl := i.ttl
	if ttl == 0 {
		ttl = w.props.DefaultTTL
	}
	return w.props.DefaultTTL != 0 && ttl > 0 && i.ts+int64(ttl) <= w.now()
}

// visible returns an item that exists and has not expired, or nil.
func (w *world) visible(id itemID) *modelItem {
	if i := w.items[id]; i != nil && !w.expired(i) {
		return i
	}
	return nil
}

// body returns a random document with the given partition key and id, and its time to
// live in seconds. ttl is 0 if the document has none. Some documents are not canonical.
func (w *world) body(key feed.PartitionKey, id string) (body []byte, ttl int) {
	w.value++
	doc := map[string]any{"id": id, "v": w.value, "text": strings.Repeat("x", w.rng.IntN(40))}
	nested := map[string]any{}
	for i, path := range w.paths {
		if key[i] == any(feed.Undefined) {
			continue
		}
		if name, ok := strings.CutPrefix(path, "/a/"); ok {
			nested[name] = key[i]
			doc["a"] = nested
		} else {
			doc[path[1:]] = key[i]
		}
	}
	if w.rng.IntN(3) == 0 {
		ttl = []int{-1, 1, 3, 20}[w.rng.IntN(4)]
		doc["ttl"] = ttl
	}
	if w.rng.IntN(4) == 0 {
		doc["_ts"], doc["_etag"] = 1, "x"
	}
	body, err := json.Marshal(doc)
	if w.rng.IntN(4) == 0 {
		doc["fraction"], doc["text"] = json.Number("12.50"), "not compact"
		body, err = json.MarshalIndent(doc, "", "  ")
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return body, ttl
}

// step performs one random operation on the store and the model.
func (w *world) step() {
	switch n := w.rng.IntN(100); {
	case n < 40:
		w.stepWrite()
	case n < 50:
		w.stepBatch()
	case n < 58:
		w.stepRead()
	case n < 60:
		w.stepItems()
	case n < 61:
		w.stepStats()
	case n < 65:
		w.stepTime()
	case n < 70:
		w.stepTopology()
	case n < 73:
		w.newFollower()
	case n < 96:
		if len(w.followers) > 0 {
			w.followers[w.rng.IntN(len(w.followers))].step()
		}
	case n < 97:
		w.stepRestore()
	case n < 98:
		w.stepReopen()
	case n < 99:
		w.stepTTL()
	default:
		w.check()
	}
}

func (w *world) stepTime() {
	d := time.Duration(w.rng.Int64N(int64(6 * time.Second)))
	if w.rng.IntN(5) == 0 {
		d = time.Duration(w.rng.Int64N(int64(90 * time.Second)))
	}
	time.Sleep(d)
	w.logf("%v pass; it is %d", d, w.now())
}

func (w *world) partitions() []feed.Partition {
	ps, err := w.src.Partitions(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	at := feed.MinEPK
	for _, p := range ps {
		if p.Range.Min != at || p.Range.IsEmpty() {
			w.t.Fatalf("partitions do not cover the key space exactly: %v", ps)
		}
		at = p.Range.Max
	}
	if at != feed.MaxEPK {
		w.t.Fatalf("partitions do not cover the key space exactly: %v", ps)
	}
	return ps
}

// stepTopology splits a partition, in its middle or at the effective partition key of a
// random key. Or it merges two neighbours.
func (w *world) stepTopology() {
	ps := w.partitions()
	n := w.rng.IntN(len(ps))
	if len(ps) > 1 && (len(ps) > 6 || w.rng.IntN(3) == 0) {
		n = w.rng.IntN(len(ps) - 1)
		merged, err := w.c.Merge(w.t.Context(), ps[n].ID, ps[n+1].ID)
		w.logf("merge %s and %s: %v, %v", ps[n].ID, ps[n+1].ID, merged, err)
		if err != nil || merged.Range != (feed.Range{Min: ps[n].Range.Min, Max: ps[n+1].Range.Max}) {
			w.t.Fatalf("merge %v and %v: %v, %v", ps[n], ps[n+1], merged, err)
		}
		w.checkParents(merged, ps[n], ps[n+1])
		w.ends[merged.ID], w.merged = max(w.ends[ps[n].ID], w.ends[ps[n+1].ID]), true
		return
	}
	at := ""
	if w.rng.IntN(2) == 0 {
		at = w.point(w.someKey())
		n = slices.IndexFunc(ps, func(p feed.Partition) bool { return p.Range.Holds(at) })
		if at == ps[n].Range.Min {
			at = ""
		}
	}
	children, err := w.c.Split(w.t.Context(), ps[n].ID, at)
	w.logf("split %v at %q: %v, %v", ps[n], at, children, err)
	if err != nil || len(children) != 2 || at != "" && children[1].Range.Min != at {
		w.t.Fatalf("split %v at %q: %v, %v", ps[n], at, children, err)
	}
	for _, child := range children {
		w.checkParents(child, ps[n])
		w.ends[child.ID] = w.ends[ps[n].ID]
	}
}

// checkParents checks partition p, which a split or merge created from the partitions in
// from. It must have a new ID and name all its ancestors. A read of a retired partition
// must return a *feed.GoneError.
func (w *world) checkParents(p feed.Partition, from ...feed.Partition) {
	for _, f := range from {
		for _, id := range append(slices.Clone(f.Parents), f.ID) {
			if !slices.Contains(p.Parents, id) || p.ID == id {
				w.t.Fatalf("%v was made of %v, but does not name %s as its ancestor", p, from, id)
			}
		}
	}
	if w.used.partitions[p.ID] {
		w.t.Fatalf("the new partition %v has an ID that was used before the restore", p)
	}
	if !slices.ContainsFunc(w.partitions(), func(q feed.Partition) bool { return q.ID == p.ID && q.Range == p.Range }) {
		w.t.Fatalf("the new partition %v is not listed", p)
	}
	_, err := w.src.Read(w.t.Context(), feed.Request{Partition: from[0], From: feed.Beginning()})
	var gone *feed.GoneError
	if !errors.As(err, &gone) {
		w.t.Fatalf("a read of the retired %v: %v", from[0], err)
	}
}

func (w *world) stepReopen() {
	w.logf("reopen")
	if err := w.db.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.open()
	c, err := w.db.Container(w.t.Context(), "db", "c")
	if err != nil {
		w.t.Fatal(err)
	}
	w.use(c)
}

// stepTTL changes the container's DefaultTTL to a random value. It does nothing while an
// expired item is not purged, because a longer time to live could restore that item.
func (w *world) stepTTL() {
	for _, i := range w.items {
		if w.expired(i) {
			return
		}
	}
	p := w.props
	p.DefaultTTL = []int{0, -1, 5, 30}[w.rng.IntN(4)]
	c, err := w.db.ReplaceContainer(w.t.Context(), "db", p)
	w.logf("default ttl %d: %v", p.DefaultTTL, err)
	if err != nil {
		w.t.Fatal(err)
	}
	w.props = p
	w.purges = w.purges || p.DefaultTTL != 0 && w.o.PurgeInterval >= 0
	w.use(c)
}

func (w *world) check() {
	if err := w.db.Check(w.t.Context()); err != nil {
		w.t.Fatalf("Check: %v", err)
	}
}

// finish reads every follower to its end, checks the store, and closes it.
func (w *world) finish() {
	time.Sleep(2 * time.Second)
	synctest.Wait()
	w.audit()
	for _, f := range w.followers {
		f.drain()
	}
	w.check()
	if err := w.db.Close(); err != nil {
		w.t.Fatal(err)
	}
}

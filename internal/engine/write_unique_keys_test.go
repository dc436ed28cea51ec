package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// wantClash fails the test unless err is a *UniqueKeyError by which the new item id has
// the same values as the stored item other.
func wantClash(t *testing.T, what string, err error, id, other string) {
	t.Helper()
	var clash *storetype.UniqueKeyError
	if !errors.As(err, &clash) || clash.ID != id || clash.Other != other || !errors.Is(err, storetype.ErrConflict) {
		t.Errorf("%s: %v, want a clash of %q with %q", what, err, id, other)
	}
}

func TestUniqueKeysHoldForEveryKindOfWrite(t *testing.T) {
	db := openPebble(t, Options{PurgeInterval: -1})
	c := newContainer(t, db, storetype.ContainerProperties{UniqueKeys: [][]string{{"/mail"}, {"/name/first", "/name/last"}}})
	ctx, pk := t.Context(), feed.PartitionKey{"p"}
	doc := func(id, key, mail, last string) []byte {
		return fmt.Appendf(nil, `{"id":%q,"pk":%q,"mail":%q,"name":{"first":"f","last":%q}}`, id, key, mail, last)
	}
	create := func(text []byte) error {
		_, err := c.Create(ctx, nil, text, storetype.WriteOptions{})
		return err
	}
	for _, text := range [][]byte{doc("a", "p", "a@x", "a"), doc("b", "p", "b@x", "b"), doc("a", "q", "a@x", "a")} {
		if err := create(text); err != nil { // the third item has the values of the first, but another partition key
			t.Fatal(err)
		}
	}
	wantClash(t, "a create, by the first key", create(doc("c", "p", "b@x", "c")), "c", "b")
	wantClash(t, "a create, by the second key", create(doc("c", "p", "c@x", "b")), "c", "b")
	if err := create(doc("a", "p", "b@x", "z")); !errors.Is(err, storetype.ErrConflict) || errors.As(err, new(*storetype.UniqueKeyError)) {
		t.Errorf("a create of an id that exists: %v", err)
	}
	_, err := c.Upsert(ctx, nil, doc("c", "p", "b@x", "c"), storetype.WriteOptions{})
	wantClash(t, "an upsert of a new item", err, "c", "b")
	_, err = c.Upsert(ctx, nil, doc("a", "p", "b@x", "a"), storetype.WriteOptions{})
	wantClash(t, "an upsert of an item that is there", err, "a", "b")
	_, err = c.Replace(ctx, pk, "a", doc("a", "p", "b@x", "a"), storetype.WriteOptions{})
	wantClash(t, "a replace", err, "a", "b")
	_, err = c.Change(ctx, pk, "a", func([]byte) ([]byte, error) { return doc("a", "p", "a@x", "b"), nil }, storetype.WriteOptions{})
	wantClash(t, "a change", err, "a", "b")
	_, err = c.Batch(ctx, pk, []storetype.Operation{{Kind: storetype.OpUpsert, Body: doc("d", "p", "d@x", "d")}, {Kind: storetype.OpCreate, Body: doc("e", "p", "d@x", "e")}})
	wantClash(t, "a batch that collides with itself", err, "e", "d")
	var batch *storetype.BatchError
	if !errors.As(err, &batch) || batch.Index != 1 {
		t.Errorf("the error of the batch is %#v", err)
	}
	if _, err := c.Read(ctx, pk, "d", storetype.ReadOptions{}); !errors.Is(err, feed.ErrNotFound) {
		t.Errorf("an item of a batch that failed: %v", err)
	}
	if err := create(doc("f", "p", "d@x", "d")); err != nil {
		t.Errorf("a value of a failed batch is not free: %v", err)
	}
	// A replace may keep the item's own values, or change one of them.
	for _, text := range [][]byte{doc("a", "p", "a@x", "a"), doc("a", "p", "new@x", "a"), doc("a", "p", "new@x", "new")} {
		if _, err := c.Replace(ctx, pk, "a", text, storetype.WriteOptions{}); err != nil {
			t.Errorf("replace with %s: %v", text, err)
		}
	}
	if err := create(doc("g", "p", "a@x", "a")); err != nil {
		t.Errorf("values freed by a replace are not free: %v", err)
	}
	if _, err := c.Delete(ctx, pk, "g", storetype.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := create(doc("h", "p", "a@x", "a")); err != nil {
		t.Errorf("values freed by a delete are not free: %v", err)
	}
}

// Unique keys are checked after each operation of a batch, not at its end. So an
// operation may use a value that an earlier operation freed, but not one that a later
// operation frees.
func TestBatchesHandUniqueValuesOver(t *testing.T) {
	db := openPebble(t, Options{PurgeInterval: -1})
	c := newContainer(t, db, storetype.ContainerProperties{UniqueKeys: [][]string{{"/n"}}, Retention: time.Hour})
	ctx, pk := t.Context(), feed.PartitionKey{"p"}
	upsert(t, c, "a", "p", 1)
	upsert(t, c, "b", "p", 2)
	for name, ops := range map[string][]storetype.Operation{
		"a delete, then a create":             {{Kind: storetype.OpDelete, ID: "a"}, {Kind: storetype.OpCreate, Body: body("c", "p", 1)}, {Kind: storetype.OpDelete, ID: "c"}, {Kind: storetype.OpCreate, Body: body("a", "p", 1)}},
		"a replace, then an upsert":           {{Kind: storetype.OpReplace, ID: "a", Body: body("a", "p", 3)}, {Kind: storetype.OpUpsert, Body: body("b", "p", 1)}, {Kind: storetype.OpUpsert, Body: body("a", "p", 2)}},
		"values that rotate":                  {{Kind: storetype.OpReplace, ID: "a", Body: body("a", "p", 9)}, {Kind: storetype.OpReplace, ID: "b", Body: body("b", "p", 2)}, {Kind: storetype.OpReplace, ID: "a", Body: body("a", "p", 1)}},
		"an item that is written three times": {{Kind: storetype.OpUpsert, Body: body("a", "p", 5)}, {Kind: storetype.OpUpsert, Body: body("a", "p", 6)}, {Kind: storetype.OpUpsert, Body: body("a", "p", 1)}, {Kind: storetype.OpCreate, Body: body("x", "p", 5)}, {Kind: storetype.OpDelete, ID: "x"}},
	} {
		if _, err := c.Batch(ctx, pk, ops); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for id, n := range map[string]int{"a": 1, "b": 2} { // deletes and recreates both items, so that each has its own value
			if _, err := c.Batch(ctx, pk, []storetype.Operation{{Kind: storetype.OpDelete, ID: id}, {Kind: storetype.OpCreate, Body: body(id, "p", 100+n)}}); err != nil {
				t.Fatal(err)
			}
		}
		upsert(t, c, "a", "p", 1)
		upsert(t, c, "b", "p", 2)
	}
	_, err := c.Batch(ctx, pk, []storetype.Operation{{Kind: storetype.OpCreate, Body: body("c", "p", 1)}, {Kind: storetype.OpDelete, ID: "a"}})
	wantClash(t, "a create before the delete", err, "c", "a")
	_, err = c.Create(ctx, nil, body("c", "p", 2), storetype.WriteOptions{})
	wantClash(t, "after all these", err, "c", "b")
}

func TestUniqueValuesAreComparedByTypeAndContent(t *testing.T) {
	db := openPebble(t, Options{PurgeInterval: -1})
	long := strings.Repeat("x", 200_000)
	for i, k := range []struct {
		a, b string
		same bool
	}{
		{`"v":1`, `"v":1.0`, true},
		{`"v":100`, `"v":1e2`, true},
		{`"v":0`, `"v":-0.0`, true},
		{`"v":1`, `"v":"1"`, false},
		{`"v":9007199254740993`, `"v":9007199254740992`, true}, // equal as float64
		{`"v":"A"`, `"v":"a"`, false},
		{`"v":"a"`, `"v":"\u0061"`, true},
		{`"v":"\u00e9"`, `"v":"e\u0301"`, false},
		{`"v":""`, `"v":null`, false},
		{`"v":null`, `"w":1`, true},
		{`"x":1`, `"y":1`, true},
		{`"v":false`, `"v":null`, false},
		{`"v":true`, `"v":true`, true},
		{`"v":{"a":1,"b":[2]}`, `"v":{"b":[2.0],"a":1}`, true},
		{`"v":{"a":1}`, `"v":{"a":2}`, false},
		{`"v":[1,2]`, `"v":[2,1]`, false},
		{`"v":{"a":1}`, `"v":"{\"a\":1}"`, false},
		{`"v":"` + long + `"`, `"v":"` + long + `"`, true},
		{`"v":"` + long + `a"`, `"v":"` + long + `b"`, false},
		{`"v":1,"v":2`, `"v":2`, true},
		{`"v":2,"v":1`, `"v":2`, false},
		{`"\u0076":7`, `"v":7`, true},
		// These values are equal in their stored form.
		{`"v":[-0.0]`, `"v":[0]`, true},
		{`"v":"\ud800"`, `"v":"` + "\uFFFD" + `"`, true},
		{`"v":["\udc00"]`, `"v":["` + "\uFFFD" + `"]`, true},
	} {
		c := newContainer(t, db, storetype.ContainerProperties{ID: fmt.Sprint("c", i), UniqueKeys: [][]string{{"/v"}}})
		put := func(id, members string) error {
			_, err := c.Create(t.Context(), nil, []byte(`{"id":"`+id+`","pk":"p",`+members+`}`), storetype.WriteOptions{})
			return err
		}
		if err := put("a", k.a); err != nil {
			t.Errorf("%.40s: %v", k.a, err)
		}
		if err := put("b", k.b); (err != nil) != k.same || err != nil && !errors.As(err, new(*storetype.UniqueKeyError)) {
			t.Errorf("%.40s next to %.40s: %v", k.b, k.a, err)
		}
	}
	// The paths of unique keys lead through objects, but not through arrays. One path may
	// be a prefix of another one, and a name in a path may be quoted.
	c := newContainer(t, db, storetype.ContainerProperties{ID: "paths", UniqueKeys: [][]string{{"/a/b", "/c"}, {"/a"}, {`/"a/b"/x`}}})
	for i, members := range []string{
		`"a":{"b":1},"c":1,"a/b":{"x":1}`, `"a":{"b":1,"z":0},"c":2,"a/b":{"x":2}`, `"a":[{"b":1}],"c":1,"a/b":{"x":3}`, `"a":5,"c":3,"a/b":{"x":4}`,
	} {
		if _, err := c.Create(t.Context(), nil, fmt.Appendf(nil, `{"id":"%d","pk":"p",%s}`, i, members), storetype.WriteOptions{}); err != nil {
			t.Errorf("%s: %v", members, err)
		}
	}
	for i, members := range []string{`"a":{"b":1},"c":7,"a/b":{"x":5}`, `"a":{"b":1,"y":0},"c":2,"a/b":{"x":6}`, `"a":6,"c":1,"a/b":{"x":7}`, `"a":8,"c":8,"a/b":{"x":4}`} {
		if _, err := c.Create(t.Context(), nil, fmt.Appendf(nil, `{"id":"x%d","pk":"p",%s}`, i, members), storetype.WriteOptions{}); !errors.As(err, new(*storetype.UniqueKeyError)) {
			t.Errorf("%s: %v", members, err)
		}
	}
}

func TestMalformedUniqueKeysAreRefused(t *testing.T) {
	db := openPebble(t, Options{})
	many := make([]string, MaxUniqueKeyPaths)
	for i := range many {
		many[i] = fmt.Sprint("/p", i)
	}
	for name, keys := range map[string][][]string{
		"no paths": {{}}, "an empty path": {{""}}, "no slash": {{"a"}}, "an empty name": {{"/a//b"}}, "a path twice": {{"/a", "/a"}},
		"a system property": {{"/_ts"}}, "elements": {{"/a/[]/b"}}, "any name": {{"/*"}}, "too many paths": {append(slices.Clone(many), "/q")},
		"too many keys": slices.Repeat([][]string{{"/a"}}, MaxUniqueKeys+1),
	} {
		_, err := db.CreateContainer(t.Context(), "db", storetype.ContainerProperties{ID: "c", KeyPaths: []string{"/pk"}, UniqueKeys: keys})
		if bad := (*storetype.BadRequestError)(nil); !errors.As(err, &bad) || bad.Kind != storetype.BadProperties {
			t.Errorf("%s: %v", name, err)
		}
	}
	keys := [][]string{many, {`/"*"`}}
	c := newContainer(t, db, storetype.ContainerProperties{UniqueKeys: keys})
	keys[1][0] = "/changed by the caller"
	p, err := c.Properties(t.Context())
	if err != nil || len(p.UniqueKeys) != 2 || p.UniqueKeys[1][0] != `/"*"` {
		t.Fatalf("%+v, %v", p.UniqueKeys, err)
	}
	p.DefaultTTL = 5
	if _, err := db.ReplaceContainer(t.Context(), "db", p); err != nil {
		t.Errorf("replace with the same keys: %v", err)
	}
	p.UniqueKeys, p.ETag = nil, ""
	if _, err := db.ReplaceContainer(t.Context(), "db", p); err != nil {
		t.Errorf("replace without keys: %v", err)
	}
	for _, other := range [][][]string{{}, {many}, {{`/"*"`}, many}} {
		p.UniqueKeys = other
		if _, err := db.ReplaceContainer(t.Context(), "db", p); !errors.As(err, new(*storetype.BadRequestError)) {
			t.Errorf("replace with %v: %v", other, err)
		}
	}
	if p, err := c.Properties(t.Context()); err != nil || len(p.UniqueKeys) != 2 {
		t.Errorf("%+v, %v", p.UniqueKeys, err)
	}
}

// A new item may take a unique value of an expired item. The write then deletes the
// expired item. Otherwise a longer time to live could restore it, and two items would
// have the value.
func TestUniqueValueOfAnExpiredItemIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openPebble(t, Options{PurgeInterval: -1})
		p := storetype.ContainerProperties{ID: "c", DefaultTTL: 10, Retention: time.Hour, UniqueKeys: [][]string{{"/n"}}}
		c := newContainer(t, db, p)
		ctx := t.Context()
		upsert(t, c, "a", "p", 1)
		upsert(t, c, "same", "p", 2)
		_, err := c.Create(ctx, nil, body("b", "p", 1), storetype.WriteOptions{})
		wantClash(t, "before it expires", err, "b", "a")
		time.Sleep(11 * time.Second)
		upsert(t, c, "b", "p", 1)
		if _, err := c.Create(ctx, nil, body("same", "p", 2), storetype.WriteOptions{}); err != nil {
			t.Errorf("a new item of the same id and value: %v", err)
		}
		page := readPage(t, c, feed.Request{Mode: feed.AllVersionsAndDeletes, From: feed.After(`"2"`)})
		if got := ids(t, page.Changes); got != "delete a:1, create b:1, delete same:2, create same:2" || !page.Changes[0].Expired {
			t.Errorf("the feed shows %s", got)
		}
		p.DefaultTTL = 1000
		if _, err := db.ReplaceContainer(ctx, "db", p); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(ctx, feed.PartitionKey{"p"}, "a", storetype.ReadOptions{}); !errors.Is(err, feed.ErrNotFound) {
			t.Errorf("read of the expired item: %v", err)
		}
		_, err = c.Create(ctx, nil, body("d", "p", 1), storetype.WriteOptions{})
		wantClash(t, "the value has a new holder", err, "d", "b")
	})
}

// uniqueModel is the expected content of a store with two unique keys. It has the two
// values of each item.
type uniqueModel map[string][2]int // by "partition key/id"

// clashes reports whether another item of the logical partition pk already has one of the
// values v.
func (m uniqueModel) clashes(pk, id string, v [2]int) bool {
	for other, w := range m {
		if strings.HasPrefix(other, pk+"/") && other != pk+"/"+id && (w[0] == v[0] || w[1] == v[1]) {
			return true
		}
	}
	return false
}

// A store with unique keys must agree with a simple model. The test makes random
// transactions, splits, merges and restarts. Check must accept the index of unique keys
// at the end.
func TestUniqueKeysAgreeWithAModelThroughSplitsMergesAndRestarts(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 11))
		fs := vfs.NewMem()
		open := func() (*DB, *Container) {
			db, err := Open("db", Options{FS: fs, PurgeInterval: -1})
			if err != nil {
				t.Fatal(err)
			}
			c, _ := db.Container(t.Context(), "db", "c")
			return db, c
		}
		db, _ := open()
		if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
			t.Fatal(err)
		}
		c := newContainer(t, db, storetype.ContainerProperties{Partitions: 2, UniqueKeys: [][]string{{"/v"}, {"/w"}}})
		model, clashed := uniqueModel{}, 0
		for step := range 600 {
			switch n := rng.IntN(100); {
			case n == 0:
				closeChecked(t, db)
				db, c = open()
			case n < 3:
				rearrange(t, c, rng)
			default:
				clashed += uniqueStep(t, c, model, rng, step)
			}
		}
		if clashed < 50 || len(model) < 8 {
			t.Errorf("seed %d: only %d clashes and %d items", seed, clashed, len(model))
		}
		closeChecked(t, db)
	}
}

// rearrange splits a partition or merges two.
func rearrange(t *testing.T, c *Container, rng *rand.Rand) {
	t.Helper()
	parts, err := c.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := rng.IntN(len(parts))
	if len(parts) > 3 && i > 0 {
		_, err = c.Merge(t.Context(), parts[i-1].ID, parts[i].ID)
	} else {
		_, err = c.Split(t.Context(), parts[i].ID, "")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// uniqueStep applies a random transaction of one to four operations to the store and to
// the model. It returns 1 if the transaction breaks a unique key, and 0 otherwise.
func uniqueStep(t *testing.T, c *Container, model uniqueModel, rng *rand.Rand, step int) int {
	t.Helper()
	pk := fmt.Sprint("k", rng.IntN(3))
	next := uniqueModel{}
	for k, v := range model {
		next[k] = v
	}
	var ops []storetype.Operation
	want := -1 // the index of the operation that breaks a unique key, or -1
	for i := range 1 + rng.IntN(4) {
		id := fmt.Sprint("i", rng.IntN(10))
		_, there := next[pk+"/"+id]
		if there && rng.IntN(3) == 0 {
			ops = append(ops, storetype.Operation{Kind: storetype.OpDelete, ID: id})
			delete(next, pk+"/"+id)
			continue
		}
		v := [2]int{rng.IntN(24), rng.IntN(24)}
		text := fmt.Appendf(nil, `{"id":%q,"pk":%q,"v":%d,"w":%d}`, id, pk, v[0], v[1])
		op := storetype.Operation{Kind: storetype.OpUpsert, Body: text}
		if there && rng.IntN(2) == 0 {
			op = storetype.Operation{Kind: storetype.OpChange, ID: id, Change: func([]byte) ([]byte, error) { return text, nil }}
		}
		ops = append(ops, op)
		if next.clashes(pk, id, v) {
			want = i
			break
		}
		next[pk+"/"+id] = v
	}
	_, err := c.Batch(t.Context(), feed.PartitionKey{pk}, ops)
	if want < 0 {
		if err != nil {
			t.Fatalf("step %d: %v, but the model has no clash", step, err)
		}
		clear(model)
		for k, v := range next {
			model[k] = v
		}
		return 0
	}
	var batch *storetype.BatchError
	if !errors.As(err, &batch) || batch.Index != want || !errors.As(err, new(*storetype.UniqueKeyError)) {
		t.Fatalf("step %d: %v, but the model has a clash at operation %d", step, err, want)
	}
	return 1
}

// Several transactions are in one group of the sequencer. Each must see the unique values
// that earlier transactions of the group took or freed. Failed transactions must not
// count.
func TestUniqueKeysHoldWithinAGroupOfWrites(t *testing.T) {
	db := openPebble(t, Options{PurgeInterval: -1})
	c := newContainer(t, db, storetype.ContainerProperties{UniqueKeys: [][]string{{"/n"}}})
	pk := feed.PartitionKey{"p"}
	// The function blocks the sequencer, so that all following writes are in one group.
	entered, leave := make(chan struct{}), make(chan struct{})
	held := make(chan error)
	go func() {
		held <- db.do(context.Background(), func(*group) error { close(entered); <-leave; return nil })
	}()
	<-entered
	requests := make([]*request, 0, 8)
	for _, ops := range [][]storetype.Operation{
		{{Kind: storetype.OpCreate, Body: body("a", "p", 1)}},
		{{Kind: storetype.OpCreate, Body: body("b", "p", 1)}},                                                      // fails: item a has the value 1
		{{Kind: storetype.OpCreate, Body: body("c", "p", 2)}, {Kind: storetype.OpCreate, Body: body("a", "p", 3)}}, // fails: a exists
		{{Kind: storetype.OpCreate, Body: body("d", "p", 2)}},
		{{Kind: storetype.OpDelete, ID: "a"}},
		{{Kind: storetype.OpCreate, Body: body("e", "p", 1)}},
	} {
		r := &request{c: c, ops: make([]operation, len(ops)), batch: true, done: make(chan struct{}, 1)}
		if err := c.prepareBatch(r, pk, ops); err != nil {
			t.Fatal(err)
		}
		requests = append(requests, r)
		db.queue.mu.Lock()
		db.queue.waiting = append(db.queue.waiting, r)
		db.queue.mu.Unlock()
	}
	close(leave)
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	upsert(t, c, "last", "p", 99) // wakes the sequencer
	for i, r := range requests {
		<-r.done
		if fails := i == 1 || i == 2; (r.err != nil) != fails {
			t.Errorf("request %d: %v", i, r.err)
		}
	}
	wantClash(t, "the second", requests[1].err, "b", "a")
	page, err := c.Items(t.Context(), ItemsRequest{})
	if err != nil || len(page.Items) != 3 {
		t.Errorf("%d items, %v", len(page.Items), err)
	}
}

func TestCheckFindsDamageOfAUniqueIndex(t *testing.T) {
	entry := func(c *Container, id, text string) []byte {
		d, err := c.unique.digests([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		point := c.hash.Append(nil, mustKey(t, c, "p"))
		return append(appendUniquePrefix(nil, c.number, point, 0, d[0]), id...)
	}
	for name, k := range map[string]struct {
		want   string
		damage func(g *group, c *Container) error
	}{
		"an item without its entry": {"is not in the index of the unique key [/n]", func(g *group, c *Container) error {
			return g.batch.Delete(entry(c, "a", `{"n":1}`), nil)
		}},
		"an entry without an item": {"has 3 entries, of which 2 are of its documents", func(g *group, c *Container) error {
			return setUniqueEntry(g.batch, entry(c, "", `{"n":7}`), "x", 16)
		}},
		"an entry of an older version": {"has 3 entries, of which 2", func(g *group, c *Container) error {
			return setUniqueEntry(g.batch, entry(c, "", `{"n":7}`), "a", 16)
		}},
		"an invalid entry": {"has 3 entries", func(g *group, c *Container) error {
			return g.batch.Set(entry(c, "x", `{"n":7}`), []byte{1}, nil)
		}},
		"an entry of a container without unique keys": {"has 1 entries, of which 0", func(g *group, c *Container) error {
			plain := g.currentCatalog().containers[containerName{c.database, "plain"}]
			return g.batch.Set(layout.AppendContainerKey(nil, layout.SpaceUnique, plain.number), nil, nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := OpenMemory(Options{PurgeInterval: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
				t.Fatal(err)
			}
			newContainer(t, db, storetype.ContainerProperties{ID: "plain"})
			c := newContainer(t, db, storetype.ContainerProperties{UniqueKeys: [][]string{{"/n"}}})
			upsert(t, c, "a", "p", 1)
			upsert(t, c, "b", "p", 2)
			if err := db.Check(t.Context()); err != nil {
				t.Fatalf("before: %v", err)
			}
			if err := db.do(context.Background(), func(g *group) error { return k.damage(g, c) }); err != nil {
				t.Fatal(err)
			}
			if err := db.Check(t.Context()); !errors.As(err, new(*storetype.CorruptError)) || !strings.Contains(err.Error(), k.want) {
				t.Errorf("Check returned %v, want %q", err, k.want)
			}
		})
	}
}

func mustKey(t *testing.T, c *Container, pk string) []epk.Component {
	t.Helper()
	components, err := c.paths.FullKey(feed.PartitionKey{pk})
	if err != nil {
		t.Fatal(err)
	}
	return components
}

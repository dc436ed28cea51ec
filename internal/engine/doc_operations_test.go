package engine

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestOperationsDependOnTheStoredItem(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{})
	ctx, pk := t.Context(), feed.PartitionKey{"p"}
	created, err := c.Create(ctx, pk, body("a", "p", 1), storetype.WriteOptions{})
	if err != nil || !created.Created || created.LSN != 1 || created.Partition != "0" || created.End != 1 {
		t.Fatalf("create: %+v, %v", created, err)
	}
	if field(t, created.Body, "_etag") != created.ETag || field(t, created.Body, "_lsn") != nil {
		t.Errorf("the result's body is %s, its etag is %s", created.Body, created.ETag)
	}
	read, err := c.Read(ctx, pk, "a", storetype.ReadOptions{})
	if err != nil || string(read.Body) != string(created.Body) || read.ETag != created.ETag || read.LSN != 1 {
		t.Errorf("read: %+v, %v; created was %s", read, err, created.Body)
	}
	replaced, err := c.Replace(ctx, pk, "a", body("a", "p", 2), storetype.WriteOptions{IfMatch: created.ETag})
	if err != nil || replaced.Created || field(t, replaced.Body, "_rid") != field(t, created.Body, "_rid") || replaced.ETag == created.ETag {
		t.Errorf("replace: %+v, %v", replaced, err)
	}
	tag := storetype.WriteOptions{IfMatch: created.ETag}
	fresh := storetype.WriteOptions{IfNoneMatch: "*"}
	for _, k := range []struct {
		name string
		want error
		do   func() (storetype.Result, error)
	}{
		{"create an existing item", storetype.ErrConflict, func() (storetype.Result, error) {
			return c.Create(ctx, pk, body("a", "p", 3), storetype.WriteOptions{})
		}},
		{"replace another version", storetype.ErrPreconditionFailed, func() (storetype.Result, error) { return c.Replace(ctx, pk, "a", body("a", "p", 3), tag) }},
		{"upsert another version", storetype.ErrPreconditionFailed, func() (storetype.Result, error) { return c.Upsert(ctx, pk, body("a", "p", 3), tag) }},
		{"delete another version", storetype.ErrPreconditionFailed, func() (storetype.Result, error) { return c.Delete(ctx, pk, "a", tag) }},
		{"upsert only if the item is missing", storetype.ErrPreconditionFailed, func() (storetype.Result, error) { return c.Upsert(ctx, pk, body("a", "p", 3), fresh) }},
		{"upsert of a version of a missing item", storetype.ErrPreconditionFailed, func() (storetype.Result, error) { return c.Upsert(ctx, pk, body("b", "p", 3), tag) }},
		{"replace a missing item", feed.ErrNotFound, func() (storetype.Result, error) {
			return c.Replace(ctx, pk, "b", body("b", "p", 3), storetype.WriteOptions{})
		}},
		{"delete a missing item", feed.ErrNotFound, func() (storetype.Result, error) { return c.Delete(ctx, pk, "b", storetype.WriteOptions{}) }},
		{"read in another logical partition", feed.ErrNotFound, func() (storetype.Result, error) {
			return c.Read(ctx, feed.PartitionKey{"q"}, "a", storetype.ReadOptions{})
		}},
		{"read of a known version", storetype.ErrNotModified, func() (storetype.Result, error) {
			return c.Read(ctx, pk, "a", storetype.ReadOptions{IfNoneMatch: replaced.ETag})
		}},
		{"read another version", storetype.ErrPreconditionFailed, func() (storetype.Result, error) {
			return c.Read(ctx, pk, "a", storetype.ReadOptions{IfMatch: created.ETag})
		}},
	} {
		if _, err := k.do(); !errors.Is(err, k.want) {
			t.Errorf("%s: %v, want %v", k.name, err, k.want)
		}
	}
	if p := readPage(t, c, feed.Request{From: feed.Beginning()}); ids(t, p.Changes) != "a:2" || p.End != 2 {
		t.Errorf("refused writes left %s, end %d", ids(t, p.Changes), p.End)
	}
	deleted, err := c.Delete(ctx, pk, "a", storetype.WriteOptions{IfMatch: replaced.ETag})
	if err != nil || deleted.LSN != 3 || deleted.Body != nil {
		t.Errorf("delete: %+v, %v", deleted, err)
	}
	again, err := c.Create(ctx, pk, body("a", "p", 4), storetype.WriteOptions{})
	if err != nil || field(t, again.Body, "_rid") == field(t, created.Body, "_rid") {
		t.Errorf("a new item has the rid of a deleted one: %s, %v", again.Body, err)
	}
}

func TestWritesAreRefusedWithTheirKind(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{})
	ctx := t.Context()
	for _, k := range []struct {
		name string
		want storetype.BadRequestKind
		do   func() (storetype.Result, error)
	}{
		{"no JSON", storetype.BadBody, func() (storetype.Result, error) {
			return c.Create(ctx, nil, []byte(`{"id":`), storetype.WriteOptions{})
		}},
		{"no id", storetype.BadID, func() (storetype.Result, error) {
			return c.Create(ctx, nil, []byte(`{"pk":"p"}`), storetype.WriteOptions{})
		}},
		{"another key than the body's", storetype.KeyMismatch, func() (storetype.Result, error) {
			return c.Create(ctx, feed.PartitionKey{"q"}, body("a", "p", 1), storetype.WriteOptions{})
		}},
		{"replace with another id", storetype.BadID, func() (storetype.Result, error) {
			return c.Replace(ctx, nil, "b", body("a", "p", 1), storetype.WriteOptions{})
		}},
		{"delete without a key", storetype.KeyMismatch, func() (storetype.Result, error) { return c.Delete(ctx, nil, "a", storetype.WriteOptions{}) }},
		{"read with too long a key", storetype.KeyMismatch, func() (storetype.Result, error) {
			return c.Read(ctx, feed.PartitionKey{"p", "q"}, "a", storetype.ReadOptions{})
		}},
		{"read of an impossible id", storetype.BadID, func() (storetype.Result, error) {
			return c.Read(ctx, feed.PartitionKey{"p"}, "a/b", storetype.ReadOptions{})
		}},
	} {
		var bad *storetype.BadRequestError
		if _, err := k.do(); !errors.As(err, &bad) || bad.Kind != k.want {
			t.Errorf("%s: %v, want the kind %v", k.name, err, k.want)
		}
	}
}

func TestBatchIsAllOrNothingAtOneLSN(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{Retention: 1 << 40})
	ctx, pk := t.Context(), feed.PartitionKey{"p"}
	upsert(t, c, "old", "p", 1)
	increment := func(old []byte) ([]byte, error) {
		n := int(field(t, old, "n").(float64))
		return body("old", "p", n+1), nil
	}
	results, err := c.Batch(ctx, pk, []storetype.Operation{
		{Kind: storetype.OpCreate, Body: body("a", "p", 1)},
		{Kind: storetype.OpChange, ID: "old", Change: increment},
		{Kind: storetype.OpChange, ID: "old", Change: increment},
		{Kind: storetype.OpRead, ID: "old"},
		{Kind: storetype.OpDelete, ID: "a"},
		{Kind: storetype.OpCreate, Body: body("a", "p", 2)},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.LSN != 2 {
			t.Errorf("operation %d has LSN %d", i, r.LSN)
		}
	}
	if n := field(t, results[3].Body, "n"); n != 3.0 {
		t.Errorf("a read after two changes in the batch sees n = %v", n)
	}
	if results[1].ETag == results[2].ETag {
		t.Error("two versions of one batch have one etag")
	}
	page := readPage(t, c, feed.Request{From: feed.Beginning(), MaxItems: 1})
	if got := ids(t, page.Changes); got != "old:3, a:2" {
		t.Errorf("latest versions: %s, want the batch on one page, each item once", got)
	}
	page = readPage(t, c, feed.Request{From: feed.After(`"1"`), Mode: feed.AllVersionsAndDeletes, MaxItems: 2})
	if got := ids(t, page.Changes); got != "create a:1, replace old:2, replace old:3, delete a:1, create a:2" {
		t.Errorf("all versions: %s", got)
	}

	boom := errors.New("boom")
	for name, failing := range map[string]storetype.Operation{
		"conflict":               {Kind: storetype.OpCreate, Body: body("a", "p", 9)},
		"change":                 {Kind: storetype.OpChange, ID: "a", Change: func([]byte) ([]byte, error) { return nil, boom }},
		"panic":                  {Kind: storetype.OpChange, ID: "a", Change: func([]byte) ([]byte, error) { panic(boom) }},
		"other id":               {Kind: storetype.OpChange, ID: "a", Change: func([]byte) ([]byte, error) { return body("x", "p", 1), nil }},
		"other key":              {Kind: storetype.OpChange, ID: "a", Change: func([]byte) ([]byte, error) { return body("a", "x", 1), nil }},
		"read of a missing item": {Kind: storetype.OpRead, ID: "nobody"},
	} {
		_, err := c.Batch(ctx, pk, []storetype.Operation{{Kind: storetype.OpUpsert, Body: body("b", "p", 1)}, {Kind: storetype.OpDelete, ID: "old"}, failing})
		var failed *storetype.BatchError
		if !errors.As(err, &failed) || failed.Index != 2 {
			t.Errorf("%s: %v, want the error of operation 2", name, err)
		}
		if name == "change" && !errors.Is(err, boom) {
			t.Errorf("the change's own error became %v", err)
		}
	}
	if page := readPage(t, c, feed.Request{From: feed.Beginning()}); ids(t, page.Changes) != "old:3, a:2" || page.End != 2 {
		t.Errorf("failed batches left %s, end %d", ids(t, page.Changes), page.End)
	}
}

func TestBatchLimits(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{})
	many := make([]storetype.Operation, MaxBatchOperations+1)
	for i := range many {
		many[i] = storetype.Operation{Kind: storetype.OpUpsert, Body: body(fmt.Sprint(i), "p", i)}
	}
	var large *storetype.TooLargeError
	if _, err := c.Batch(t.Context(), nil, many); !errors.As(err, &large) || large.Size != len(many) {
		t.Errorf("%d operations: %v", len(many), err)
	}
	if _, err := c.Batch(t.Context(), nil, many[:MaxBatchOperations]); err != nil {
		t.Errorf("%d operations: %v", MaxBatchOperations, err)
	}
	big := fmt.Appendf(nil, `{"id":"x","pk":"p","s":%q}`, strings.Repeat("x", MaxBatchSize*2/3))
	if _, err := c.Batch(t.Context(), nil, []storetype.Operation{{Kind: storetype.OpUpsert, Body: big}, {Kind: storetype.OpUpsert, Body: big}}); !errors.As(err, &large) {
		t.Errorf("a batch of %d bytes: %v", 2*len(big), err)
	}
	var bad *storetype.BadRequestError
	if _, err := c.Batch(t.Context(), nil, nil); !errors.As(err, &bad) || bad.Kind != storetype.BadBatch {
		t.Errorf("an empty batch: %v", err)
	}
	two := []storetype.Operation{{Kind: storetype.OpUpsert, Body: body("a", "p", 1)}, {Kind: storetype.OpUpsert, Body: body("a", "q", 1)}}
	if _, err := c.Batch(t.Context(), nil, two); !errors.As(err, &bad) || bad.Kind != storetype.KeyMismatch {
		t.Errorf("two logical partitions: %v", err)
	}
}

// Under HashV1, keys that agree in their first 100 characters are one logical partition.
// An id exists once in it, whichever key a request names.
func TestKeysOfOneHashAreOneLogicalPartition(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{
		KeyVersion: storetype.HashV1, Partitions: 3, DefaultTTL: -1, Retention: time.Hour, UniqueKeys: [][]string{{"/u"}},
	})
	long := strings.Repeat("k", 101)
	one, two, other := feed.PartitionKey{long + "1"}, feed.PartitionKey{long + "2"}, feed.PartitionKey{long[:99] + "2"}
	doc := func(id string, key feed.PartitionKey, u string) []byte {
		return fmt.Appendf(nil, `{"id":%q,"pk":%q,"u":%q}`, id, key[0], u)
	}
	if _, err := c.Create(t.Context(), one, doc("a", one, "x"), storetype.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(t.Context(), two, doc("a", two, "y"), storetype.WriteOptions{}); !errors.Is(err, storetype.ErrConflict) {
		t.Errorf("a second item with the id: %v", err)
	}
	if _, err := c.Create(t.Context(), two, doc("b", two, "x"), storetype.WriteOptions{}); !errors.Is(err, storetype.ErrConflict) {
		t.Errorf("a second item with the unique value: %v", err)
	}
	if _, err := c.Create(t.Context(), other, doc("a", other, "x"), storetype.WriteOptions{}); err != nil {
		t.Errorf("a key that differs in character 100: %v", err)
	}
	batch := []storetype.Operation{{Kind: storetype.OpRead, ID: "a"}, {Kind: storetype.OpCreate, Body: doc("b", two, "y")}, {Kind: storetype.OpUpsert, Body: doc("c", one, "z")}}
	if _, err := c.Batch(t.Context(), two, batch); err != nil {
		t.Errorf("a batch on both keys: %v", err)
	}
	for _, key := range []feed.PartitionKey{one, two} {
		if r, err := c.Read(t.Context(), key, "a", storetype.ReadOptions{}); err != nil || field(t, r.Body, "pk") != one[0] {
			t.Errorf("read: %s, %v", r.Body, err)
		}
		if p := readPage(t, c, feed.Request{Key: key, From: feed.Beginning()}); len(p.Changes) != 3 {
			t.Errorf("the feed of the key has %d changes", len(p.Changes))
		}
		page, err := c.Items(t.Context(), ItemsRequest{ItemsRequest: storetype.ItemsRequest{Key: key}})
		if err != nil || len(page.Items) != 3 {
			t.Errorf("the key has %d items, %v", len(page.Items), err)
		}
	}
	// The key of an item can change within its logical partition. A delete names the last.
	from := feed.After(readPage(t, c, feed.Request{Key: one, From: feed.Now(), Mode: feed.AllVersionsAndDeletes}).Continuation)
	if r, err := c.Replace(t.Context(), one, "a", doc("a", two, "w"), storetype.WriteOptions{}); err != nil || field(t, r.Body, "pk") != two[0] {
		t.Errorf("replace: %s, %v", r.Body, err)
	}
	if _, err := c.Delete(t.Context(), one, "a", storetype.WriteOptions{}); err != nil {
		t.Error(err)
	}
	p := readPage(t, c, feed.Request{Key: one, From: from, Mode: feed.AllVersionsAndDeletes})
	if last := p.Changes[len(p.Changes)-1]; last.Op != feed.Delete || last.DeletedKey.String() != two.String() {
		t.Errorf("the last change is %+v", last)
	}
}

func TestItemsReturnsEachItemOnceDuringChanges(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{Partitions: 2})
	const n = 60
	for i := range n {
		upsert(t, c, fmt.Sprint(i), fmt.Sprint("p", i%7), i)
	}
	seen := map[any]int{}
	token := ""
	for round := 0; ; round++ {
		page, err := c.Items(t.Context(), ItemsRequest{ItemsRequest: storetype.ItemsRequest{MaxItems: 7, Continuation: token}})
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			seen[field(t, item.Body, "id")]++
			if field(t, item.Body, "_lsn") != nil {
				t.Fatalf("an item shows its LSN: %s", item.Body)
			}
		}
		if token = page.Continuation; token == "" {
			break
		}
		upsert(t, c, fmt.Sprint(round), fmt.Sprint("p", round%7), -1) // the new version is at the end of the log
		if round == 2 {
			if _, err := c.Split(t.Context(), "0", ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range n {
		if seen[fmt.Sprint(i)] != 1 {
			t.Errorf("item %d was returned %d times", i, seen[fmt.Sprint(i)])
		}
	}
	var bad *storetype.BadRequestError
	if _, err := c.Items(t.Context(), ItemsRequest{ItemsRequest: storetype.ItemsRequest{Continuation: "{}"}}); !errors.As(err, &bad) || bad.Kind != storetype.BadContinuation {
		t.Errorf("a foreign continuation: %v", err)
	}
	var gone *feed.GoneError
	if _, err := c.Items(t.Context(), ItemsRequest{ItemsRequest: storetype.ItemsRequest{Partition: "0"}}); !errors.As(err, &gone) {
		t.Errorf("items of a retired partition: %v", err)
	}
}

func TestReopenedStoreIsUnchanged(t *testing.T) {
	fs := vfs.NewMem()
	open := func() *DB {
		db, err := Open("data", Options{FS: fs, Memory: 1})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open()
	if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
		t.Fatal(err)
	}
	c := newContainer(t, db, storetype.ContainerProperties{Partitions: 2, KeyPaths: []string{"/pk", "/id"}, DefaultTTL: 1000, Retention: 1 << 40, Throughput: 1_000_000})
	upsert(t, c, "a", "p", 1)
	last := upsert(t, c, "b", "p", 2)
	if _, err := c.Delete(t.Context(), feed.PartitionKey{"p", "b"}, "b", storetype.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Split(t.Context(), last.Partition, ""); err != nil {
		t.Fatal(err)
	}
	props, err := c.Properties(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	parts, err := c.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	identity := c.Identity()
	closeChecked(t, db)

	db = open()
	defer closeChecked(t, db)
	if c, err = db.Container(t.Context(), "db", "c"); err != nil {
		t.Fatal(err)
	}
	now, err := c.Properties(t.Context())
	if err != nil || fmt.Sprint(now) != fmt.Sprint(props) || !reflect.DeepEqual(c.Identity(), identity) {
		t.Errorf("properties were %+v and are %+v, %v", props, now, err)
	}
	nowParts, err := c.Partitions(t.Context())
	if err != nil || fmt.Sprint(nowParts) != fmt.Sprint(parts) {
		t.Errorf("partitions were %v and are %v, %v", parts, nowParts, err)
	}
	// The delete before the reopening used LSN 3. No index entry has that LSN, but it
	// must not be used again.
	if r := upsert(t, c, "c", "p", 3); r.LSN != 4 || field(t, r.Body, "_rid") == field(t, last.Body, "_rid") {
		t.Errorf("the first write has LSN %d and rid %v", r.LSN, field(t, r.Body, "_rid"))
	}
}

func TestNamesCanBeReusedButHandlesCannot(t *testing.T) {
	db := openPebble(t, Options{})
	c := newContainer(t, db, storetype.ContainerProperties{})
	upsert(t, c, "a", "p", 1)
	if err := db.DeleteContainer(t.Context(), "db", "c"); err != nil {
		t.Fatal(err)
	}
	again := newContainer(t, db, storetype.ContainerProperties{})
	if _, err := c.Upsert(t.Context(), nil, body("a", "p", 1), storetype.WriteOptions{}); !errors.Is(err, feed.ErrNotFound) {
		t.Errorf("write with the handle of a deleted container: %v", err)
	}
	if _, err := db.Source(c).Identity(t.Context()); !errors.Is(err, feed.ErrNotFound) {
		t.Errorf("identity of a deleted container: %v", err)
	}
	if _, err := db.Source(c).Read(t.Context(), feed.Request{}); !errors.Is(err, feed.ErrNotFound) {
		t.Errorf("feed of a deleted container: %v", err)
	}
	if p := readPage(t, again, feed.Request{From: feed.Beginning()}); len(p.Changes) > 0 || c.Identity().ContainerRID == again.Identity().ContainerRID {
		t.Errorf("the new container %v shows %s of the old one %v", again.Identity(), ids(t, p.Changes), c.Identity())
	}
	if _, err := db.CreateContainer(t.Context(), "db", storetype.ContainerProperties{ID: "c", KeyPaths: []string{"/pk"}}); !errors.Is(err, storetype.ErrConflict) {
		t.Errorf("a second container of the name: %v", err)
	}
	if err := db.DeleteDatabase(t.Context(), "db"); err != nil {
		t.Fatal(err)
	}
	if _, err := again.Properties(t.Context()); !errors.Is(err, feed.ErrNotFound) {
		t.Errorf("container of a deleted database: %v", err)
	}
	if _, err := db.Containers(t.Context(), "db"); !errors.Is(err, feed.ErrNotFound) {
		t.Errorf("containers of a deleted database: %v", err)
	}
}

func TestReplaceContainerChangesSettingsOnly(t *testing.T) {
	db := openPebble(t, Options{})
	c := newContainer(t, db, storetype.ContainerProperties{})
	before, err := c.Properties(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ReplaceContainer(t.Context(), "db", storetype.ContainerProperties{ID: "c", DefaultTTL: 7, Throughput: 100_000, ETag: before.ETag}); err != nil {
		t.Fatal(err)
	}
	now, err := c.Properties(t.Context())
	if err != nil || now.DefaultTTL != 7 || now.Throughput != 100_000 || now.RID != before.RID || now.ETag == before.ETag {
		t.Errorf("%+v became %+v, %v", before, now, err)
	}
	if _, err := db.ReplaceContainer(t.Context(), "db", storetype.ContainerProperties{ID: "c", ETag: before.ETag}); !errors.Is(err, storetype.ErrPreconditionFailed) {
		t.Errorf("replace of another version: %v", err)
	}
	for name, p := range map[string]storetype.ContainerProperties{
		"key path": {ID: "c", KeyPaths: []string{"/other"}}, "key version": {ID: "c", KeyVersion: storetype.HashV1},
		"ttl": {ID: "c", DefaultTTL: -2}, "retention": {ID: "c", Retention: -1}, "throughput": {ID: "c", Throughput: -1},
	} {
		var bad *storetype.BadRequestError
		if _, err := db.ReplaceContainer(t.Context(), "db", p); !errors.As(err, &bad) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClosedStoreReturnsErrClosed(t *testing.T) {
	db, err := OpenMemory(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
		t.Fatal(err)
	}
	c := newContainer(t, db, storetype.ContainerProperties{})
	for range 2 {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, write := c.Upsert(t.Context(), nil, body("a", "p", 1), storetype.WriteOptions{})
	_, read := c.Read(t.Context(), feed.PartitionKey{"p"}, "a", storetype.ReadOptions{})
	_, page := db.Source(c).Read(t.Context(), feed.Request{})
	_, list := db.Databases(t.Context())
	for i, err := range []error{write, read, page, list, db.Check(t.Context())} {
		if !errors.Is(err, storetype.ErrClosed) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

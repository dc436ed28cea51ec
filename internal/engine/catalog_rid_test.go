package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestDatabaseAndContainerAreFoundByRID(t *testing.T) {
	db := openPebble(t, Options{})
	ctx := t.Context()
	if _, err := db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "other"}); err != nil {
		t.Fatal(err)
	}
	first := newContainer(t, db, storetype.ContainerProperties{})
	second, err := db.CreateContainer(ctx, "other", storetype.ContainerProperties{ID: "c", KeyPaths: []string{"/pk"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Container{first, second} {
		i := c.Identity()
		if d, err := db.DatabaseByRID(ctx, i.DatabaseRID); err != nil || d.ID != i.Database || d.RID != i.DatabaseRID {
			t.Errorf("database %s: %+v, %v", i.DatabaseRID, d, err)
		}
		if found, err := db.ContainerByRID(ctx, i.ContainerRID); err != nil || found != c {
			t.Errorf("container %s: %v, %v", i.ContainerRID, found, err)
		}
	}
	document := documentRID(first.database, first.number, 1)
	for _, rid := range []string{"", "db", "AAAA", first.Identity().ContainerRID, document, layout.DatabaseRID(99)} {
		if _, err := db.DatabaseByRID(ctx, rid); !errors.Is(err, feed.ErrNotFound) {
			t.Errorf("database %q: %v", rid, err)
		}
	}
	foreign := layout.ContainerRID(first.database, second.number) // the second container's number in the first one's database
	for _, rid := range []string{"", "c", first.Identity().DatabaseRID, document, layout.ContainerRID(first.database, 99), foreign} {
		if _, err := db.ContainerByRID(ctx, rid); !errors.Is(err, feed.ErrNotFound) {
			t.Errorf("container %q: %v", rid, err)
		}
	}
	// A container that is recreated under the same name has another resource id.
	old := second.Identity().ContainerRID
	if err := db.DeleteContainer(ctx, "other", "c"); err != nil {
		t.Fatal(err)
	}
	again, err := db.CreateContainer(ctx, "other", storetype.ContainerProperties{ID: "c", KeyPaths: []string{"/pk"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ContainerByRID(ctx, old); !errors.Is(err, feed.ErrNotFound) {
		t.Errorf("the rid of a deleted container: %v", err)
	}
	if found, err := db.ContainerByRID(ctx, again.Identity().ContainerRID); err != nil || found != again {
		t.Errorf("the recreated container: %v, %v", found, err)
	}
}

func TestItemIsFoundByRIDWithKeyAndID(t *testing.T) {
	for _, paths := range [][]string{{"/pk"}, {"/pk", "/n"}} {
		db := openPebble(t, Options{})
		c := newContainer(t, db, storetype.ContainerProperties{KeyPaths: paths, Partitions: 3})
		ctx := t.Context()
		keys := map[string]feed.PartitionKey{}
		for n := range 30 {
			pk := fmt.Sprintf("p%d", n%4)
			doc := body(fmt.Sprintf("i%d", n), pk, n)
			if n == 29 { // a document of the maximum size: with its system properties it exceeds the limit
				doc = append(doc[:len(doc)-1], `,"t":"`...)
				doc = append(doc, strings.Repeat("x", storetype.MaxDocumentSize-len(doc)-2)+`"}`...)
			}
			r, err := c.Upsert(ctx, nil, doc, storetype.WriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			rid, _ := field(t, r.Body, "_rid").(string)
			keys[rid] = feed.PartitionKey{pk, float64(n)}[:len(paths)]
			for _, key := range []feed.PartitionKey{nil, keys[rid], keys[rid][:1]} {
				found, err := c.ItemByRID(ctx, key, rid)
				if err != nil || found.ID != fmt.Sprintf("i%d", n) || !slices.Equal(found.Key, keys[rid]) || string(found.Body) != string(r.Body) || found.ETag != r.ETag || found.Partition != r.Partition {
					t.Fatalf("%v in %v: %v %q %s, %v", rid, key, found.Key, found.ID, found.ETag, err)
				}
			}
			other := feed.PartitionKey{"none", 0}[:len(paths)]
			if _, err := c.ItemByRID(ctx, other, rid); !errors.Is(err, feed.ErrNotFound) {
				t.Errorf("%v in another key: %v", rid, err)
			}
		}
		other := newContainer(t, db, storetype.ContainerProperties{ID: "other"})
		foreign, _ := field(t, upsert(t, other, "i", "p0", 1).Body, "_rid").(string)
		for _, rid := range []string{"", "i0", c.Identity().ContainerRID, foreign, documentRID(c.database, c.number, 99)} {
			if _, err := c.ItemByRID(ctx, nil, rid); !errors.Is(err, feed.ErrNotFound) {
				t.Errorf("item %q: %v", rid, err)
			}
		}
	}
}

func TestThroughputCanBeRecordedWithoutBeingEnforced(t *testing.T) {
	for _, enforce := range []bool{false, true} {
		db := openPebble(t, Options{EnforceThroughput: enforce})
		c := newContainer(t, db, storetype.ContainerProperties{Throughput: 1})
		throttled := 0
		for n := range 20 {
			_, err := c.Upsert(t.Context(), nil, body("i", "p", n), storetype.WriteOptions{})
			var wait *feed.ThrottledError
			if errors.As(err, &wait) {
				throttled++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		p, err := c.Properties(t.Context())
		if err != nil || p.Throughput != 1 || enforce != (throttled > 0) {
			t.Errorf("enforce %v: %d of 20 writes were throttled; properties %+v, %v", enforce, throttled, p, err)
		}
		p.Throughput = 2
		if _, err := db.ReplaceContainer(t.Context(), "db", p); err != nil {
			t.Fatal(err)
		}
		if err := c.admit(t.Context()); !enforce && err != nil {
			t.Errorf("after a change of the throughput: %v", err)
		}
	}
}

// documentRID returns the resource id (_rid) of document number n of a container. n is
// from 1 to layout.MaxDocumentNumber.
func documentRID(database, container, n uint32) string {
	return string(layout.AppendDocumentRID(nil, database, container, n))
}

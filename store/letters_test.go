package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/letters"
	"github.com/changefeed-go/changefeed/letters/letterstest"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestLettersConform(t *testing.T) { letterstest.Run(t, newLettersFixture) }

// newLettersFixture returns a container of letters in a new store.
func newLettersFixture(t *testing.T) letterstest.Fixture {
	ctx := context.Background()
	db, err := store.OpenMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(db.Check(ctx), db.Close()); err != nil {
			t.Error(err)
		}
	})
	if _, err := db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "shop"}); err != nil {
		t.Fatal(err)
	}
	with := func(id string, paths []string, ttl int) *store.Container {
		c, err := db.CreateContainer(ctx, "shop", storetype.ContainerProperties{ID: id, KeyPaths: paths, DefaultTTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c, others := with("letters", []string{letters.KeyPath}, 0), 0
	return letterstest.Fixture{
		Container: db.Letters(c),
		Documents: func(ctx context.Context) (n int, err error) {
			stats, err := c.PartitionStats(ctx)
			for _, p := range stats {
				n += int(p.Items)
			}
			return n, err
		},
		Remove: func(ctx context.Context, pk, id string) error {
			_, err := c.Delete(ctx, feed.PartitionKey{pk}, id, storetype.WriteOptions{})
			return err
		},
		Split: func(ctx context.Context) error {
			_, err := c.Split(ctx, "0", "")
			return err
		},
		With: func(paths []string, ttl int) letters.Container {
			others++
			return db.Letters(with("other"+string(rune('a'+others)), paths, ttl))
		},
	}
}

// A processor finds out by the id that the letters are in its source or with its leases.
func TestLettersKnowTheirContainer(t *testing.T) {
	ctx := t.Context()
	db, err := store.OpenMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "shop"}); err != nil {
		t.Fatal(err)
	}
	var containers []*store.Container
	for _, id := range []string{"letters", "orders"} {
		c, err := db.CreateContainer(ctx, "shop", storetype.ContainerProperties{ID: id, KeyPaths: []string{letters.KeyPath}})
		if err != nil {
			t.Fatal(err)
		}
		containers = append(containers, c)
	}
	s, err := db.Letters(containers[0]).Open(ctx, letters.Key{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := s.(feed.Identifier).ContainerID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range containers {
		if of, err := db.Source(c).(feed.Identifier).ContainerID(ctx); err != nil || (of == id) != (i == 0) {
			t.Errorf("the letters are in %+v, and container %d is %+v (%v)", id, i, of, err)
		}
	}
	charged := func() float64 { return s.(interface{ Charged() float64 }).Charged() }
	if charged() != 0 {
		t.Errorf("a store that was only opened has charged %v", charged())
	}
	for l, err := range s.Read(ctx, letters.Query{}) {
		t.Errorf("a new container has the letter %+v (%v)", l, err)
	}
	if charged() <= 0 {
		t.Errorf("after a read the store has charged %v", charged())
	}
}

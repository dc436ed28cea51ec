package main

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// file writes a Parquet file of n flights, and returns its path.
func file(t *testing.T, n int) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "flights.parquet")
	rows := make([]flight, n)
	for i := range rows {
		rows[i] = flight{Date: 978307260000000 + int64(i), Delay: int64(i%90) - 20, Distance: 500, Origin: fmt.Sprint("O", i%40), Destination: fmt.Sprint("D", i%7)}
	}
	if err := parquet.WriteFile(name, rows); err != nil {
		t.Fatal(err)
	}
	return name
}

// served starts a server over a store in memory, and returns the store and the account.
func served(t *testing.T) (*store.DB, account) {
	t.Helper()
	db, err := store.OpenMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := server.New(db, server.Options{Keys: []string{emulatorKey}, Partitions: 3})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(handler)
	t.Cleanup(func() {
		s.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db, account{endpoint: s.URL + "/", key: emulatorKey}
}

func TestEveryRowIsLoadedOnce(t *testing.T) {
	db, acc := served(t)
	for _, limit := range []int{0, 2500} {
		name := fmt.Sprint("flights", limit)
		n, err := acc.load(t.Context(), "db", name, file(t, 4321), limit)
		want := map[int]int{0: 4321, 2500: 2500}[limit]
		if err != nil || n != want {
			t.Fatalf("%d flights, %v; want %d", n, err, want)
		}
		if d, err := acc.compare(t.Context(), "db", name, name, n); err != nil || !d.none() || d.compared != want {
			t.Errorf("compared with itself: %s, %v", d, err)
		}
	}
	c, err := db.Container(t.Context(), "db", "flights0")
	if err != nil {
		t.Fatal(err)
	}
	item, err := c.Read(t.Context(), feed.PartitionKey{"O1"}, "41", storetype.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"id":"41","date":"2001-01-01T00:01:00Z","delay":21,"distance":500,"origin":"O1","destination":"D6"`
	if got := string(item.Body[:len(want)]); got != want {
		t.Errorf("row 41 is %s; want %s", got, want)
	}
}

func TestADifferenceIsFound(t *testing.T) {
	db, acc := served(t)
	for _, name := range []string{"a", "b"} {
		if _, err := acc.load(t.Context(), "db", name, file(t, 300), 0); err != nil {
			t.Fatal(err)
		}
	}
	c, err := db.Container(t.Context(), "db", "b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Delete(t.Context(), feed.PartitionKey{"O1"}, "1", storetype.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, doc := range []string{
		`{"id":"2","date":"","delay":0,"distance":0,"origin":"O2","destination":""}`,
		`{"id":"3","date":"","delay":0,"distance":0,"origin":"another","destination":""}`,
		`{"id":"300","date":"","delay":0,"distance":0,"origin":"another","destination":""}`,
	} {
		if _, err := c.Upsert(t.Context(), nil, []byte(doc), storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	d, err := acc.compare(t.Context(), "db", "a", "b", 300)
	if want := (difference{compared: 300, missing: 1, other: 1, doubled: 1, extra: 1}); err != nil || d != want {
		t.Errorf("%s, %v; want %s", d, err, want)
	}
}

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/internal/wire/wiretest"
	"github.com/changefeed-go/changefeed/store"
)

// In this test, 32 connections write and delete documents. The server's process is killed
// (SIGKILL) at a random moment, and another process is started on the same directory.
// Each document must then be as the last acknowledged write left it. A write that was
// sent but not acknowledged may also have been carried out.

var serverKills = flag.Int("crash.server", 0, "number of times that the test kills the server's process; if 0, it is 3, or the test is skipped with -short")

const (
	killWriters = 32
	// killItems is the number of documents that each connection writes again and again.
	killItems = 40
	// killLife is the number of kills after which the test uses a new directory.
	killLife = 10
)

// killState is the state of the documents according to their writers. A version is a
// positive number, or 0 for a deleted document.
type killState struct {
	// acked is the version in the last acknowledged write of each document. tried is the
	// version in a write without an answer, or -1 if there is none. Each writer has a row
	// of its own.
	acked, tried [killWriters][killItems]int
	next         [killWriters]int
	// keepAll reports whether the writers never delete a document.
	keepAll bool
}

func TestKilledServerKeepsEveryAcknowledgedDocument(t *testing.T) {
	kills := *serverKills
	if kills == 0 {
		if testing.Short() {
			t.Skip("starts processes")
		}
		kills = 3
	}
	rng := rand.New(rand.NewPCG(1, 32))
	var dir, container string
	var state *killState
	acks := int64(0)
	for n := range kills {
		if n%killLife == 0 {
			checkDirectory(t, dir)
			dir, container, state = t.TempDir(), "", &killState{}
		}
		s := startServe(t, killWriters, "--data", dir, "--partitions", "4")
		if container == "" {
			var err error
			if container, err = s.Make(t.Context(), "shop", "orders"); err != nil {
				t.Fatal(err)
			}
		}
		verifyKilled(t, s, container, state)
		acks += writeUntilKilled(t, s, container, state, rng.Int64N(2500))
		if n == kills-1 || (n+1)%killLife == 0 {
			last := startServe(t, killWriters, "--data", dir)
			verifyKilled(t, last, container, state)
			last.stop(t)
		}
	}
	checkDirectory(t, dir)
	t.Logf("%d kills, %d acknowledged writes", kills, acks)
}

// checkDirectory opens the store in dir and checks its invariants. No server may use it.
func checkDirectory(t *testing.T, dir string) {
	t.Helper()
	if dir == "" {
		return
	}
	db, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// writeUntilKilled writes on all connections, and kills the server after a number of
// acknowledged writes. It returns the number of acknowledged writes.
func writeUntilKilled(t *testing.T, s *server, container string, state *killState, after int64) int64 {
	t.Helper()
	for w := range killWriters {
		for i := range killItems {
			state.tried[w][i] = -1
		}
	}
	var acks atomic.Int64
	enough := make(chan struct{})
	var writers sync.WaitGroup
	for w := range killWriters {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(after), uint64(w)))
			for {
				i := rng.IntN(killItems)
				version := 0
				if state.keepAll || rng.IntN(8) > 0 || state.acked[w][i] == 0 {
					state.next[w]++
					version = state.next[w]
				}
				state.tried[w][i] = version
				if err := writeVersion(t, s.Client, container, w, i, version); err != nil {
					var refused *wiretest.StatusError
					if errors.As(err, &refused) {
						t.Error(err)
					}
					return // the server has been killed, and the write may have been carried out
				}
				state.acked[w][i], state.tried[w][i] = version, -1
				if acks.Add(1) == after+1 {
					close(enough)
				}
			}
		})
	}
	<-enough
	s.kill(t)
	writers.Wait()
	return acks.Load()
}

// killedID returns the id of document i of writer w.
func killedID(w, i int) string { return fmt.Sprintf("w%d-%d", w, i) }

func writeVersion(t *testing.T, c *wiretest.Client, container string, w, i, version int) error {
	pk := fmt.Sprintf("k%d", i%7)
	if version == 0 {
		_, _, err := c.Do(t.Context(), http.MethodDelete, container+"/docs/"+killedID(w, i), "", wire.HeaderPartitionKey, `["`+pk+`"]`)
		return err
	}
	body := fmt.Sprintf(`{"id":%q,"pk":%q,"group":"g%d","version":%d,"text":%q}`, killedID(w, i), pk, version%5, version, strings.Repeat("x", 20*(version%50)))
	return c.Put(t.Context(), container, pk, body)
}

// verifyKilled reads all documents from a restarted server. It fails the test if one has
// an impossible version, and records the versions in state.
func verifyKilled(t *testing.T, s *server, container string, state *killState) {
	t.Helper()
	found := map[string]int{}
	err := s.Feed(t.Context(), container, 500, func(text []byte) error {
		var page struct {
			Documents []struct {
				ID      string
				Version int
				Text    string
			}
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return err
		}
		for _, d := range page.Documents {
			if _, twice := found[d.ID]; twice || len(d.Text) != 20*(d.Version%50) {
				t.Errorf("document %s: twice %v, version %d with a text of %d", d.ID, twice, d.Version, len(d.Text))
			}
			found[d.ID] = d.Version
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for w := range killWriters {
		for i := range killItems {
			acked, tried := state.acked[w][i], state.tried[w][i]
			got := found[killedID(w, i)]
			if got != acked && got != tried {
				t.Errorf("document %s has version %d; %d was acknowledged, %d was on its way (0 means deleted, and -1 none)", killedID(w, i), got, acked, tried)
			}
			state.acked[w][i] = got
			delete(found, killedID(w, i))
		}
	}
	if len(found) > 0 {
		t.Errorf("documents that nobody wrote: %v", found)
	}
}

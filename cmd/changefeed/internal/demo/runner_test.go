package demo

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/store"
)

// play runs a demo in a bubble, on a store in memory. It returns the report and the lines
// of the view. It checks the store at the end.
func play(t *testing.T, cfg Config) (Report, string) {
	t.Helper()
	var (
		report Report
		said   bytes.Buffer
	)
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		db, err := store.OpenMemory(store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}()
		cfg.View = view.NewText(&said)
		cfg := mustDefaults(t, cfg)
		data, err := load(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if report, err = move(ctx, cfg, data, db); err != nil {
			t.Fatalf("%v\n%s", err, said.String())
		}
		if err := db.Check(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	return report, said.String()
}

// Records that the hosts cannot copy must become letters, while all other keys go on, and be redriven in
// the order of their keys: the copy of a record that was updated is that of its last revision.
func TestPoisonIsRedrivenInTheEnd(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r, said := play(t, Config{Records: 2_000, Seed: seed, Poison: true})
			if !r.OK() || r.comparison.compared != 2_000 || r.Letters < poisoned {
				t.Errorf("missing %d, wrong %d of %d compared, %d letters: %v\n%s", r.Missing, r.Wrong, r.comparison.compared, r.Letters, r.comparison.examples, said)
			}
			for _, want := range []string{"gives up record 1; its key is parked", "the handlers are mended; the letters are redriven", "its leases not released"} {
				if !strings.Contains(said, want) {
					t.Errorf("the output lacks %q\n%s", want, said)
				}
			}
		})
	}
}

func TestEverySeedCopiesEverythingThroughJoinsASplitAndACrash(t *testing.T) {
	redelivered := make(chan int, 8)
	t.Run("seeds", func(t *testing.T) {
		for seed := range uint64(cap(redelivered)) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				r, said := play(t, Config{Records: 2_000, Seed: seed})
				redelivered <- r.Redelivered
				if !r.OK() || r.comparison.compared != 2_000 {
					t.Errorf("missing %d, wrong %d of %d compared: %v\n%s", r.Missing, r.Wrong, r.comparison.compared, r.comparison.examples, said)
				}
				// Each record is delivered once, and the updated quarter once more. A
				// record that is updated before it is read is delivered only once.
				if r.Written < 2_300 || r.Delivered < 2_000 || r.Delivered > r.Written+r.Redelivered {
					t.Errorf("written %d, delivered %d, redelivered %d", r.Written, r.Delivered, r.Redelivered)
				}
				// The leases of the crashed host get other owners, and other leases may,
				// too.
				if r.LeaseMoves == 0 || r.LongestPause < time.Second {
					t.Errorf("%d lease moves, longest pause %s\n%s", r.LeaseMoves, r.LongestPause, said)
				}
				if r.Elapsed > time.Minute {
					t.Errorf("the run takes %s", r.Elapsed)
				}
				for _, want := range []string{"host-2 joins", "host-3 joins", "is split into 4 and 5", "changes of a batch copied, its leases not released", "expiration is 5s"} {
					if !strings.Contains(said, want) {
						t.Errorf("the output lacks %q\n%s", want, said)
					}
				}
			})
		}
	})
	close(redelivered)
	sum := 0
	for n := range redelivered {
		sum += n
	}
	// A crash in the middle of a batch must cause that batch to be delivered again, at
	// least with one seed.
	if sum == 0 {
		t.Error("no seed has delivered anything twice: the crashes do nothing")
	}
}

func TestOneHostAloneIsReplacedAfterItsCrash(t *testing.T) {
	r, said := play(t, Config{Records: 300, Seed: 3, Hosts: 1})
	if !r.OK() {
		t.Errorf("missing %d, wrong %d: %v\n%s", r.Missing, r.Wrong, r.comparison.examples, said)
	}
	// The run ends when no lease lags, which may be before the last leases get other
	// owners.
	if r.LeaseMoves == 0 || !strings.Contains(said, "host-2 joins") {
		t.Errorf("%+v\n%s", r, said)
	}
}

func TestMoreHostsThanPartitions(t *testing.T) {
	r, said := play(t, Config{Records: 300, Seed: 4, Hosts: 9})
	if !r.OK() || !strings.Contains(said, "host-9 joins") {
		t.Errorf("%+v\n%s", r, said)
	}
}

func TestRecordsOfAFileWithOtherFields(t *testing.T) {
	in := file(t, "odd name?.ndjson", `{"no":1,"a/b":"x","new key":null}
{"no":2,"a/b":true,"new key":"y"}
{"no":3,"a/b":4.5,"new key":"y"}`)
	r, said := play(t, Config{Input: in, ID: "no", Key: "a/b", NewKey: "new key"})
	if !r.OK() || r.comparison.compared != 3 {
		t.Errorf("%+v\n%s", r, said)
	}
}

// If no host reads the records, the copy makes no progress. The run must give up, and the
// report must count all documents as missing.
func TestStalledCopyEndsWithAReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, at, data := threeRecords(t)
		defer closeStore(t, db)
		var said bytes.Buffer
		d, err := newRunner(Config{Hosts: 1, View: view.NewText(&said)}, data, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.first.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := d.finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(said.String(), "giving up") {
			t.Errorf("said only: %s", said.String())
		}
		v, err := compare(t.Context(), data, at.source, at.target)
		if err != nil || v.missing != len(data.records) {
			t.Errorf("missing %d of %d, %v", v.missing, len(data.records), err)
		}
	})
}

func TestAnInterruptedRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, at, data := threeRecords(t)
		defer closeStore(t, db)
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		defer cancel()
		d, err := newRunner(Config{Hosts: 2, View: view.NewText(new(bytes.Buffer))}, data, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.run(ctx); err == nil || ctx.Err() == nil {
			t.Errorf("run returned %v, its context is %v", err, ctx.Err())
		}
		for _, h := range d.hosts {
			<-h.done // otherwise the bubble would never end
		}
	})
}

// threeRecords creates the containers of a run with a data set of three records.
func threeRecords(t *testing.T) (*store.DB, containers, dataset) {
	t.Helper()
	db, err := store.OpenMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := mustDefaults(t, Config{Input: file(t, "in.json", `{"k":1,"n":"a"}{"k":2,"n":"b"}{"k":3,"n":"c"}`), Key: "k", NewKey: "n"})
	data, err := load(cfg)
	if err != nil {
		t.Fatal(err)
	}
	at, err := ensureContainers(t.Context(), db, data)
	if err != nil {
		t.Fatal(err)
	}
	return db, at, data
}

func closeStore(t *testing.T, db *store.DB) {
	t.Helper()
	if err := db.Check(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// The README's picture shows the demo's output. The first lines of the
// output are the same in every run, so the picture must contain them.
func TestPictureShowsTheDemosFirstLines(t *testing.T) {
	_, said := play(t, Config{Records: 3000, Seed: 1})
	picture, err := os.ReadFile("../../../../docs/demo.svg")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(said, "\n")
	for _, line := range lines[:min(5, len(lines))] {
		_, text, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if text == "" || !strings.Contains(html.UnescapeString(string(picture)), text) {
			t.Errorf("docs/demo.svg lacks %q; draw it again, see CONTRIBUTING.md", text)
		}
	}
}

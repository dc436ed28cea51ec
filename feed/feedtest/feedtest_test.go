package feedtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/feed/feedtest"
	"github.com/changefeed-go/changefeed/store"
)

// defectVariable gives a run of this test binary a source with a defect.
const defectVariable = "FEEDTEST_DEFECT"

// TestDefective is the suite over the source with the defect of the environment;
// without one it has nothing to do. The store itself runs the whole suite in its
// own package.
func TestDefective(t *testing.T) {
	defect := os.Getenv(defectVariable)
	if defect == "" {
		t.Skip("it is run by TestSuiteFindsEveryDefect")
	}
	if defect == "none" {
		defect = ""
	}
	feedtest.RunInBubble(t, func(t *testing.T, want feedtest.Container) feedtest.Fixture {
		return newFixture(t, want, defect)
	})
}

// TestSuiteFindsEveryDefect runs the case that is made for it, in a process of
// its own, over a source that breaks one sentence of the contract: the case must
// fail. All of them must pass over the source without a defect.
func TestSuiteFindsEveryDefect(t *testing.T) {
	caught := make([]string, 0, len(defects))
	for _, d := range defects {
		caught = append(caught, d.caught)
	}
	out, err := runCases(t, "none", caught...)
	if err != nil {
		t.Fatalf("without a defect: %v\n%s", err, out)
	}
	for _, d := range defects {
		if !bytes.Contains(out, []byte("--- PASS: TestDefective/"+caseName(d.caught)+" ")) {
			t.Fatalf("the case %q doesn't exist, or was skipped:\n%s", d.caught, out)
		}
	}
	for _, d := range defects {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			out, err := runCases(t, d.name, d.caught)
			if err == nil || !bytes.Contains(out, []byte("--- FAIL: TestDefective/"+caseName(d.caught)+" ")) {
				t.Fatalf("the case %q passes: %v\n%s", d.caught, err, out)
			}
			if bytes.Contains(out, []byte("panic:")) || bytes.Contains(out, []byte("DATA RACE")) {
				t.Fatalf("the case %q fails in another way than by its own judgement:\n%s", d.caught, out)
			}
		})
	}
}

// runCases runs cases of this test binary over a source with a defect.
func runCases(t *testing.T, defect string, cases ...string) ([]byte, error) {
	names := make([]string, 0, len(cases))
	for _, c := range cases {
		names = append(names, regexp.QuoteMeta(caseName(c)))
	}
	run := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestDefective$/^("+strings.Join(names, "|")+")$")
	run.Env = append(os.Environ(), defectVariable+"="+defect)
	return run.CombinedOutput()
}

// caseName is the name of a case as the testing package writes it.
func caseName(s string) string { return strings.ReplaceAll(s, " ", "_") }

// newFixture makes a container of the embedded store, seen through a defect.
func newFixture(t *testing.T, want feedtest.Container, defect string) feedtest.Fixture {
	db, err := store.OpenMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if _, err := db.CreateDatabase(t.Context(), store.DatabaseProperties{ID: "db"}); err != nil {
		t.Fatal(err)
	}
	p := store.ContainerProperties{ID: "items", KeyPaths: want.KeyPaths, Partitions: want.Partitions}
	if want.AllVersions {
		p.Retention = time.Hour
	}
	if want.TimeToLive {
		p.DefaultTTL = -1
	}
	c, err := db.CreateContainer(t.Context(), "db", p)
	if err != nil {
		t.Fatal(err)
	}
	return feedtest.Fixture{
		Source: &defective{Source: db.Source(c), defect: defect},
		Upsert: func(ctx context.Context, key feed.PartitionKey, doc json.RawMessage) error {
			_, err := c.Upsert(ctx, key, doc, store.WriteOptions{})
			return err
		},
		Transaction: func(ctx context.Context, key feed.PartitionKey, docs []json.RawMessage) error {
			ops := make([]store.Operation, 0, len(docs))
			for _, doc := range docs {
				ops = append(ops, store.Operation{Kind: store.OpUpsert, Body: doc})
			}
			_, err := c.Batch(ctx, key, ops)
			return err
		},
		Delete: func(ctx context.Context, key feed.PartitionKey, id string) error {
			_, err := c.Delete(ctx, key, id, store.WriteOptions{})
			return err
		},
		Split: func(ctx context.Context, partition string) error {
			_, err := c.Split(ctx, partition, "")
			return err
		},
		Merge: func(ctx context.Context, a, b string) error {
			_, err := c.Merge(ctx, a, b)
			return err
		},
	}
}

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
	"github.com/changefeed-go/changefeed/storetype"
)

// defectVariable is the environment variable that names the defect of the source in
// TestDefective.
const defectVariable = "FEEDTEST_DEFECT"

// TestDefective runs the suite over a source with the defect that the environment names.
// It is skipped if the environment names none. Package store runs the whole suite over
// the store itself.
func TestDefective(t *testing.T) {
	defect := os.Getenv(defectVariable)
	if defect == "" {
		t.Skip("TestSuiteFindsEveryDefect runs this test")
	}
	if defect == "none" {
		defect = ""
	}
	feedtest.RunInBubble(t, func(t *testing.T, want feedtest.Container) feedtest.Fixture {
		return newFixture(t, want, defect)
	})
}

// TestSuiteFindsEveryDefect runs TestDefective in a new process for each defect. The case
// that is listed with the defect must fail. Without a defect all cases must pass.
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
			t.Fatalf("the case %q is missing or was skipped:\n%s", d.caught, out)
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
				t.Fatalf("the case %q fails for another reason than its own check:\n%s", d.caught, out)
			}
		})
	}
}

// runCases runs the named cases of TestDefective in a new process, over a source with the
// defect. It returns the output of the process.
func runCases(t *testing.T, defect string, cases ...string) ([]byte, error) {
	names := make([]string, 0, len(cases))
	for _, c := range cases {
		names = append(names, regexp.QuoteMeta(caseName(c)))
	}
	run := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestDefective$/^("+strings.Join(names, "|")+")$")
	run.Env = append(os.Environ(), defectVariable+"="+defect)
	return run.CombinedOutput()
}

// caseName returns a case's name as package testing writes it: with "_" for spaces.
func caseName(s string) string { return strings.ReplaceAll(s, " ", "_") }

// newFixture returns a fixture with a new container of the embedded store. Its source has
// the defect.
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
	if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
		t.Fatal(err)
	}
	p := storetype.ContainerProperties{ID: "items", KeyPaths: want.KeyPaths, Partitions: want.Partitions}
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
			_, err := c.Upsert(ctx, key, doc, storetype.WriteOptions{})
			return err
		},
		Transaction: func(ctx context.Context, key feed.PartitionKey, docs []json.RawMessage) error {
			ops := make([]storetype.Operation, 0, len(docs))
			for _, doc := range docs {
				ops = append(ops, storetype.Operation{Kind: storetype.OpUpsert, Body: doc})
			}
			_, err := c.Batch(ctx, key, ops)
			return err
		},
		Delete: func(ctx context.Context, key feed.PartitionKey, id string) error {
			_, err := c.Delete(ctx, key, id, storetype.WriteOptions{})
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
		Beyond: func(end feed.Continuation) feed.Continuation { return end[:len(end)-1] + `0"` }, // ten times the LSN
	}
}

package leasetest_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/lease/leasetest"
)

// fixture returns a container with the defect that the environment names. Its dialect is
// JavaHandleChanges if only a container of that dialect can have the defect.
func fixture(t *testing.T) leasetest.Fixture {
	defect, dialect := os.Getenv(defectVariable), lease.DotNet
	switch defect {
	case "any form accepted", "range of a conflict left out", "container left out":
		dialect = lease.JavaHandleChanges
	}
	return fixtureIn(t, dialect, defect)
}

func fixtureIn(t *testing.T, dialect lease.Dialect, defect string) leasetest.Fixture {
	d := newDocuments(t, dialect, defect)
	return leasetest.Fixture{Container: d, Document: d.document, Replace: d.replace, Remove: d.remove}
}

func TestDocumentsOfJavaDialectsConform(t *testing.T) {
	for _, d := range []lease.Dialect{lease.JavaHandleChanges, lease.JavaLatestVersion} {
		t.Run(d.Name(), func(t *testing.T) {
			leasetest.RunInBubble(t, func(t *testing.T) leasetest.Fixture { return fixtureIn(t, d, "") })
		})
	}
}

func TestDocumentsInMemoryConform(t *testing.T) {
	leasetest.Run(t, func(t *testing.T) leasetest.Fixture {
		f := fixture(t)
		d := f.Container.(*documents)
		var mu sync.Mutex // guards passed
		var passed time.Duration
		d.clock = func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Add(passed)
		}
		f.Advance = func(by time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			passed += by
		}
		return f
	})
}

func TestDocumentsInMemoryConformInBubble(t *testing.T) { leasetest.RunInBubble(t, fixture) }

// defectVariable is the environment variable that names the container's defect.
const defectVariable = "LEASETEST_DEFECT"

// TestSuiteFindsEveryDefect runs the suite over a container with each defect in turn,
// each time in a new process. The suite must fail each time.
func TestSuiteFindsEveryDefect(t *testing.T) {
	if testing.Short() {
		t.Skip("the test runs the suite once per defect")
	}
	for _, defect := range defects {
		t.Run(defect, func(t *testing.T) {
			c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDocumentsInMemoryConformInBubble$", "-test.failfast")
			c.Env = append(os.Environ(), defectVariable+"="+defect)
			out, err := c.CombinedOutput()
			if err == nil {
				t.Fatalf("the suite passes")
			}
			var failed *exec.ExitError
			if !errors.As(err, &failed) || !bytes.Contains(out, []byte("--- FAIL")) || bytes.Contains(out, []byte("panic:")) {
				t.Fatalf("%v: %s", err, out)
			}
		})
	}
}

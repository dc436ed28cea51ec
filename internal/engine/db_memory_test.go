package engine_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/race"
	"github.com/changefeed-go/changefeed/storetype"
)

// This test checks that the memory of a store is bounded, however many documents the
// store has. A child process loads documents of 1 KB with 64 writers. It then reopens the
// store and reads all documents, first as a feed and then item by item. The test checks
// the peak of the child's resident memory.

var memoryDocuments = flag.Int("memory.documents", 0, "number of documents of 1 KB that the memory test loads; if 0, it is 40000, or the test is skipped with -short or -race")

const (
	memoryDirEnv  = "CHANGEFEED_MEMORY_DIR"
	memoryDocsEnv = "CHANGEFEED_MEMORY_DOCUMENTS"
	memorySizeEnv = "CHANGEFEED_MEMORY_SIZE"

	// memoryBound is the largest allowed peak in bytes with the default options. It also
	// holds for a million documents.
	memoryBound = 512 << 20
	// smallMemory is the memory option of a store that holds ten times as much.
	// smallBound is the bound for the whole process, the program included. The measured
	// value was 43 MiB.
	smallMemory = 4 << 20
	smallBound  = 96 << 20
)

// memoryReport is the JSON text that the child prints before it ends.
type memoryReport struct {
	PeakBytes int64
	Load      time.Duration
	Open      time.Duration
	Read      time.Duration
	Changes   int
	Items     int
}

func TestMemoryStaysBounded(t *testing.T) {
	documents := *memoryDocuments
	if documents == 0 {
		if testing.Short() || race.Enabled {
			t.Skip("loads 40,000 documents; the race detector takes memory too")
		}
		documents = 40_000
	}
	t.Run("a store ten times its memory", func(t *testing.T) {
		r := runMemoryChild(t, 40_000, smallMemory)
		judgeMemory(t, r, 40_000, smallBound)
	})
	if documents > 40_000 {
		t.Run("default options", func(t *testing.T) {
			r := runMemoryChild(t, documents, 0)
			judgeMemory(t, r, documents, memoryBound)
		})
	}
}

func judgeMemory(t *testing.T, r memoryReport, documents int, bound int64) {
	t.Helper()
	t.Logf("%d documents: peak %d MiB; load %v, open %v, read %v", documents, r.PeakBytes>>20, r.Load, r.Open, r.Read)
	if r.Changes != documents || r.Items != documents {
		t.Errorf("%d changes and %d items were read, want %d of each", r.Changes, r.Items, documents)
	}
	if r.PeakBytes > bound {
		t.Errorf("the process took %d MiB, more than %d", r.PeakBytes>>20, bound>>20)
	}
	if r.PeakBytes == 0 {
		t.Log("this system does not report a process's peak memory; only the data was checked")
	}
}

func runMemoryChild(t *testing.T, documents int, memory int64) (r memoryReport) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemoryChild$", "-test.timeout=20m")
	cmd.Env = append(os.Environ(), memoryDirEnv+"="+t.TempDir(),
		fmt.Sprintf("%s=%d", memoryDocsEnv, documents), fmt.Sprintf("%s=%d", memorySizeEnv, memory))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// TestMemoryChild is not a test. TestMemoryStaysBounded runs it in a child process and
// measures its memory. Without the environment variables of that test, it is skipped.
func TestMemoryChild(t *testing.T) {
	dir := os.Getenv(memoryDirEnv)
	if dir == "" {
		t.Skip("only as a child of TestMemoryStaysBounded")
	}
	documents, err := strconv.Atoi(os.Getenv(memoryDocsEnv))
	memory, err2 := strconv.ParseInt(os.Getenv(memorySizeEnv), 10, 64)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	var r memoryReport
	o := engine.Options{Memory: memory}
	start := time.Now()
	if err := loadMemory(t.Context(), dir, o, documents); err != nil {
		t.Fatal(err)
	}
	r.Load = time.Since(start)
	start = time.Now()
	db, err := engine.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	r.Open = time.Since(start)
	start = time.Now()
	if r.Changes, r.Items, err = readMemory(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	r.Read = time.Since(start)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	r.PeakBytes = peakBytes(t)
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(b))
}

func loadMemory(ctx context.Context, dir string, o engine.Options, documents int) error {
	db, err := engine.Open(dir, o)
	if err != nil {
		return err
	}
	if _, err = db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "db"}); err != nil {
		return errors.Join(err, db.Close())
	}
	c, err := db.CreateContainer(ctx, "db", storetype.ContainerProperties{ID: "c", KeyPaths: []string{"/id"}, Partitions: 4})
	if err != nil {
		return errors.Join(err, db.Close())
	}
	const writers = 64
	errs := make([]error, writers)
	var next atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			var body []byte
			for errs[w] == nil {
				n := int(next.Add(1)) - 1
				if n >= documents {
					return
				}
				body = fmt.Appendf(body[:0], `{"id":"%09d","n":%d,"text":"%0760d"}`, n, n, n*7919)
				_, errs[w] = c.Create(ctx, nil, body, storetype.WriteOptions{})
			}
		})
	}
	wg.Wait()
	return errors.Join(append(errs, db.Close())...)
}

// readMemory reads the whole feed of each partition, and then all items. It returns the
// number of changes and of items.
func readMemory(ctx context.Context, db *engine.DB) (changes, items int, err error) {
	c, err := db.Container(ctx, "db", "c")
	if err != nil {
		return 0, 0, err
	}
	src := db.Source(c)
	ps, err := src.Partitions(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, p := range ps {
		from := feed.Beginning()
		for {
			page, err := src.Read(ctx, feed.Request{Partition: p, From: from, MaxItems: 1000})
			if err != nil {
				return changes, 0, err
			}
			if len(page.Changes) == 0 {
				break
			}
			changes += len(page.Changes)
			from = feed.After(page.Continuation)
		}
	}
	var r engine.ItemsRequest
	r.MaxItems = 1000
	for {
		page, err := c.Items(ctx, r)
		if err != nil {
			return changes, items, err
		}
		items += len(page.Items)
		if r.Continuation = page.Continuation; r.Continuation == "" {
			return changes, items, nil
		}
	}
}

// peakBytes returns the peak of the resident memory of this process, in bytes. It returns
// 0 if the system does not report it.
func peakBytes(t *testing.T) int64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	return 0
}

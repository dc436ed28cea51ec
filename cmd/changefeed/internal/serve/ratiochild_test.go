package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/internal/cputime"
	"github.com/changefeed-go/changefeed/internal/slowsync"
	"github.com/changefeed-go/changefeed/store"
)

// childServes is the variable that selects the child's handler, "ours" or "plain", and
// the duration of a sync. 0s means the disk's own time.
const childServes = "CHANGEFEED_RATED"

// TestRatedChild is a server in a process of its own. It prints its address. For each
// line of input it prints the processor time that it has used. It ends with its input.
func TestRatedChild(t *testing.T) {
	kind, text, _ := strings.Cut(os.Getenv(childServes), " ")
	if kind == "" {
		t.Skip("run by TestRatioOfServedUpserts")
	}
	sync, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	_, _, s := ratedStore(t, store.Options{FS: syncing(sync)})
	served := rate(t, s, false)
	if kind == "plain" {
		served = rate(t, checking(served.key), true)
	}
	fmt.Println(served.address)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(cputime.Used(t).Nanoseconds())
	}
}

// syncing returns the file system of a store whose log's sync takes a time. If the time
// is 0, it is the disk's.
func syncing(d time.Duration) vfs.FS {
	if d == 0 {
		return vfs.Default
	}
	return slowsync.FS{FS: vfs.Default, Sync: d}
}

// A ratedProcess is a server under measurement in a process of its own.
type ratedProcess struct {
	rated
	in  io.WriteCloser
	out *bufio.Reader
}

// launch starts a child, which ends with the test.
func launch(t *testing.T, kind string, sync time.Duration) *ratedProcess {
	t.Helper()
	child := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^TestRatedChild$", "-test.timeout=0")
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s", childServes, kind, sync))
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	p := &ratedProcess{rated{"", ratedKey(t), 4 << 10}, in, bufio.NewReader(out)}
	t.Cleanup(func() {
		_ = in.Close() // ends it, and it checks its store
		rest, _ := io.ReadAll(p.out)
		if err := child.Wait(); err != nil {
			t.Errorf("the server: %v\n%s", err, rest)
		}
	})
	p.address = p.line(t)
	return p
}

func (p *ratedProcess) line(t *testing.T) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the server said %q: %v", line, err)
	}
	return strings.TrimSpace(line)
}

// used returns the processor time of the process.
func (p *ratedProcess) used(t *testing.T) time.Duration {
	t.Helper()
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		t.Fatal(err)
	}
	d, err := time.ParseDuration(p.line(t) + "ns")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// measured adds the processor time of the server to a turn's.
func (p *ratedProcess) measured(t *testing.T, turn func() pace) pace {
	before := p.used(t)
	took := turn()
	took.cost += (p.used(t) - before) / time.Duration(max(took.requests, 1))
	return took
}

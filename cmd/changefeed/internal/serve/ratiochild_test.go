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

// childServes is the environment variable that configures a child process. Its value is
// the handler, "ours" or "plain", and the duration of a sync. The duration 0s means that
// syncs take as long as on the disk.
const childServes = "CHANGEFEED_RATED"

// TestRatedChild is the main function of a server in a child process. It prints the
// server's address. For each line of input, it prints the processor time that the process
// has used so far. It ends when its input ends.
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

// syncing returns a file system in which each sync of a log takes the time d. If d is 0,
// syncs take as long as on the disk.
func syncing(d time.Duration) vfs.FS {
	if d == 0 {
		return vfs.Default
	}
	return slowsync.FS{FS: vfs.Default, Sync: d}
}

// ratedProcess is a server under measurement, in a process of its own.
type ratedProcess struct {
	rated
	in  io.WriteCloser
	out *bufio.Reader
}

// launch starts a child process with a server. The process ends with the test.
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
		_ = in.Close() // the process checks its store and ends
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

// used returns the processor time that the process has used so far.
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

// measured calls turn, and adds the server's processor time to the pace of that turn.
func (p *ratedProcess) measured(t *testing.T, turn func() pace) pace {
	before := p.used(t)
	took := turn()
	took.cost += (p.used(t) - before) / time.Duration(max(took.requests, 1))
	return took
}

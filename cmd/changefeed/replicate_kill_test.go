package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/admin"
	"github.com/changefeed-go/changefeed/internal/wire"
)

var replicationKills = flag.Int("crash.replicate", 0,
	"number of times that the test kills the server during a replication; if 0, it is 3, or the test is skipped with -short")

// replication is a copy during which its server is killed several times.
type replication struct {
	dir, container string
	versions       bool
	// patient reports whether the test lets the copy catch up before it interrupts the
	// process.
	patient bool
	state   *killState
	proxy   *cutter
	rng     *rand.Rand
	// run is the current process that copies. It continues to run when the server is
	// killed.
	run *replicationRun
	// ended counts the processes that ended by themselves. interrupted counts those that
	// a signal ended.
	ended, interrupted int
	// caughtUp counts the processes that printed that they had caught up.
	caughtUp int
}

// The server of a replication is killed again and again. Meanwhile its clients write,
// its partitions split and merge, and a proxy cuts the connections of the replication.
// Nothing acknowledged may be lost, no copy may be wrong, and a run that did not finish
// may not exit with 0.
func TestKilledServersCopyIsCompletedAndNoUnfinishedRunExitsWithZero(t *testing.T) {
	kills := *replicationKills
	if kills == 0 {
		if testing.Short() {
			t.Skip("starts processes")
		}
		kills = 3
	}
	cuts, ended, interrupted, caughtUp := int64(0), 0, 0, 0
	for life := 0; life*killLife < kills; life++ {
		t.Run(fmt.Sprint(life), func(t *testing.T) {
			r := &replication{
				dir: t.TempDir(), versions: life%2 == 1, patient: life%4 >= 2, rng: rand.New(rand.NewPCG(14, uint64(life))),
				proxy: startCutter(t, uint64(life)),
			}
			r.state = &killState{keepAll: !r.versions}
			for range min(killLife, kills-life*killLife) {
				r.untilKilled(t)
			}
			r.complete(t)
			checkDirectory(t, r.dir)
			cuts += r.proxy.cuts.Load()
			ended += r.ended
			interrupted += r.interrupted
			caughtUp += r.caughtUp
		})
	}
	t.Logf("%d kills, %d cut connections; %d replications ended by themselves and %d by a signal, %d of which had caught up", kills, cuts, ended, interrupted, caughtUp)
}

// untilKilled starts the server, lets the clients write while a partition splits or
// merges, and kills the server.
func (r *replication) untilKilled(t *testing.T) {
	t.Helper()
	s := r.serve(t)
	if r.run != nil && r.run.hasEnded() {
		r.mustBeUnfinished(t)
	}
	if r.run == nil {
		r.run = r.start(t)
	}
	writes := r.rng.Int64N(2500) // drawn first, because movePartition draws from r.rng meanwhile
	var moves sync.WaitGroup
	moves.Go(func() { r.movePartition(t, s) })
	writeUntilKilled(t, s, r.container, r.state, writes)
	moves.Wait()
}

// serve starts the server, checks that it still has every acknowledged write, and directs
// the proxy to it.
func (r *replication) serve(t *testing.T) *server {
	t.Helper()
	s := startServe(t, killWriters, "--data", r.dir, "--partitions", "3", "--keep-versions", "60m")
	if r.container == "" {
		var err error
		if r.container, err = s.Make(t.Context(), "shop", "orders"); err != nil {
			t.Fatal(err)
		}
	}
	verifyKilled(t, s, r.container, r.state)
	r.proxy.forward(strings.TrimPrefix(s.Endpoint, "http://"))
	return s
}

// start starts a process that copies the orders to a container with another partition
// key, through the proxy.
func (r *replication) start(t *testing.T, args ...string) *replicationRun {
	t.Helper()
	all := []string{
		"replicate", "--from", r.proxy.url() + "shop/orders", "--to", r.proxy.url() + "shop/copy",
		"--key", "/group", "--create", "--expiration", minExpiration.String(),
	}
	if r.versions {
		all = append(all, "--mode", "avad")
	}
	run := &replicationRun{cmd: process(t, append(all, args...)...), ended: make(chan struct{})}
	run.out.caughtUp = make(chan struct{})
	run.cmd.Stdout, run.cmd.Stderr = &run.out, &run.out
	if err := run.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(run.ended)
		_ = run.cmd.Wait() // ProcessState contains the exit status
	}()
	return run
}

// replicationRun is one process of `changefeed replicate`.
type replicationRun struct {
	cmd   *exec.Cmd
	out   replicationOutput
	ended chan struct{} // closed when the process has ended
}

// replicationOutput is the output of a process of `changefeed replicate`.
type replicationOutput struct {
	mu       sync.Mutex // guards text
	text     strings.Builder
	caughtUp chan struct{} // closed when the process has printed that it has caught up
}

// Write implements io.Writer.
func (o *replicationOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := sayCaughtUp.MatchString(o.text.String())
	n, err := o.text.Write(p)
	if !before && sayCaughtUp.MatchString(o.text.String()) {
		close(o.caughtUp)
	}
	return n, err
}

func (o *replicationOutput) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// hasEnded reports whether the process has ended.
func (r *replicationRun) hasEnded() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// status waits until the process has ended, and returns its exit status.
func (r *replicationRun) status() int {
	<-r.ended
	return r.cmd.ProcessState.ExitCode()
}

// interrupt sends SIGINT to the process. It ignores a process that has ended.
func (r *replicationRun) interrupt(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

// mustBeUnfinished waits for the end of the current process, which the test did not
// interrupt. It fails the test if the exit status is 0.
func (r *replication) mustBeUnfinished(t *testing.T) {
	t.Helper()
	code := r.run.status()
	if code == exitOK {
		t.Errorf("an unfinished replication exited with 0: %s", r.run.out.String())
	}
	r.ended++
	t.Logf("a replication exited with %d: %s", code, lastLine(r.run.out.String()))
	r.run = nil
}

// complete interrupts the current process. It then starts processes that copy the rest
// while connections are cut, and interrupts some of them. When one exits with 0, the copy
// must be complete and correct.
func (r *replication) complete(t *testing.T) {
	t.Helper()
	s := r.serve(t)
	defer s.stop(t)
	if r.run.hasEnded() {
		r.mustBeUnfinished(t)
	} else {
		if r.patient {
			select {
			case <-r.run.out.caughtUp:
			case <-r.run.ended:
			}
		}
		r.run.interrupt(t)
		code := r.run.status()
		if want := statusOfReplicate(r.run.out.String(), syscall.SIGINT); code != want {
			t.Errorf("an interrupted replication exited with %d instead of %d: %s", code, want, r.run.out.String())
		}
		if code == exitOK {
			r.caughtUp++
		}
		r.interrupted++
	}
	for attempt := range 20 {
		run := r.start(t, "--until-caught-up")
		if attempt < 2 {
			r.movePartition(t, s)
			run.interrupt(t)
			r.interrupted++
		}
		code := run.status()
		if want := statusOfReplicate(run.out.String(), syscall.SIGINT); attempt < 2 && code != exitFailed && code != want {
			t.Errorf("attempt %d was interrupted and exited with %d instead of %d: %s", attempt, code, want, run.out.String())
		}
		if code == exitOK {
			r.compare(t, s)
			return
		}
		t.Logf("attempt %d exited with %d: %s", attempt, code, lastLine(run.out.String()))
	}
	t.Error("no run of 20 completed the copy")
}

// compare fails the test unless the target has exactly one correct copy of each document
// of the source.
func (r *replication) compare(t *testing.T, s *server) {
	t.Helper()
	copied := map[string]int{}
	err := s.Feed(t.Context(), "/dbs/shop/colls/copy", 500, func(text []byte) error {
		var page struct {
			Documents []struct {
				ID, Group string
				Version   int
			}
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return err
		}
		for _, d := range page.Documents {
			if _, twice := copied[d.ID]; twice || d.Group != fmt.Sprintf("g%d", d.Version%5) {
				t.Errorf("copy of %s: twice %v, version %d in group %s", d.ID, twice, d.Version, d.Group)
			}
			copied[d.ID] = d.Version
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for w := range killWriters {
		for i := range killItems {
			if id := killedID(w, i); copied[id] != r.state.acked[w][i] {
				t.Errorf("copy of %s has version %d instead of %d (0 means deleted)", id, copied[id], r.state.acked[w][i])
			}
		}
	}
}

// movePartition splits or merges a partition of the orders. It ignores errors, because
// the server may be killed meanwhile.
func (r *replication) movePartition(t *testing.T, s *server) {
	t.Helper()
	client, err := admin.New(s.Endpoint, wire.EmulatorKey, http.DefaultClient)
	if err != nil {
		t.Error(err)
		return
	}
	partitions, err := client.Partitions(t.Context(), "shop", "orders")
	if err != nil {
		return
	}
	if n := len(partitions); n < 2 || n < 8 && r.rng.IntN(2) == 0 {
		_, err = client.Split(t.Context(), "shop", "orders", partitions[r.rng.IntN(n)].ID, "")
	} else {
		_, err = client.Merge(t.Context(), "shop", "orders", partitions[r.rng.IntN(n-1)].ID, "")
	}
	if err != nil {
		t.Logf("no split or merge: %s", lastLine(err.Error()))
	}
}

// lastLine returns the last line of a text.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

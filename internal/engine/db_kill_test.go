package engine_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/race"
)

// These tests kill a process that has a store open. A child process writes to a
// directory. It reports acknowledged writes and delivered changes on its standard output.
// The test kills the child with SIGKILL at a random moment. It then opens the store and
// checks the properties that db_crash_test.go lists. In contrast to the tests there,
// files, locks and the operating system are real.

var crashKills = flag.Int("crash.n", 0, "number of times that the kill test kills the writing process; if 0, it is 50, or 5 with -short or -race")

const (
	killDirEnv  = "CHANGEFEED_KILL_DIR"
	killSeedEnv = "CHANGEFEED_KILL_SEED"
)

func TestKilledProcessKeepsEveryAcknowledgement(t *testing.T) {
	kills := *crashKills
	if kills == 0 {
		kills = 50
		if testing.Short() || race.Enabled {
			kills = 5
		}
	}
	rng := rand.New(rand.NewPCG(1, 4))
	k, versions, acks := newKnown(), map[crashItem]int{}, 0
	var dir string
	for n := range kills {
		if n%crashLife == 0 {
			dir, k, versions = t.TempDir(), newKnown(), map[crashItem]int{}
		}
		// Some children are killed while they open the store, and most of them during the
		// load.
		acks += runAndKill(t, dir, n, rng.IntN(3000), k, versions)
		db, err := engine.Open(dir, engine.Options{Memory: 8 << 20})
		if err != nil {
			t.Fatalf("open after kill %d: %v", n, err)
		}
		versions = verifyCrash(t, db, k)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		for i, v := range versions {
			k.acked[i] = v
		}
		clear(k.tried)
	}
	t.Logf("%d kills, %d acknowledged writes", kills, acks)
}

// runAndKill starts the child, records its reports in k, and kills it after the given
// number of reported lines. It returns the number of acknowledged writes.
func runAndKill(t *testing.T, dir string, n, lines int, k *known, versions map[crashItem]int) (acks int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestKillChild$")
	cmd.Env = append(os.Environ(), killDirEnv+"="+dir, fmt.Sprintf("%s=%d", killSeedEnv, n))
	text := map[string]int{}
	for i, v := range versions {
		text[i.String()] = v
	}
	input, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = strings.NewReader(string(input))
	var trouble strings.Builder
	cmd.Stderr = &trouble
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(out)
	for line := 0; ; line++ {
		if line == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		s, err := said.ReadString('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			break // the kill can cut off the last line, which does not count
		}
		if strings.HasPrefix(s, "ack ") {
			acks++
		}
		if err := hear(k, strings.TrimSpace(s)); err != nil {
			t.Fatalf("%v; %s", err, trouble.String())
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("the child ended by itself: %v; %s", err, trouble.String())
	}
	return acks
}

// hear records one report of the child in k. line is the line that the child printed.
func hear(k *known, line string) error {
	var item string
	var writer, container, version int
	var lsn int64
	var partition string
	switch what, rest, _ := strings.Cut(line, " "); what {
	case "try":
		n, list, _ := strings.Cut(rest, " ")
		if _, err := fmt.Sscan(n, &writer); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		tried := map[crashItem]int{}
		for _, word := range strings.Fields(list) {
			name, v, _ := strings.Cut(word, "=")
			i, err := parseCrashItem(name)
			if err != nil {
				return err
			}
			if _, err := fmt.Sscan(v, &version); err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
			tried[i] = version
		}
		k.tried[writer] = tried
		return nil
	case "ack":
		if _, err := fmt.Sscan(rest, &item, &version); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		i, err := parseCrashItem(item)
		k.acked[i] = version
		return err
	case "deliver":
		if _, err := fmt.Sscan(rest, &item, &version, &lsn); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		i, err := parseCrashItem(item)
		k.deliver(i, delivery{version, lsn})
		return err
	case "divide":
		if _, err := fmt.Sscan(rest, &container, &partition); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		k.partitions[fmt.Sprintf("%d/%s", container, partition)] = true
		return nil
	}
	return fmt.Errorf("the child printed %q", line)
}

// speaker is the witness in the child process. It prints each report at once, as one line
// in one write. So the parent receives every report that was printed before the kill.
type speaker struct {
	mu  sync.Mutex // is held while a line is written to out
	out io.Writer
}

func (s *speaker) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := fmt.Fprintf(s.out, format+"\n", args...); err != nil {
		panic(err) // the parent has closed the pipe
	}
}

func (s *speaker) ack(i crashItem, version int)      { s.say("ack %v %d", i, version) }
func (s *speaker) deliver(i crashItem, d delivery)   { s.say("deliver %v %d %d", i, d.version, d.lsn) }
func (s *speaker) divide(container int, part string) { s.say("divide %d %s", container, part) }
func (s *speaker) try(writer int, versions map[crashItem]int) {
	var list strings.Builder
	for i, v := range versions {
		fmt.Fprintf(&list, " %v=%d", i, v)
	}
	s.say("try %d%s", writer, list.String())
}

// TestKillChild is not a test. TestKilledProcessKeepsEveryAcknowledgement runs it in a
// child process and kills it. Without the environment variables of that test, it is
// skipped.
func TestKillChild(t *testing.T) {
	dir := os.Getenv(killDirEnv)
	if dir == "" {
		t.Skip("only as a child of TestKilledProcessKeepsEveryAcknowledgement")
	}
	var seed uint64
	if _, err := fmt.Sscan(os.Getenv(killSeedEnv), &seed); err != nil {
		t.Fatal(err)
	}
	text := map[string]int{}
	if err := json.NewDecoder(os.Stdin).Decode(&text); err != nil {
		t.Fatal(err)
	}
	versions := map[crashItem]int{}
	for name, v := range text {
		i, err := parseCrashItem(name)
		if err != nil {
			t.Fatal(err)
		}
		versions[i] = v
	}
	db, err := engine.Open(dir, engine.Options{Memory: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	load := &crashLoad{db: db, w: &speaker{out: os.Stdout}, versions: versions}
	if err := load.setUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Fatal(load.run(t.Context(), seed))
}

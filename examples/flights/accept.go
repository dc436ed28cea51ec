package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// acceptance is one acceptance run of `changefeed replicate`. It starts a server and
// loads the flights. Two processes copy them under another key, and one of them is
// killed. At the end both containers are compared.
type acceptance struct {
	command string // path of the changefeed program
	input   string
	records int
	out     io.Writer
}

const (
	// killAt is the percentage of copied documents at which one process is killed.
	killAt = 30
	// expiration is the lease expiration interval. The other process takes over the
	// leases after that time.
	expiration = 20 * time.Second
	// mostMemory is the limit of a process's peak resident memory, in MB.
	mostMemory = 300
	// emulatorKey is the server's key: the well-known key of the local emulators.
	emulatorKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
)

func (a *acceptance) say(format string, args ...any) {
	_, _ = fmt.Fprintf(a.out, format+"\n", args...) // a lost line does not change the exit status
}

// run carries out the acceptance and prints its figures. It returns an error unless both
// containers are equal and both processes stayed below the memory limit.
func (a *acceptance) run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "flights-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server, err := start(ctx, a.command, "serve", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--tls", "off", "--partitions", "4", "--log-level", "warn")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop(syscall.SIGTERM)) }()
	found, err := server.wait(ctx, regexp.MustCompile(`http://127\.0\.0\.1:\d+/`))
	if err != nil {
		return fmt.Errorf("the server: %w", err)
	}
	if _, err := server.wait(ctx, regexp.MustCompile(`ready`)); err != nil {
		return fmt.Errorf("the server: %w", err)
	}
	acc := account{endpoint: found, key: emulatorKey}

	began := time.Now()
	n, err := acc.load(ctx, "flights", "by-origin", a.input, a.records)
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	a.say("loaded %d flights in %s: %s", n, time.Since(began).Round(time.Second), rate(n, time.Since(began)))

	began = time.Now()
	peaks, err := a.replicate(ctx, acc)
	if err != nil {
		return err
	}
	a.say("replicated in %s, a kill and %s of waiting for its leases included: %s", time.Since(began).Round(time.Second), expiration, rate(n, time.Since(began)))
	a.say("peak resident memory: %d MB and %d MB (the second was killed), the server's %d MB", peaks[0], peaks[1], server.peak())

	began = time.Now()
	d, err := acc.compare(ctx, "flights", "by-origin", "by-destination", n)
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	a.say("%s (in %s)", d, time.Since(began).Round(time.Second))
	if !d.none() {
		return errors.New("the contents differ")
	}
	if peaks[0] >= mostMemory || peaks[1] >= mostMemory {
		return fmt.Errorf("a process took %d MB or more", mostMemory)
	}
	return nil
}

// replicate runs both processes until the copy is complete. It returns their peak
// resident memory in MB.
func (a *acceptance) replicate(ctx context.Context, acc account) (peaks [2]int, err error) {
	args := []string{
		"replicate", "--from", acc.endpoint + "flights/by-origin", "--to", acc.endpoint + "flights/by-destination",
		"--key", "/destination", "--create", "--until-caught-up", "--expiration", expiration.String(),
	}
	var both [2]*process
	for i := range both {
		if both[i], err = start(ctx, a.command, args...); err != nil {
			return peaks, err
		}
		defer func() { _ = both[i].stop(syscall.SIGKILL) }() // the process has ended already unless an operation failed
		if i == 0 {
			// The first process creates the containers, so the second one starts only
			// after that.
			if _, err := both[0].wait(ctx, regexp.MustCompile(`\d+ % of the way`)); err != nil {
				return peaks, fmt.Errorf("the first process: %w", err)
			}
		}
	}
	for {
		line, err := both[1].wait(ctx, regexp.MustCompile(`copied [\d,]+ documents.* (\d+) % of the way|caught up`))
		if err != nil {
			return peaks, fmt.Errorf("the second process: %w", err)
		}
		part := regexp.MustCompile(`(\d+) %`).FindStringSubmatch(line)
		if part == nil {
			return peaks, errors.New("the copy finished before a process could be killed; use more records")
		}
		if percent, _ := strconv.Atoi(part[1]); percent >= killAt && !strings.Contains(line, "copied 0 documents") {
			a.say("killed the second process: %s", line)
			break
		}
	}
	peaks[1] = both[1].peak()
	if err := both[1].stop(syscall.SIGKILL); err != nil {
		return peaks, err
	}
	err = both[0].end()
	peaks[0] = both[0].peak()
	return peaks, err
}

func rate(n int, took time.Duration) string { return fmt.Sprintf("%.0f/s", float64(n)/took.Seconds()) }

// process is a running program. It keeps the lines of its output for the method wait.
type process struct {
	cmd   *exec.Cmd
	lines chan string
	done  chan struct{}
	err   error

	mu   sync.Mutex // guards most
	most int
}

// start starts a program, and watches its memory until it ends.
func start(ctx context.Context, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, name, args...), lines: make(chan string, 100_000), done: make(chan struct{})}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for text := bufio.NewScanner(out); text.Scan(); {
			p.lines <- text.Text()
		}
		close(p.lines)
	}()
	go func() {
		defer close(p.done)
		<-read
		p.err = p.cmd.Wait()
	}()
	go p.watch()
	return p, nil
}

// watch records the peak of the process's resident memory while the process runs.
func (p *process) watch() {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		p.measure()
		select {
		case <-tick.C:
		case <-p.done:
			return
		}
	}
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// measure reads the peak from the kernel, on systems that record it (Linux).
func (p *process) measure() {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return
	}
	if m := highWater.FindSubmatch(status); m != nil {
		kb, _ := strconv.Atoi(string(m[1]))
		p.mu.Lock()
		p.most = max(p.most, kb/1024)
		p.mu.Unlock()
	}
}

// peak returns the peak resident memory so far, in MB.
func (p *process) peak() int {
	p.measure()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}

// wait waits until the program prints a line that matches want, and returns the match.
func (p *process) wait(ctx context.Context, want *regexp.Regexp) (string, error) {
	for {
		select {
		case line, open := <-p.lines:
			if !open {
				<-p.done
				return "", errors.Join(fmt.Errorf("it ended before it printed %q", want), p.err)
			}
			if m := want.FindString(line); m != "" {
				return m, nil
			}
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// end waits until the process ends, and prints its output meanwhile.
func (p *process) end() error {
	for line := range p.lines {
		fmt.Println("  " + line)
	}
	<-p.done
	return p.err
}

// stop sends a signal to the process, and waits until it ends.
func (p *process) stop(signal os.Signal) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := p.cmd.Process.Signal(signal); err != nil {
		return err
	}
	for range p.lines { // discard the remaining lines
	}
	<-p.done
	var exit *exec.ExitError
	if errors.As(p.err, &exit) {
		return nil // the process ended as requested
	}
	return p.err
}

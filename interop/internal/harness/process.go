package harness

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// commandTime is the longest time that a host may take for a command. If other hosts
// start for the first time meanwhile, it waits for a lock of 15 s.
const commandTime = 90 * time.Second

// Process runs hosts of a change feed processor. It reads commands from its standard
// input, one a line. It answers each, in order, with a line of fields separated by tabs:
// "ok" and the command, or "failed", the command and the reason. Launch's function
// receives the other lines. Process is safe for concurrent use.
type Process struct {
	// Name is the name of the process in errors.
	Name string

	cmd   *exec.Cmd
	stdin io.WriteCloser
	log   bytes.Buffer
	ended chan struct{} // closed when the process has ended and all its output was read

	mu      sync.Mutex // guards answers, the channel of the command in progress
	answers chan []string
	one     chan struct{} // contains an element while a command is in progress
}

// Launch starts a process and returns when the process has printed "ready". One goroutine
// calls lines with the fields of every other line that is not an answer. The process
// outlives ctx: Kill or Quit ends it.
func Launch(ctx context.Context, name string, environment []string, lines func(fields []string), command string, args ...string) (*Process, error) {
	p := &Process{Name: name, ended: make(chan struct{}), one: make(chan struct{}, 1)}
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), command, args...)
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), environment...), &p.log
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan struct{})
	go func() { // ends with the process; Kill and Quit wait for it
		defer close(p.ended)
		p.read(out, ready, lines)
		_ = p.cmd.Wait() // the methods read the state from ProcessState
	}()
	select {
	case <-ready:
		return p, nil
	case <-p.ended:
		return nil, fmt.Errorf("%s ended before it was ready: %s\n%s", name, p.cmd.ProcessState, p.log.Bytes())
	case <-time.After(commandTime):
		err = fmt.Errorf("%s was not ready after %s", name, commandTime)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.Kill()
	return nil, err
}

func (p *Process) read(out io.Reader, ready chan struct{}, lines func([]string)) {
	scan := bufio.NewScanner(out)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		fields := strings.Split(scan.Text(), "\t")
		switch fields[0] {
		case "ready":
			close(ready)
		case "ok", "failed":
			p.mu.Lock()
			answers := p.answers
			p.mu.Unlock()
			if answers != nil {
				answers <- fields // this never blocks, because each command gets one answer
			}
		default:
			lines(fields)
		}
	}
}

// Command executes one command. It returns an error if the command failed or took longer
// than 90 s, or if the process has ended.
func (p *Process) Command(ctx context.Context, command string) error {
	select {
	case p.one <- struct{}{}:
		defer func() { <-p.one }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	answers := make(chan []string, 1)
	p.mu.Lock()
	p.answers = answers
	p.mu.Unlock()
	if _, err := io.WriteString(p.stdin, command+"\n"); err != nil {
		return fmt.Errorf("%s: %q: %w\n%s", p.Name, command, err, p.tail())
	}
	limit := time.NewTimer(commandTime)
	defer limit.Stop()
	select {
	case a := <-answers:
		if a[0] == "failed" {
			return fmt.Errorf("%s: %q failed: %s", p.Name, command, strings.Join(a[min(2, len(a)):], " "))
		}
		return nil
	case <-p.ended:
		return fmt.Errorf("%s ended during %q: %s\n%s", p.Name, command, p.cmd.ProcessState, p.tail())
	case <-limit.C:
		return fmt.Errorf("%s: %q was not answered after %s", p.Name, command, commandTime)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tail returns the error output of the process. It returns nil if the process still runs.
func (p *Process) tail() []byte {
	select {
	case <-p.ended:
		return p.log.Bytes()
	default:
		return nil
	}
}

// Kill kills the process (SIGKILL) and returns when all of its output was read. It may be
// called again.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // an error means that the process has ended
	<-p.ended
}

// Quit stops the process and waits for it. It returns an error if the exit status is not
// 0.
func (p *Process) Quit(ctx context.Context) error {
	err := p.Command(ctx, "quit")
	if err != nil {
		p.Kill()
		return err
	}
	select {
	case <-p.ended:
	case <-time.After(commandTime):
		err = errors.New("the process has not ended")
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		p.Kill()
		return fmt.Errorf("%s: quit: %w", p.Name, err)
	}
	if !p.cmd.ProcessState.Success() {
		return fmt.Errorf("%s: quit: %s\n%s", p.Name, p.cmd.ProcessState, p.log.Bytes())
	}
	return nil
}

package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
)

// HostCommand is the name of the hidden subcommand that is a host's process: it calls [RunHost].
const HostCommand = "demo-host"

// doomed is what a host is told over its standard input. Its end tells the host to
// stop: so no host outlives the demo.
const doomed = "doom"

// job is what a host's process is told by its first line of input.
type job struct {
	Name     string `json:"name"`
	Endpoint string `json:"endpoint"`
	Key      string `json:"key"`
	Source   string `json:"source"`
	Target   string `json:"target"`
	TheirKey string `json:"theirKey"` // the field that the target is keyed by
	Leases   string `json:"leases"`
}

// event is a line of what a host's process says.
type event struct {
	Event string `json:"event"`
	// Lease and Text go with leases and errors.
	Lease string `json:"lease,omitempty"`
	Text  string `json:"text,omitempty"`
	// Range, IDs and LSNs are those of a batch.
	Range feed.Range `json:"range,omitzero"`
	IDs   []string   `json:"ids,omitempty"`
	LSNs  []int64    `json:"lsns,omitempty"`
	// Done and Of are how much of its last batch a host has copied.
	Done int `json:"done,omitempty"`
	Of   int `json:"of,omitempty"`
}

// The events.
const (
	eventAcquired = "acquired"
	eventReleased = "released"
	eventFailed   = "failed"
	eventDeliver  = "deliver"
	eventHandled  = "handled"
	eventDying    = "dying"
)

// process is a host that is a process of its own, as the demo sees it.
type process struct {
	name  string
	tally *tally
	say   func(format string, args ...any)

	cmd    *exec.Cmd
	input  io.WriteCloser
	closed sync.Once
	fell   sync.Once
	killed atomic.Bool
	// done is closed when the process has ended, with err set before.
	done chan struct{}
	err  error
}

// startProcess starts this program again, as a host.
func startProcess(ctx context.Context, name string, s *served, at places, key string, t *tally, say func(string, ...any)) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, tally: t, say: say, cmd: exec.CommandContext(ctx, self, HostCommand), done: make(chan struct{})}
	p.cmd.Stderr = os.Stderr
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		p.listen(out)
	}()
	go func() {
		defer close(p.done)
		<-heard
		p.err = p.cmd.Wait()
	}()
	err = p.tell(job{
		Name: name, Endpoint: s.Endpoint(), Key: s.Settings.Key,
		Source: at.source.name, Target: at.target.name, TheirKey: key, Leases: at.leases.name,
	})
	if err != nil {
		p.kill()
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), p.end())
	}
	say("%s is process %d", name, p.cmd.Process.Pid)
	return p, nil
}

// tell writes a line to the process.
func (p *process) tell(what any) error {
	line, err := json.Marshal(what)
	if err != nil {
		return err
	}
	_, err = p.input.Write(append(line, '\n'))
	return err
}

// listen counts what the process does, until it says no more.
func (p *process) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			p.say("%s: %s", p.name, lines.Text())
			continue
		}
		p.hear(e)
	}
	_, _ = io.Copy(io.Discard, out) // a line that is too long doesn't hold the process up
}

// maxLine is the longest line of a process: the ids of a batch.
const maxLine = 16 << 20

func (p *process) hear(e event) {
	switch e.Event {
	case eventAcquired:
		p.tally.acquired(p.name, e.Lease)
	case eventReleased:
		p.tally.released(p.name, e.Lease)
	case eventFailed:
		if !p.crashed() {
			p.say("%s: %s", p.name, e.Text)
		}
	case eventDeliver:
		if err := p.tally.deliver(p.name, e.batch()); err != nil {
			p.say("%s: %v", p.name, err)
		}
	case eventHandled:
		p.tally.handled(e.batch())
	case eventDying:
		p.crash("with %d of %d changes of a batch copied", e.Done, e.Of)
	}
}

// batch is the batch of an event, as far as it is counted.
func (e event) batch() *changefeed.Batch {
	b := &changefeed.Batch{Range: e.Range}
	for i, id := range e.IDs {
		b.Changes = append(b.Changes, feed.Change{DeletedID: id, LSN: e.LSNs[i]})
	}
	return b
}

func (p *process) called() string { return p.name }

func (p *process) doom() { _ = p.tell(doomed) } // a process that has ended needs not be told

// crash kills the process, the first time.
func (p *process) crash(how string, args ...any) {
	p.fell.Do(func() {
		p.kill()
		p.say("%s is killed (SIGKILL, process %d) "+how+", its leases not released", append([]any{p.name, p.cmd.Process.Pid}, args...)...)
	})
}

func (p *process) kill() {
	p.killed.Store(true)
	_ = p.cmd.Process.Kill() // one that has ended is as good
}

func (p *process) crashed() bool { return p.killed.Load() }

func (p *process) stop() { p.closed.Do(func() { _ = p.input.Close() }) }

func (p *process) end() error {
	p.stop()
	<-p.done
	if p.err != nil && !p.crashed() {
		return fmt.Errorf("%s: %w", p.name, p.err)
	}
	return nil
}

// speaker writes events, one a line.
type speaker struct {
	mu sync.Mutex // keeps the lines apart
	to io.Writer
}

func (s *speaker) say(e event) {
	line, err := json.Marshal(e)
	if err != nil {
		return // an event always marshals
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.to.Write(append(line, '\n')) // without listener the input ends, too
}

// isDoom reports whether a line of input dooms the host.
func isDoom(line string) bool { return strings.Trim(line, `"`) == doomed }

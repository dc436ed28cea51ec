package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
)

// HostCommand is the name of the hidden subcommand of a host's process, which calls [RunHost].
const HostCommand = "demo-host"

// doomed is the input line that makes a host's process crash in its next batch. The end
// of the input stops the process, so no host outlives the demo.
const doomed = "doom"

// job is the first input line of a host's process. It contains the process's
// configuration as JSON.
type job struct {
	Name      string `json:"name"`
	Endpoint  string `json:"endpoint"`
	Key       string `json:"key"`
	Source    string `json:"source"`
	Target    string `json:"target"`
	TargetKey string `json:"targetKey"` // the field that the target is keyed by
	Leases    string `json:"leases"`
}

// processHost is the demo's handle of a host that runs in a process of its own.
type processHost struct {
	name string
	say  func(format string, args ...any)

	cmd       *exec.Cmd
	input     io.WriteCloser
	closeOnce sync.Once
	crashOnce sync.Once
	killed    atomic.Bool
	// done is closed when the process has ended. err is its error, and is set before.
	done chan struct{}
	err  error
}

// startProcess starts this program once more, as the process of a host.
func (r *runner) startProcess(ctx context.Context, name string) (*processHost, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	h := &processHost{name: name, say: r.say, cmd: exec.CommandContext(ctx, self, HostCommand), done: make(chan struct{})}
	h.cmd.Stderr = os.Stderr
	if h.input, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := h.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() { // ends with the process, which end waits for
		defer close(h.done)
		h.listen(out, func(e event) { r.hear(h, e) })
		h.err = h.cmd.Wait()
	}()
	err = h.tell(job{
		Name: name, Endpoint: r.server.Endpoint(), Key: r.server.Settings.Key, Source: r.containers.source.name(),
		Target: r.containers.target.name(), TargetKey: r.data.newKey, Leases: r.containers.leases.name(),
	})
	if err != nil {
		h.kill()
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), h.end())
	}
	r.say("%s is process %d", name, h.cmd.Process.Pid)
	return h, nil
}

// tell writes line, as JSON, to the input of the process.
func (h *processHost) tell(line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = h.input.Write(append(text, '\n'))
	return err
}

// maxLine is the maximum length of a process's output line, in bytes. The longest lines
// contain the IDs of a batch.
const maxLine = 16 << 20

// listen reads the events in the output of the process, and passes each to hear. It
// returns when the output ends.
func (h *processHost) listen(out io.Reader, hear func(event)) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			h.say("%s: %s", h.name, lines.Text())
			continue
		}
		hear(e)
	}
	_, _ = io.Copy(io.Discard, out) // a line that is too long must not block the process
}

func (h *processHost) called() string { return h.name }

func (h *processHost) doom() { _ = h.tell(doomed) } // an error means that the process has ended

// crash kills the process. Further calls do nothing.
func (h *processHost) crash(how string, args ...any) {
	h.crashOnce.Do(func() {
		h.kill()
		h.say("%s is killed (SIGKILL, process %d) "+how+", its leases not released", append([]any{h.name, h.cmd.Process.Pid}, args...)...)
	})
}

func (h *processHost) kill() {
	h.killed.Store(true)
	_ = h.cmd.Process.Kill() // an error means that the process has ended
}

func (h *processHost) crashed() bool { return h.killed.Load() }

func (h *processHost) stop() { h.closeOnce.Do(func() { _ = h.input.Close() }) }

func (h *processHost) end() error {
	h.stop()
	<-h.done
	if h.err != nil && !h.crashed() {
		return fmt.Errorf("%s: %w", h.name, h.err)
	}
	return nil
}

// RunHost runs a host's process. It reads its job from the first line of in, copies until in
// ends, and writes its events to out.
func RunHost(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.Join(errors.New("this command is for `changefeed demo --processes`, which starts it"), lines.Err())
	}
	var j job
	if err := json.Unmarshal(lines.Bytes(), &j); err != nil {
		return fmt.Errorf("the job of this host: %w", err)
	}
	account, err := cosmos.WithKey(j.Endpoint, j.Key, cosmos.Options{})
	if err != nil {
		return err
	}
	target := account.Bulk(database, j.Target, cosmos.BulkOptions{})
	var writing sync.Mutex // keeps lines of different goroutines apart
	c := &copier{
		report: func(e event) {
			line, err := json.Marshal(e)
			if err != nil {
				return // an event always marshals
			}
			writing.Lock()
			defer writing.Unlock()
			_, _ = out.Write(append(line, '\n')) // without a reader the input ends, too
		},
		write: func(ctx context.Context, changes []feed.Change) error {
			return bulkCopy(ctx, target, j.TargetKey, changes)
		},
		hang: func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }, // until the demo kills it
	}
	p, err := changefeed.New(c.config(j.Name,
		account.Source(database, j.Source, cosmos.SourceOptions{}), account.Leases(database, j.Leases, cosmos.LeaseOptions{})))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // until the process ends, or its input does
		for lines.Scan() {
			if strings.Trim(lines.Text(), `"`) == doomed {
				c.doomed.Store(true)
			}
		}
		cancel()
	}()
	return p.Run(ctx)
}

// bulkCopy writes changes by bulk requests to a container whose partition key is the
// field key.
func bulkCopy(ctx context.Context, target *cosmos.Bulk, key string, changes []feed.Change) error {
	ops := make([]cosmos.BulkOperation, 0, len(changes))
	for _, c := range changes {
		k, err := keyOf(c.Current, key)
		if err != nil {
			return fmt.Errorf("copy: %w", err)
		}
		ops = append(ops, cosmos.BulkOperation{Key: k, Body: c.Current})
	}
	results, err := target.Do(ctx, ops)
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	for i, r := range results {
		if !r.Done() {
			return fmt.Errorf("copy: document with key %s: status %d %s %s", ops[i].Key, r.Status, http.StatusText(r.Status), r.Message)
		}
	}
	return nil
}

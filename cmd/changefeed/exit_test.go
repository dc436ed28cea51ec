package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
)

// cuttingProxy is a TCP proxy on this machine. It forwards connections to an endpoint
// until cut is called.
type cuttingProxy struct {
	listener net.Listener
	target   string
	all      sync.WaitGroup

	mu   sync.Mutex // guards open
	open map[net.Conn]bool
}

// newProxy starts a proxy to an endpoint. The proxy ends with the test.
func newProxy(t *testing.T, endpoint string) *cuttingProxy {
	t.Helper()
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	p := &cuttingProxy{target: u.Host, open: map[net.Conn]bool{}}
	if p.listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	p.all.Go(func() {
		for {
			client, err := p.listener.Accept()
			if err != nil {
				return
			}
			p.all.Go(func() { p.forward(client) })
		}
	})
	t.Cleanup(func() {
		_ = p.listener.Close()
		p.cut()
		p.all.Wait()
	})
	return p
}

func (p *cuttingProxy) endpoint() string { return "http://" + p.listener.Addr().String() + "/" }

func (p *cuttingProxy) forward(client net.Conn) {
	server, err := (&net.Dialer{}).Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.open[client], p.open[server] = true, true
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
	both.Go(func() { _, _ = io.Copy(client, server); _ = client.Close() })
	both.Wait()
	p.mu.Lock()
	delete(p.open, client)
	delete(p.open, server)
	p.mu.Unlock()
}

// cut resets all open connections. If a client then writes to its connection, it gets a
// broken pipe.
func (p *cuttingProxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
}

// A broken connection must not end a command. A write to it raises SIGPIPE, as a write to
// a closed standard output does. The test also sends that signal, because a broken
// connection does not always raise it.
func TestABrokenSocketEndsNoCommand(t *testing.T) {
	a := newAccount(t)
	proxy := newProxy(t, a.endpoint)
	file := filepath.Join(t.TempDir(), "key")
	write(t, file, a.key)
	cmd := process(t, "replicate", "--from", proxy.endpoint()+"shop/orders", "--to", proxy.endpoint()+"shop/copy", "--create",
		"--from-key-file", file, "--to-key-file", file)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	a.order(0)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		ended <- cmd.Wait()
		cancel()
	}()
	var copied *store.Container
	for copied == nil && ctx.Err() == nil { // wait until the command has created the target
		copied, _ = a.db.Container(ctx, "shop", "copy")
	}
	if copied == nil {
		t.Fatalf("it ended: %v\n%s", <-ended, &said)
	}
	reader, err := feed.NewReader(a.db.Source(copied), feed.ReaderConfig{Start: feed.Beginning(), Follow: true, Wait: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	const orders = 3
	arrived := 0
	for page, err := range reader.Pages(ctx) { // each order is written after the previous one was copied
		if err != nil {
			t.Fatalf("it ended: %v\n%s", <-ended, &said)
		}
		if len(page.Changes) == 0 {
			continue
		}
		if arrived++; arrived == orders {
			break
		}
		proxy.cut()
		_ = cmd.Process.Signal(syscall.SIGPIPE) // an error means that the process has ended, which the next page finds
		a.order(arrived)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err = <-ended
	if code := cmd.ProcessState.ExitCode(); code != statusOfReplicate(said.String(), syscall.SIGTERM) {
		t.Errorf("stopped by a signal: %v\n%s", err, &said)
	}
}

// sayCaughtUp matches the line that a replication prints when it has caught up. In all
// versions and deletes mode, the first part of the copy prints another line.
var sayCaughtUp = regexp.MustCompile(`(?m)^copied .*, caught up`)

// statusOfReplicate returns the exit status that a replication must have when a signal
// ends it. It depends on whether out, its output, reports that it has caught up.
func statusOfReplicate(out string, s syscall.Signal) int {
	switch interrupted := strings.Contains(out, "changefeed: interrupted before the copy had caught up"); {
	case sayCaughtUp.MatchString(out) && !interrupted:
		return exitOK
	case !sayCaughtUp.MatchString(out) && interrupted:
		return exitSignal + int(s)
	}
	return -1 // the output contradicts itself, so no status is correct
}

// unread is a standard output whose reader closes it after left writes.
type unread struct{ left int }

func (u *unread) Write(p []byte) (int, error) {
	if u.left--; u.left < 0 {
		return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
	}
	return len(p), nil
}

func TestACommandWithAClosedOutputEndsWithItsOwnStatus(t *testing.T) {
	a := newAccount(t)
	for i := range 3 {
		a.order(i)
	}
	a.handled()
	file := filepath.Join(t.TempDir(), "key")
	write(t, file, a.key)
	orders := []string{"--endpoint", a.endpoint, "--key-file", file, "--database", "shop", "--container", "orders"}
	for _, args := range [][]string{
		append([]string{"tail"}, orders...),
		append([]string{"tail", "--follow", "--interval", "10ms"}, orders...),
		append([]string{"lag", "--watch", "--interval", "10ms"}, orders...),
		append([]string{"leases", "ls"}, orders...),
		{
			"replicate", "--from", a.endpoint + "/shop/orders", "--to", a.endpoint + "/shop/copy", "--create",
			"--from-key-file", file, "--to-key-file", file,
		},
		{"serve", "--listen", "127.0.0.1:0", "--tls", "off"},
		{"--help"},
	} {
		var errOut strings.Builder
		if code := run(t.Context(), args, strings.NewReader(""), &unread{}, &errOut); code != exitUnread || errOut.Len() > 0 {
			t.Errorf("%v: status %d, %s", args[:2], code, &errOut)
		}
	}
}

// If a server closes a connection in the middle of a request, the command reports "broken
// pipe" as an error. It must not take it for its own closed output.
func TestABrokenPipeOfASocketIsReported(t *testing.T) {
	var said strings.Builder
	cmd := &cobra.Command{}
	cmd.SetErr(&said)
	broken := &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}
	if code := exit(t.Context(), cmd, fmt.Errorf("list the leases: %w", broken)); code != exitFailed || !strings.Contains(said.String(), "broken pipe") {
		t.Errorf("status %d, %q", code, &said)
	}
}

// If closing the store fails after a signal, the command must report that error. The
// store may lack acknowledged writes, and the message "interrupted" alone would hide
// that.
func TestAFailureAfterASignalIsReported(t *testing.T) {
	full := fmt.Errorf("close the store: %w", syscall.ENOSPC)
	canceled := fmt.Errorf("read: %w", context.Canceled)
	for _, c := range []struct {
		err  error
		code int
	}{
		{full, exitFailed},
		{errors.Join(canceled, full), exitFailed},
		{fmt.Errorf("serve: %w", errors.Join(canceled, errors.Join(nil, full))), exitFailed},
		{canceled, exitInterrupted},
		{errors.Join(canceled, context.Canceled), exitInterrupted},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var said strings.Builder
		cmd := &cobra.Command{}
		cmd.SetErr(&said)
		code := exit(ctx, cmd, c.err)
		if code != c.code || !strings.Contains(said.String(), "interrupted") || strings.Contains(said.String(), full.Error()) != (c.code == exitFailed) {
			t.Errorf("%v: status %d, %q", c.err, code, &said)
		}
	}
}

// If a signal ends unfinished work, the exit status is 128 plus the signal's number. So a
// script can detect whether a copy is complete.
func TestWorkThatASignalStopsEndsWithTheSignalsStatus(t *testing.T) {
	a := newAccount(t)
	a.order(1)
	file := filepath.Join(t.TempDir(), "key")
	write(t, file, a.key)
	begun := regexp.MustCompile(`leases in shop/leases`)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd := process(t, "replicate", "--from", a.endpoint+"/shop/orders", "--to", a.endpoint+"/shop/copy", "--create", "--until-caught-up",
			"--from-key-file", file, "--to-key-file", file)
		var errOut strings.Builder
		cmd.Stderr = &errOut
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		for p := make([]byte, 1<<10); err == nil && !begun.MatchString(said.String()); {
			var n int
			n, err = out.Read(p)
			said.Write(p[:n])
		}
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, out)
		err = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != exitSignal+int(s) || !strings.Contains(errOut.String(), "interrupted before the copy had caught up") {
			t.Errorf("%v: %v, %s\n%s", s, err, &errOut, &said)
		}
	}
}

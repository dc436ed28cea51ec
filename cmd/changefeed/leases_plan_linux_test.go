package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// openTerminal opens a terminal, and the end from which the test types into it.
func openTerminal(t *testing.T) (typed, terminal *os.File) {
	t.Helper()
	typed, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("the system has no pseudo terminals: %v", err)
	}
	t.Cleanup(func() { _ = typed.Close() })
	var unlock, number uint32
	for request, value := range map[uintptr]*uint32{syscall.TIOCSPTLCK: &unlock, syscall.TIOCGPTN: &number} {
		if _, _, code := syscall.Syscall(syscall.SYS_IOCTL, typed.Fd(), request, uintptr(unsafe.Pointer(value))); code != 0 { //nolint:gosec // ioctl takes a pointer
			t.Fatal(code)
		}
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	return typed, terminal
}

func TestACommandOnATerminalAsks(t *testing.T) {
	s := behind(t)
	id := s.live[2].ID
	for _, c := range []struct {
		answer string
		code   int
		at     string
	}{{"\n", exitFailed, "LSN 30"}, {"no\n", exitFailed, "LSN 30"}, {"y\n", exitOK, "LSN 35"}} {
		typed, terminal := openTerminal(t)
		if _, err := typed.WriteString(c.answer); err != nil {
			t.Fatal(err)
		}
		var out, errOut strings.Builder
		code := run(t.Context(), []string{"leases", "reset", id, "--to", "now", "--data", s.dir, "--database", "shop", "--container", "orders"}, terminal, &out, &errOut)
		if code != c.code || !strings.HasSuffix(strings.SplitAfter(out.String(), "[y/N] ")[0], "skips the changes of at most 5 transactions\nCarry it out? [y/N] ") || s.positions()[id] != c.at {
			t.Errorf("%q: status %d, at %s: %s%s", c.answer, code, s.positions()[id], out.String(), errOut.String())
		}
	}
}

// The first Ctrl-C at the question must end the command. The read of the terminal does not
// notice it, so the command once waited for a line, and carried out the plan after a "y".
func TestASignalAtTheQuestionEndsTheCommand(t *testing.T) {
	s := behind(t)
	id := s.live[2].ID
	for name, args := range map[string][]string{
		"reset":   {"leases", "reset", id, "--to", "now", "--data", s.dir, "--database", "shop", "--container", "orders"},
		"restore": {"restore", s.dir},
	} {
		typed, terminal := openTerminal(t)
		late := time.AfterFunc(20*time.Second, func() { _, _ = typed.WriteString("y\n") })
		ctx, end := context.WithCancelCause(t.Context())
		asked, out := make(chan struct{}), new(strings.Builder)
		go func() {
			<-asked
			end(&endedError{reason: "interrupted", status: exitSignal + int(syscall.SIGTERM)})
		}()
		var errOut strings.Builder
		code := run(ctx, args, terminal, writerFunc(func(p []byte) (int, error) {
			if strings.HasSuffix(string(p), "[y/N] ") {
				close(asked)
			}
			return out.Write(p)
		}), &errOut)
		if !late.Stop() || code != 143 || !strings.HasSuffix(out.String(), "[y/N] \n") || errOut.String() != "changefeed: interrupted\n" || s.positions()[id] != "LSN 30" {
			t.Errorf("%s: status %d, at %s: %s%s", name, code, s.positions()[id], out.String(), errOut.String())
		}
	}
}

// writerFunc is a writer by its method.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

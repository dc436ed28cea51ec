package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/listen"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/replicate"
	"github.com/changefeed-go/changefeed/storetype"
)

// The exit codes. A signal ends a command with exitSignal and its number, as shells report it.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitSignal      = 128
	exitInterrupted = exitSignal + int(syscall.SIGINT)
	exitUnread      = exitSignal + int(syscall.SIGPIPE)
)

// endedError is the cause of a context that ended before its command did. [errors.Is]
// reports it as [context.Canceled].
type endedError struct {
	reason string
	status int
}

func (e *endedError) Error() string { return e.reason }

// Is reports whether target is [context.Canceled].
func (*endedError) Is(target error) bool { return target == context.Canceled }

// errUnread is the cause of the end of a command whose output is no longer read, because
// its reader has closed the pipe.
var errUnread = &endedError{reason: "the reader of the output closed it", status: exitUnread}

// untilSignal returns a context that ends at the first signal that ends a command, so
// that the command can clean up. A second signal ends the process at once.
func untilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	received := make(chan os.Signal, 1)
	signal.Notify(received, endingSignals()...)
	go func() {
		select {
		case s := <-received:
			signal.Stop(received)
			status := exitFailed
			if number, known := s.(syscall.Signal); known {
				status = exitSignal + int(number)
			}
			cancel(&endedError{reason: "interrupted", status: status})
		case <-ctx.Done():
			signal.Stop(received)
		}
	}()
	return ctx, func() { cancel(nil) }
}

// endingSignals returns the signals that end a command. Under nohup, SIGHUP is not one of
// them.
func endingSignals() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// exit prints err, unless it is nil or was printed already, and returns the exit code of
// the command.
func exit(ctx context.Context, cmd *cobra.Command, err error) int {
	var (
		usage   *usageError
		account *connect.UsageError
		address *listen.Error
		aside   *replicate.SetAsideError
	)
	switch {
	case err == nil && errors.Is(context.Cause(ctx), errUnread):
		return exitUnread // err may only be a result of the closed output
	case err == nil:
		return exitOK
	case errors.Is(err, errReported):
		return exitFailed
	case errors.As(err, &usage), errors.As(err, &account), errors.As(err, &address):
		cmd.PrintErrf("changefeed: %s\nRun '%s --help' for usage.\n", plainText(err), cmd.CommandPath())
		return exitUsage
	case errors.As(err, &aside): // also after a signal
		cmd.PrintErrf("changefeed: %s\n", plainText(err))
		return exitFailed
	case ctx.Err() != nil || errors.Is(err, context.Canceled):
		code, text := interruption(ctx, err)
		if text != "" {
			cmd.PrintErrln("changefeed: " + text)
		}
		return code
	}
	advice := connect.Advice(err)
	if _, ok := errors.AsType[*storetype.LockedError](err); ok {
		advice = "; wait for it to end, or stop it"
	}
	cmd.PrintErrf("changefeed: %s%s\n", plainText(err), advice)
	return exitFailed
}

// plainText returns the text of an error for the user, in one line, with shortened answers
// and without account keys.
func plainText(err error) string { return connect.Secretless(connect.Text(err)) }

// errReported makes a command fail with an error that it has printed already.
var errReported = errors.New("reported")

// interruption returns the exit code and the last line of a command that returned err
// after its context had ended. If err also contains another error, the command has
// failed.
func interruption(ctx context.Context, err error) (code int, text string) {
	ended := &endedError{reason: "interrupted", status: exitInterrupted} // for instance by a key press in the demo
	_ = errors.As(context.Cause(ctx), &ended)                            // if there is another cause, ended does not change
	reason := ended.reason
	if _, unfinished := errors.AsType[*replicate.UnfinishedError](err); unfinished {
		reason += " before the copy had caught up"
	}
	if rest := besidesCanceled(err); rest != nil {
		return exitFailed, fmt.Sprintf("%s, and the shutdown failed: %s", reason, plainText(rest))
	}
	if ended == errUnread {
		return ended.status, ""
	}
	return ended.status, reason
}

// besidesCanceled returns the errors in err that do not come from the end of a context.
// It returns nil if there are none.
func besidesCanceled(err error) error {
	if !errors.Is(err, context.Canceled) {
		return err
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return nil
	}
	var rest []error
	for _, e := range joined.Unwrap() {
		rest = append(rest, besidesCanceled(e))
	}
	return errors.Join(rest...)
}

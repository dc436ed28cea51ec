package leases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// Stopped describes the stop of a lease in JSON outputs.
type Stopped struct {
	// Since is when the handler stopped the lease, by the clock of its host.
	Since time.Time `json:"since"`
	// Reason is the beginning of the text of the handler's error.
	Reason string `json:"reason"`
}

// stoppedOf returns the stop of a lease, or nil if the lease is not stopped.
func stoppedOf(i Item) *Stopped {
	stop := protocol.StopOf(i.Lease)
	if stop.IsZero() {
		return nil
	}
	return &Stopped{Since: stop.At.UTC(), Reason: stop.Reason}
}

// StoppedAmong returns the leases among items that their handler has stopped.
func StoppedAmong(items []Item) []Item {
	return slices.DeleteFunc(slices.Clone(items), func(i Item) bool { return stoppedOf(i) == nil })
}

// Resume ends the stops of leases. Their owners need not be asked: they see the write at
// their next one.
type Resume struct {
	// DryRun only prints the changes.
	DryRun bool
	// Out receives the progress.
	Out io.Writer
}

// Run resumes the stopped leases among items.
func (r Resume) Run(ctx context.Context, c *Container, s Survey, items []Item) error {
	names := view.NamesIn(s.Tokens())
	for _, i := range items {
		text, err := r.resume(ctx, c, s, i)
		if err != nil {
			return fmt.Errorf("resume lease %s: %w", i.Token, err)
		}
		if _, err := fmt.Fprintln(r.Out, view.OneLine(names.In(text))); err != nil {
			return err
		}
	}
	return nil
}

// resume ends the stop of a lease, and returns what it did. If the owner writes the lease at
// the same time, resume reads it again.
func (r Resume) resume(ctx context.Context, c *Container, s Survey, i Item) (text string, err error) {
	for {
		stop := protocol.StopOf(i.Lease)
		if stop.IsZero() {
			return fmt.Sprintf("lease %s is not stopped", i.Token), nil
		}
		since := fmt.Sprintf("stopped since %s (%s)", stop.At.UTC().Format(time.RFC3339), stop.Reason)
		if r.DryRun {
			return fmt.Sprintf("would resume lease %s, %s", i.Token, since), nil
		}
		_, err := c.update(ctx, &s, &i, protocol.Resumed(i.Lease))
		_, again := errors.AsType[*lease.ConflictError](err)
		switch {
		case again:
		case errors.Is(err, feed.ErrNotFound):
			return "", errors.New("it no longer exists: its partition was split or merged, and its children are stopped as well; resume them")
		case err != nil:
			return "", err
		case s.State(i.Lease) == Live:
			return fmt.Sprintf("lease %s is resumed; %s goes on at its next write of the lease; it was %s", i.Token, protocol.Instance(i.Owner), since), nil
		default:
			return fmt.Sprintf("lease %s is resumed; its next owner goes on; it was %s", i.Token, since), nil
		}
	}
}

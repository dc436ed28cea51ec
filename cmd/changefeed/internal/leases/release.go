package leases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
)

// Release releases leases. If a host of this project owns a live lease, Release
// writes into it that it wants it, as another host would, and waits until the owner has
// released it. It frees expired leases itself.
type Release struct {
	// Owner is the owner text of this command. The leases that it wants contain it.
	Owner string
	// Timeout is the maximum time to wait for all leases together.
	Timeout time.Duration
	// Force frees live leases at once, without asking their owners.
	Force bool
	// DryRun only prints the changes.
	DryRun bool
	// Out receives the progress.
	Out io.Writer

	names view.ShortNames
}

// pollInterval is the time between two reads of a lease that Release waits for.
const pollInterval = time.Second

// ErrNotReleased reports that some leases were not free after the timeout.
var ErrNotReleased = errors.New("not all leases are free")

// ForeignOwnerError reports that the live owner of a lease is of another implementation,
// which does not release leases on request.
type ForeignOwnerError struct{ Token, Owner string }

func (e *ForeignOwnerError) Error() string {
	return fmt.Sprintf("lease %s is owned by %s, a host of .NET or Java, which does not release leases on request; stop that host, or use --force: %s", e.Token, e.Owner, ForceCosts)
}

// Run releases items. It returns a *[ForeignOwnerError] before it changes anything, or
// [ErrNotReleased] after the timeout.
func (r Release) Run(ctx context.Context, c *Container, s Survey, items []Item) error {
	r.names = view.NamesIn(s.Tokens())
	for _, i := range items {
		if s.State(i.Lease) != Live || r.Force {
			continue
		}
		if !protocol.Ours(i.Owner) && !r.DryRun {
			return &ForeignOwnerError{Token: i.Token, Owner: i.Owner}
		}
		if parent, shadowed := s.ancestor(i.Lease); shadowed {
			return fmt.Errorf("lease %s waits for the end of its parent %s, and its owner releases it then; release the parent", i.Token, parent.Token)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	answers := make([]answer, len(items))
	for n, i := range items {
		var err error
		if answers[n], err = r.begin(ctx, c, s, i); err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return r.timeoutError(ctx, i)
		}
		if err != nil {
			return fmt.Errorf("release lease %s: %w", i.Token, err)
		}
	}
	for n, i := range items {
		if answers[n] == settled {
			continue
		}
		if err := r.wait(ctx, c, s, i, answers[n] == wanted); err != nil {
			return err
		}
	}
	if r.DryRun {
		return nil
	}
	return r.printf("A lease stays free for at most an acquire interval (17 s by default). Then any host may acquire it, including the same one. To keep it free, stop the hosts.")
}

// printf prints one line.
func (r Release) printf(format string, args ...any) error {
	_, err := fmt.Fprintln(r.Out, view.OneLine(r.names.In(fmt.Sprintf(format, args...))))
	return err
}

// answer is the result of an attempt to free a lease or to write that it is wanted.
type answer int

const (
	settled answer = iota // the lease is free, or no longer needs to be waited for
	wanted                // the command wants the lease, and the document says so
	refused               // that it wants the lease could not be written yet, for instance because the owner has just renewed the lease
)

// begin frees a lease that is expired, or asks its live owner to release it.
func (r Release) begin(ctx context.Context, c *Container, s Survey, i Item) (answer, error) {
	owner := protocol.Instance(i.Owner)
	switch state := s.State(i.Lease); {
	case state == Free:
		return settled, r.printf("lease %s is free", i.Token)
	case r.DryRun && (state == Expired || r.Force):
		return settled, r.printf("would free lease %s of %s", i.Token, owner)
	case r.DryRun && !protocol.Ours(i.Owner):
		return settled, r.printf("note: %v", &ForeignOwnerError{Token: i.Token, Owner: i.Owner})
	case r.DryRun:
		return settled, r.printf("would ask %s for lease %s", owner, i.Token)
	case state == Expired || r.Force:
		if _, err := c.Replace(ctx, i.Document, s.Codec.Encode(protocol.Released(i.Lease, ""))); err != nil {
			return settled, err
		}
		return settled, r.printf("lease %s of %s is free; it was %s", i.Token, owner, state)
	case s.Age(i.Lease) >= s.Terms.Young():
		// The owner may be dead, and a write would make the lease look renewed. So
		// begin waits until the owner writes the lease, or until the lease expires.
		return refused, r.printf("lease %s: %s has not written it for %s; waiting until it does, or until the lease expires", i.Token, owner, s.Age(i.Lease))
	case i.Wanted() != "":
		return wanted, r.printf("lease %s of %s is already wanted by %s", i.Token, owner, protocol.Instance(i.Wanted()))
	}
	_, err := c.Replace(ctx, i.Document, s.Codec.Encode(protocol.Wanted(i.Lease, r.Owner)))
	if changed(err) {
		return refused, nil
	}
	if err != nil {
		return settled, err
	}
	return wanted, r.printWanted(i)
}

// printWanted prints that the owner of a lease sees from now on that the command wants it.
func (r Release) printWanted(i Item) error {
	return r.printf("lease %s is wanted; its owner %s finishes its batch first", i.Token, protocol.Instance(i.Owner))
}

// wait reads a lease repeatedly until its owner has released it. isWanted reports whether
// the document says already that the command wants it. If not, wait writes that.
func (r Release) wait(ctx context.Context, c *Container, s Survey, i Item, isWanted bool) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		d, now, err := c.Read(ctx, i.Document.ID, i.Key)
		switch {
		case errors.Is(err, feed.ErrNotFound):
			return r.printf("lease %s no longer exists: its partition was split or merged, or the lease was deleted", i.Token)
		case ctx.Err() != nil:
			return r.timeoutError(ctx, i)
		case err != nil:
			return fmt.Errorf("wait for lease %s: %w", i.Token, err)
		}
		l, err := s.Codec.Decode(d.Body)
		if err != nil {
			return fmt.Errorf("wait for lease %s: %w", i.Token, err)
		}
		s.Now = now
		switch {
		case l.Owner == "":
			return r.printf("lease %s is free, at %s", i.Token, Position(l))
		case l.Owner != i.Owner:
			return r.printf("lease %s was released; %s owns it now", i.Token, protocol.Instance(l.Owner))
		case s.State(l) == Expired:
			return r.printf("lease %s has expired: %s does not run any more, and any host may acquire it", i.Token, protocol.Instance(l.Owner))
		case l.Wanted() == "" && isWanted:
			// A lease stays wanted until a host acquires it.
			return r.printf("lease %s was free, and %s has acquired it again", i.Token, protocol.Instance(l.Owner))
		case l.Wanted() == "" && s.Age(l) < s.Terms.Young():
			_, err := c.Replace(ctx, d, s.Codec.Encode(protocol.Wanted(l, r.Owner)))
			if isWanted = err == nil; err != nil && !changed(err) && ctx.Err() == nil {
				return fmt.Errorf("want lease %s: %w", i.Token, err)
			}
			if isWanted {
				if err := r.printWanted(i); err != nil {
					return err
				}
			}
		case l.Wanted() != "":
			isWanted = true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return r.timeoutError(ctx, i)
		}
	}
}

// timeoutError returns the error for a lease that was not released before the timeout or
// an interrupt.
func (r Release) timeoutError(ctx context.Context, i Item) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %s still owns lease %s after %s, perhaps because its handler has a batch; the lease is wanted, so that host releases it after the batch", ErrNotReleased, protocol.Instance(i.Owner), i.Token, r.Timeout)
}

func changed(err error) bool {
	var c *ChangedError
	return errors.As(err, &c)
}

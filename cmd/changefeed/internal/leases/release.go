package leases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Release gives leases free. It asks a live owner of our kind as another host would, and waits until it has handed the
// lease over; what has expired it frees itself.
type Release struct {
	// Owner is the command's own owner text, by which it asks.
	Owner string
	// Timeout is how long it waits for all of them.
	Timeout time.Duration
	// Force frees live leases at once, under their owners.
	Force bool
	// DryRun changes nothing, and says what would be done.
	DryRun bool
	// Out gets what is done.
	Out io.Writer
}

// pollInterval is how often a lease that was asked for is looked at.
const pollInterval = time.Second

// ErrNotReleased is wrapped when the time was up before all leases were free.
var ErrNotReleased = errors.New("not all leases are free")

// ForeignOwnerError tells that a lease has a live owner of another implementation, which can't be asked.
type ForeignOwnerError struct{ Token, Owner string }

func (e *ForeignOwnerError) Error() string {
	return fmt.Sprintf("lease %s is owned by %s, a host of another implementation (.NET or Java), which hands nothing over when it is asked: stop that host, or say --force: %s", e.Token, e.Owner, ForceCosts)
}

// Run carries it out. Errors: *[ForeignOwnerError], before anything is done; [ErrNotReleased].
func (r Release) Run(ctx context.Context, c *Container, s Survey, items []Item) error {
	for _, i := range items {
		if s.State(i.Lease) != Live || r.Force {
			continue
		}
		if !lease.Ours(i.Owner) {
			return &ForeignOwnerError{Token: i.Token, Owner: i.Owner}
		}
		if parent, shadowed := s.ancestor(i.Lease); shadowed {
			return fmt.Errorf("lease %s waits for the end of its parent %s, and its owner gives it up by itself: release that one", i.Token, parent.Token)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	answers := make([]answer, len(items))
	for n, i := range items {
		var err error
		if answers[n], err = r.begin(ctx, c, s, i); err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return r.late(ctx, i)
		}
		if err != nil {
			return fmt.Errorf("release lease %s: %w", i.Token, err)
		}
	}
	for n, i := range items {
		if answers[n] == settled {
			continue
		}
		if err := r.wait(ctx, c, s, i, answers[n] == asked); err != nil {
			return err
		}
	}
	if r.DryRun {
		return nil
	}
	return r.say("A free lease stays so for an acquire interval (17 s by default) at most; then any host may take it, the same one too. To keep it free stop the hosts.\n")
}

func (r Release) say(format string, args ...any) error {
	_, err := fmt.Fprintf(r.Out, format, args...)
	return err
}

// answer is what became of a request for a lease.
type answer int

const (
	settled answer = iota // nothing is to be waited for
	asked                 // the lease is marked
	refused               // it couldn't be asked for yet: by a renewal that came between, for instance
)

// begin frees a lease, or asks for it.
func (r Release) begin(ctx context.Context, c *Container, s Survey, i Item) (answer, error) {
	owner := lease.Instance(i.Owner)
	switch state := s.State(i.Lease); {
	case state == Free:
		return settled, r.say("lease %s is free\n", i.Token)
	case r.DryRun && (state == Expired || r.Force):
		return settled, r.say("would free lease %s of %s\n", i.Token, owner)
	case r.DryRun:
		return settled, r.say("would ask %s for lease %s\n", owner, i.Token)
	case state == Expired || r.Force:
		if _, err := c.Replace(ctx, i.Document, s.Codec.Encode(i.Released(""))); err != nil {
			return settled, err
		}
		return settled, r.say("lease %s of %s is free; it was %s\n", i.Token, owner, state)
	case s.Age(i.Lease) >= s.Terms.Young():
		// Its owner may be dead, and a request would look like a sign of life. Either it writes, or the lease expires.
		return refused, r.say("lease %s: %s hasn't written it for %s; waiting until it does, or the lease expires\n", i.Token, owner, s.Age(i.Lease))
	case i.Wanted() != "":
		return asked, r.say("lease %s: %s was asked for it by %s already\n", i.Token, owner, lease.Instance(i.Wanted()))
	}
	_, err := c.Replace(ctx, i.Document, s.Codec.Encode(i.Asked(r.Owner)))
	if changed(err) {
		return refused, nil
	}
	if err != nil {
		return settled, err
	}
	return asked, r.told(i)
}

// told says that the owner was asked.
func (r Release) told(i Item) error {
	return r.say("lease %s: asked %s for it, who finishes its batch first\n", i.Token, lease.Instance(i.Owner))
}

// wait looks at a lease until its owner has let it go, and asks for it where it isn't marked yet.
func (r Release) wait(ctx context.Context, c *Container, s Survey, i Item, marked bool) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		d, now, err := c.Read(ctx, i.Document.ID, i.Key)
		switch {
		case errors.Is(err, feed.ErrNotFound):
			return r.say("lease %s is gone: its partition was split or merged, or somebody deleted it\n", i.Token)
		case ctx.Err() != nil:
			return r.late(ctx, i)
		case err != nil:
			return fmt.Errorf("wait for lease %s: %w", i.Token, err)
		}
		l, err := s.Codec.Decode(d.Body)
		if err != nil {
			return fmt.Errorf("wait for lease %s: %w", i.Token, err)
		}
		s.Now = now
		switch {
		case l.Free():
			return r.say("lease %s is free, at %s\n", i.Token, Position(l))
		case l.Owner != i.Owner:
			return r.say("lease %s was handed over; %s has it now\n", i.Token, lease.Instance(l.Owner))
		case s.State(l) == Expired:
			return r.say("lease %s has expired: %s is gone, and any host may take it\n", i.Token, lease.Instance(l.Owner))
		case l.Wanted() == "" && marked:
			// A host of our kind keeps the mark until somebody acquires the lease.
			return r.say("lease %s was free, and %s has taken it again\n", i.Token, lease.Instance(l.Owner))
		case l.Wanted() == "" && s.Age(l) < s.Terms.Young():
			_, err := c.Replace(ctx, d, s.Codec.Encode(l.Asked(r.Owner)))
			if marked = err == nil; err != nil && !changed(err) && ctx.Err() == nil {
				return fmt.Errorf("ask for lease %s: %w", i.Token, err)
			}
			if marked {
				if err := r.told(i); err != nil {
					return err
				}
			}
		case l.Wanted() != "":
			marked = true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return r.late(ctx, i)
		}
	}
}

// late says that the time is up, or that the command was interrupted.
func (r Release) late(ctx context.Context, i Item) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %s still has lease %s after %s, with a batch in its handler perhaps; it was asked, and hands the lease over when the batch is done", ErrNotReleased, lease.Instance(i.Owner), i.Token, r.Timeout)
}

func changed(err error) bool {
	var c *ChangedError
	return errors.As(err, &c)
}

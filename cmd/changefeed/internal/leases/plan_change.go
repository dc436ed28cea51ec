package leases

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
)

// Reachable returns an error if a lease's feed ends before start, which no later write would
// mend: its owner could not read from there. A read that fails for another reason says nothing
// about the position.
func (c *Container) Reachable(ctx context.Context, items []Item, start feed.Start) error {
	if start.Kind() != feed.StartContinuation {
		return nil
	}
	for _, i := range items {
		r := protocol.ReadOf(i.Lease, i.Mode, start)
		r.MaxItems = 1
		_, err := c.Source.Read(ctx, r)
		if lost, ok := errors.AsType[*feed.HistoryLostError](err); ok && lost.Ended {
			return fmt.Errorf("lease %s ends at %s; %s is beyond it", i.Token, PositionOf(feed.After(lost.Oldest)), after(start))
		}
	}
	return nil
}

// after returns a position as the flags --to and --from have it.
func after(start feed.Start) string {
	lsn, _ := lsnOf(start.Continuation())
	return fmt.Sprintf("after:%d", lsn)
}

// ResetPlan returns the plan that moves leases to a start. It returns an error if a lease
// waits for its parent's end, because the parent's owner would undo the change.
func ResetPlan(s Survey, items []Item, start feed.Start) ([]Step, error) {
	var steps []Step
	for _, i := range items {
		if parent, shadowed := s.ancestor(i.Lease); shadowed {
			return nil, fmt.Errorf("lease %s waits for the end of its parent %s, whose owner creates it again at its own position; reset the parent, or wait for the end of the split", i.Token, parent.Token)
		}
		kind := start.Kind()
		if i.Mode == feed.AllVersionsAndDeletes && (kind == feed.StartBeginning || kind == feed.StartTime) {
			return nil, fmt.Errorf("lease %s is in %s mode, which cannot start at %s: it must be now or after:LSN", i.Token, i.Mode, describe(start))
		}
		l := s.Codec.Stamped(s.repositioned(i.Lease, start)) // the position now belongs to this container
		steps = append(steps, Step{
			Op: Replace, Before: &i.Document, After: l, Now: kind == feed.StartNow,
			Text: fmt.Sprintf("set lease %s from %s to %s", i.Token, Position(i.Lease), describe(start)),
		})
	}
	return steps, nil
}

// describe returns the text for a start in messages.
func describe(start feed.Start) string {
	if start.Kind() == feed.StartNow {
		return "now"
	}
	return PositionOf(start)
}

// DeletePlan returns the plan that deletes the documents of leases, including unreadable
// and foreign ones. all also deletes the marker, before the leases, so that the next host
// starts for the first time. It returns an error if a lease does not exist.
func DeletePlan(s Survey, tokens []string, all bool) ([]Step, error) {
	var steps []Step
	remove := func(d Document, text string) {
		steps = append(steps, Step{Op: Delete, Before: &d, Text: "delete " + text})
	}
	if all && len(tokens) == 0 {
		if s.Marker != nil {
			steps = append(steps, Step{Op: Unmark, Before: s.Marker, Text: "delete the marker"})
		}
		for _, i := range s.Items {
			remove(i.Document, fmt.Sprintf("lease %s (%s)", i.Token, Position(i.Lease)))
		}
		for _, d := range s.Broken {
			remove(d, d.ID+", which cannot be read")
		}
		return steps, nil
	}
	for _, token := range tokens {
		if d, what, ok := s.findDamaged(token); ok {
			remove(d, what)
			continue
		}
		found, err := s.Select([]string{token}, false)
		if err != nil {
			return nil, err
		}
		remove(found[0].Document, fmt.Sprintf("lease %s (%s)", token, Position(found[0].Lease)))
	}
	if len(tokens) == 0 || all {
		_, err := s.Select(tokens, all)
		return nil, err
	}
	return steps, nil
}

// findDamaged returns an unreadable or foreign document by its token or by its id. what
// describes its kind. `leases ls` and `leases check` print both names.
func (s Survey) findDamaged(token string) (d Document, what string, ok bool) {
	if _, is := s.find(token); is {
		return d, "", false
	}
	named := func(id string) bool { return id == token || strings.TrimPrefix(id, s.Codec.LeasePrefix()) == token }
	for _, d := range s.Broken {
		if named(d.ID) {
			return d, d.ID + ", which cannot be read", true
		}
	}
	for _, f := range s.Foreign {
		if named(f.ID) {
			return f.Document, fmt.Sprintf("%s, in %s", f.ID, f.Dialect), true
		}
	}
	return d, "", false
}

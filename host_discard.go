package changefeed

import (
	"context"
	"errors"
	"fmt"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// inUseError reports that a discard was refused, because the host owner holds a lease.
type inUseError struct{ owner string }

func (e *inUseError) Error() string { return e.owner + " holds a lease" }

// discard deletes the existing leases, so that the processor starts over. It refuses to
// begin while a host holds a lease, because that host would put the lease back.
//
// It deletes the marker first, and then each lease by compare-and-set. So a crash in
// between leaves a store without a marker, in which the next host creates the missing
// leases.
func (h *host) discard(ctx context.Context) error {
	final := func(err error) bool {
		_, inUse := errors.AsType[*inUseError](err)
		return inUse || hopeless(err)
	}
	err := retry(ctx, backoff{jitter: newJitter(h.seed, "discard")}, func() error { return h.discardOnce(ctx) }, final,
		func(err error) { h.fail("", &LeaseStoreError{Op: "discard the leases", Err: err}) })
	if inUse, ok := errors.AsType[*inUseError](err); ok {
		return &ConfigError{"DiscardLeases", fmt.Sprintf("%s; stop the other hosts first, and discard on one", inUse)}
	}
	if err != nil {
		return &LeaseStoreError{Op: "discard the leases", Err: err}
	}
	return nil
}

func (h *host) discardOnce(ctx context.Context) error {
	listCtx, cancel := h.requestContext(ctx)
	listing, err := h.store.List(listCtx)
	cancel()
	if err != nil {
		return err
	}
	if len(listing.Foreign) > 0 { // a marker without leases is deleted too
		return protocol.Refusal(listing, h.dialect)
	}
	for _, l := range listing.Leases {
		if h.terms.Live(l.Owner, l.Modified, listing.Now) {
			return &inUseError{l.Owner}
		}
	}
	markCtx, cancel := h.requestContext(ctx)
	err = h.store.SetInitialized(markCtx, false)
	cancel()
	if err != nil {
		return err
	}
	for _, l := range listing.Leases {
		if err := h.discardLease(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

func (h *host) discardLease(ctx context.Context, l lease.Lease) error {
	ctx, cancel := h.requestContext(ctx)
	defer cancel()
	err := h.store.Delete(ctx, l)
	switch verdict, current := protocol.Judge(err, "", "", ""); {
	case verdict == protocol.Absent:
		return nil
	case current.Owner != "":
		return &inUseError{current.Owner}
	}
	return err
}

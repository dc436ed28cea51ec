package demo

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// event is an action of a host.
type event struct {
	Event string
	// Lease is the token of a lease that was acquired or released.
	Lease string
	// Text is the text of an error.
	Text string
	// Range, IDs and LSNs describe a batch.
	Range feed.Range
	IDs   []string
	LSNs  []int64
	// Done and Of belong to a crash: the host had copied Done of the Of changes of its
	// last batch.
	Done int
	Of   int
}

// The names of the events.
const (
	eventAcquired  = "acquired"
	eventReleased  = "released"
	eventFailed    = "failed"
	eventGivenUp   = "given up"
	eventDelivered = "delivered" // the host begins to handle a batch
	eventHandled   = "handled"
	eventDying     = "dying"
)

// delivery returns the event which reports that the host begins to handle a batch.
func delivery(b *changefeed.Batch) (event, error) {
	e := event{Event: eventDelivered, Range: b.Range}
	for _, c := range b.Changes {
		id, err := c.ID()
		if err != nil {
			return e, err
		}
		e.IDs, e.LSNs = append(e.IDs, id), append(e.LSNs, c.LSN)
	}
	return e, nil
}

// copier is the handler of a host. It copies each batch to the other container.
type copier struct {
	// report receives the events of the host.
	report func(event)
	// write copies changes. In latest version mode each document is at most once in a
	// batch. The store replaces the system properties in the changes.
	write func(ctx context.Context, changes []feed.Change) error
	// hang blocks a handler whose host crashes, until the crash ends the host.
	hang func(ctx context.Context) error
	// poison has the records with which the handler fails. It may be nil.
	poison *poison
	// doomed reports whether the host crashes in its next batch.
	doomed atomic.Bool
}

// config returns the configuration of the host's processor.
func (c *copier) config(name string, source feed.Source, leases lease.Container) changefeed.Config {
	return changefeed.Config{
		Processor:          processorName,
		Instance:           name,
		Source:             source,
		Leases:             leases,
		Handler:            c,
		Start:              feed.Beginning(),
		AcquireInterval:    acquireInterval,
		RenewInterval:      renewInterval,
		ExpirationInterval: expiration,
		RequestTimeout:     requestTimeout,
		DrainTimeout:       expiration,
		Notify:             c.notify,
		Logger:             slog.New(slog.DiscardHandler), // the view shows the events
	}
}

func (c *copier) notify(n changefeed.Notification) {
	switch n.Event {
	case changefeed.Acquired:
		c.report(event{Event: eventAcquired, Lease: n.LeaseToken})
	case changefeed.Released:
		c.report(event{Event: eventReleased, Lease: n.LeaseToken})
	case changefeed.Failed:
		if !errors.Is(n.Err, context.Canceled) && !errors.Is(n.Err, errPoison) {
			c.report(event{Event: eventFailed, Text: connect.Text(n.Err)})
		}
	case changefeed.GivenUp:
		c.report(event{Event: eventGivenUp, Text: givenUp(n.Err)})
	case changefeed.Stopped, changefeed.Resumed, changefeed.Paused, changefeed.Unpaused: // the demo stops no lease, and fails with few records
	}
}

// givenUp names the record that was given up because of err.
func givenUp(err error) string {
	if failure, is := errors.AsType[*changefeed.HandlerError](err); is {
		err = failure.Err
	}
	return strings.TrimSuffix(err.Error(), ": "+errPoison.Error())
}

// lastBatch is the minimum number of changes in the batch during which a host crashes.
const lastBatch = 4

// Handle copies a batch. If the host is doomed, it copies half of the batch and crashes.
func (c *copier) Handle(ctx context.Context, b *changefeed.Batch) error {
	e, err := delivery(b)
	if err != nil {
		return err
	}
	c.report(e)
	if c.doomed.Load() && len(b.Changes) >= lastBatch {
		half := b.Changes[:len(b.Changes)/2]
		if err := c.write(ctx, half); err != nil {
			return err
		}
		c.report(event{Event: eventDying, Done: len(half), Of: len(b.Changes)})
		return c.hang(ctx)
	}
	if err := c.poison.check(b.Changes); err != nil {
		return err
	}
	if err := c.write(ctx, b.Changes); err != nil {
		return err
	}
	c.report(event{Event: eventHandled, Range: b.Range})
	return nil
}

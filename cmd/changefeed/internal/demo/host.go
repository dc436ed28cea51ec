package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
)

// host is one of the hosts that copy: a processor with an instance name of its
// own, and all it reaches behind its gate.
type host struct {
	name  string
	gate  *gate
	tally *tally
	to    *store.Container
	say   func(format string, args ...any)

	// doomed makes the next batch the host's last: it crashes in the middle.
	doomed atomic.Bool
	// fell makes the crash happen once.
	fell sync.Once

	cancel context.CancelFunc
	// done is closed when Run has returned, with err set before.
	done chan struct{}
	err  error
}

// startHost starts a host. It runs until stop is called or ctx ends.
func startHost(ctx context.Context, name string, at places, t *tally, m metric.MeterProvider, say func(string, ...any)) (*host, error) {
	target, ok := at.target.container.(stored)
	if !ok {
		return nil, fmt.Errorf("start %s: a host in this process copies within a store", name)
	}
	h := &host{name: name, gate: newGate(), tally: t, to: target.Container, say: say, done: make(chan struct{})}
	p, err := changefeed.New(changefeed.Config{
		Processor:          processorName,
		Instance:           name,
		Source:             gatedSource{Source: at.source.source(), gate: h.gate},
		Leases:             gatedLeases{Container: at.leaseContainer(), gate: h.gate},
		Handler:            h,
		Start:              feed.Beginning(),
		AcquireInterval:    acquireInterval,
		RenewInterval:      renewInterval,
		ExpirationInterval: expiration,
		RequestTimeout:     requestTimeout,
		DrainTimeout:       expiration,
		Metrics:            m,
		Notify:             h.notify,
		Logger:             slog.New(slog.DiscardHandler), // the demo shows what happens
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	ctx, h.cancel = context.WithCancel(ctx)
	go func() {
		defer close(h.done)
		h.err = p.Run(ctx)
	}()
	return h, nil
}

func (h *host) called() string { return h.name }

func (h *host) doom() { h.doomed.Store(true) }

func (h *host) crashed() bool { return h.gate.crashed() }

func (h *host) stop() { h.cancel() }

// end stops the host and waits for it. What a crashed host has to say about its
// end is of no interest: nobody would hear it.
func (h *host) end() error {
	h.stop()
	if h.gate.crashed() {
		h.gate.abandon()
		<-h.done
		return nil
	}
	<-h.done
	if h.err != nil {
		return fmt.Errorf("%s: %w", h.name, h.err)
	}
	return nil
}

// crash shuts the host's gate, the first time.
func (h *host) crash(how string, args ...any) {
	h.fell.Do(func() {
		h.gate.crash()
		h.say("%s crashes "+how+", its leases not released", append([]any{h.name}, args...)...)
	})
}

// notify counts the moves of leases, and tells of errors.
func (h *host) notify(n changefeed.Notification) {
	if h.gate.crashed() {
		return
	}
	switch n.Event {
	case changefeed.Acquired:
		h.tally.acquired(h.name, n.LeaseToken)
	case changefeed.Released:
		h.tally.released(h.name, n.LeaseToken)
	case changefeed.Failed:
		if !errors.Is(n.Err, context.Canceled) {
			h.say("%s: %v", h.name, n.Err)
		}
	}
}

// lastBatch is how many changes the batch at least has in whose middle a host crashes.
const lastBatch = 4

// copiers is how many documents of a batch are written at a time: each waits for
// the disk, and the store takes those that wait together.
const copiers = 16

// Handle copies a batch. The copies of one batch are written side by side: in
// latest version mode no document is in a batch twice, so no order is lost.
// The store replaces the system properties that the changes carry.
func (h *host) Handle(ctx context.Context, b *changefeed.Batch) error {
	if h.gate.crashed() {
		return h.gate.hang(ctx)
	}
	if err := h.tally.deliver(h.name, b); err != nil {
		return err
	}
	if h.doomed.Load() && len(b.Changes) >= lastBatch {
		half := b.Changes[:len(b.Changes)/2]
		if err := h.copy(ctx, half); err != nil {
			return err
		}
		h.crash("with %d of %d changes of a batch copied", len(half), len(b.Changes))
		return h.gate.hang(ctx)
	}
	if err := h.copy(ctx, b.Changes); err != nil {
		return err
	}
	h.tally.handled(b)
	return nil
}

// copy writes changes to the other container.
func (h *host) copy(ctx context.Context, changes []feed.Change) error {
	var (
		workers sync.WaitGroup
		next    atomic.Int64
		errs    = make([]error, min(copiers, len(changes)))
	)
	for w := range errs {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(changes) {
					return
				}
				_, err := through(ctx, h.gate, func() (store.Result, error) {
					return h.to.Upsert(ctx, nil, changes[i].Current, store.WriteOptions{})
				})
				if err != nil {
					errs[w] = fmt.Errorf("copy: %w", err)
					return
				}
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
)

// RunHost is the whole life of a host's process: it is told its job by a line of
// in, copies until in ends, and tells of what it does by lines of out.
func RunHost(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.Join(errors.New("this command is for `changefeed demo --processes`, which tells it what to do"), lines.Err())
	}
	var j job
	if err := json.Unmarshal(lines.Bytes(), &j); err != nil {
		return fmt.Errorf("the job of this host: %w", err)
	}
	account, err := cosmos.WithKey(j.Endpoint, j.Key, cosmos.Options{})
	if err != nil {
		return err
	}
	h := &hostProcess{job: j, speaker: &speaker{to: out}, target: account.Bulk(database, j.Target, cosmos.BulkOptions{})}
	p, err := changefeed.New(changefeed.Config{
		Processor:          processorName,
		Instance:           j.Name,
		Source:             account.Source(database, j.Source, cosmos.SourceOptions{}),
		Leases:             account.Leases(database, j.Leases, cosmos.LeaseOptions{}),
		Handler:            h,
		Start:              feed.Beginning(),
		AcquireInterval:    acquireInterval,
		RenewInterval:      renewInterval,
		ExpirationInterval: expiration,
		RequestTimeout:     requestTimeout,
		DrainTimeout:       expiration,
		Notify:             h.notify,
		Logger:             slog.New(slog.DiscardHandler), // the demo shows what happens
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // until the process ends, or its input does
		for lines.Scan() {
			if isDoom(lines.Text()) {
				h.doomed.Store(true)
			}
		}
		cancel()
	}()
	return p.Run(ctx)
}

// hostProcess is the handler of a host that is a process of its own.
type hostProcess struct {
	job
	*speaker
	target *cosmos.Bulk
	// doomed makes the next batch the last.
	doomed atomic.Bool
}

func (h *hostProcess) notify(n changefeed.Notification) {
	switch n.Event {
	case changefeed.Acquired:
		h.say(event{Event: eventAcquired, Lease: n.LeaseToken})
	case changefeed.Released:
		h.say(event{Event: eventReleased, Lease: n.LeaseToken})
	case changefeed.Failed:
		if !errors.Is(n.Err, context.Canceled) {
			h.say(event{Event: eventFailed, Text: connect.Text(n.Err)})
		}
	}
}

// Handle copies a batch, or half of it when it is the last: then it waits for its
// end, which the demo brings about.
func (h *hostProcess) Handle(ctx context.Context, b *changefeed.Batch) error {
	e := event{Event: eventDeliver, Range: b.Range}
	for _, c := range b.Changes {
		id, err := c.ID()
		if err != nil {
			return err
		}
		e.IDs, e.LSNs = append(e.IDs, id), append(e.LSNs, c.LSN)
	}
	h.say(e)
	if h.doomed.Load() && len(b.Changes) >= lastBatch {
		half := b.Changes[:len(b.Changes)/2]
		if err := h.copy(ctx, half); err != nil {
			return err
		}
		h.say(event{Event: eventDying, Done: len(half), Of: len(b.Changes)})
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if err := h.copy(ctx, b.Changes); err != nil {
		return err
	}
	h.say(event{Event: eventHandled, Range: b.Range})
	return nil
}

// copy writes changes to the other container, by bulk: in latest version mode no
// document is in a batch twice. The server replaces the system properties.
func (h *hostProcess) copy(ctx context.Context, changes []feed.Change) error {
	ops := make([]cosmos.BulkOperation, 0, len(changes))
	for _, c := range changes {
		key, err := keyOf(c.Current, h.TheirKey)
		if err != nil {
			return fmt.Errorf("copy: %w", err)
		}
		ops = append(ops, cosmos.BulkOperation{Key: key, Body: c.Current})
	}
	results, err := h.target.Do(ctx, ops)
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	for i, r := range results {
		if !r.Done() {
			return fmt.Errorf("copy: document with key %s: status %d %s %s", ops[i].Key, r.Status, http.StatusText(r.Status), r.Message)
		}
	}
	return nil
}

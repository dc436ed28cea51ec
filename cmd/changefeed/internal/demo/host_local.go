package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// host is one host of the processor that copies the records. It shares no state with other
// hosts, and makes all its calls through its isolation.
type host struct {
	copier
	name      string
	isolation *isolation
	target    *store.Container
	say       func(format string, args ...any)
	crashOnce sync.Once

	cancel context.CancelFunc
	// done is closed when Run has returned. err is the error of Run, and is set before.
	done chan struct{}
	err  error
}

// start starts a host. It runs until stop is called or ctx ends.
func (r *runner) start(ctx context.Context, name string, m metric.MeterProvider) (*host, error) {
	h := &host{name: name, isolation: newIsolation(), target: r.containers.target.Container, say: r.say, done: make(chan struct{})}
	h.write, h.hang = h.copy, h.isolation.hang
	h.report = func(e event) {
		if !h.crashed() {
			r.hear(h, e)
		}
	}
	cfg := h.config(name,
		isolatedSource{Source: r.containers.source.source(), isolation: h.isolation},
		isolatedLeases{Container: r.containers.leases.leases(), isolation: h.isolation})
	cfg.Metrics = m
	if h.poison = r.poison; h.poison != nil {
		cfg.Failure = failure(isolatedLetters{Container: r.containers.letters.letters(), isolation: h.isolation})
		cfg.Concurrency = copiers // a batch has changes of one key
	}
	p, err := changefeed.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	ctx, h.cancel = context.WithCancel(ctx)
	go func() { // ends with Run, which end waits for
		defer close(h.done)
		h.err = p.Run(ctx)
	}()
	return h, nil
}

func (h *host) called() string { return h.name }

// doom marks the host to crash in the middle of its next batch.
func (h *host) doom() { h.doomed.Store(true) }

func (h *host) crashed() bool { return h.isolation.crashed() }

// stop tells the host to stop. end waits for that.
func (h *host) stop() { h.cancel() }

// end stops the host and waits until Run has returned. If the host crashed, end drops the
// error of Run.
func (h *host) end() error {
	h.stop()
	if h.crashed() {
		h.isolation.abandon()
		<-h.done
		return nil
	}
	<-h.done
	if h.err != nil {
		return fmt.Errorf("%s: %w", h.name, h.err)
	}
	return nil
}

// crash crashes the host at once, unless it has crashed before. how and args describe the
// moment for the view.
func (h *host) crash(how string, args ...any) {
	h.crashOnce.Do(func() {
		h.isolation.crash()
		h.say("%s crashes "+how+", its leases not released", append([]any{h.name}, args...)...)
	})
}

// copiers is the number of documents of a batch that are written at the same time. Each
// write waits for the disk, and the store syncs the waiting writes together.
const copiers = 16

// copy writes the changes of a batch to the other container, several at the same time.
func (h *host) copy(ctx context.Context, changes []feed.Change) error {
	var (
		workers sync.WaitGroup
		next    atomic.Int64
		errs    = make([]error, min(copiers, len(changes)))
	)
	for w := range errs {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(changes)); i = next.Add(1) - 1 {
				_, err := through(ctx, h.isolation, func() (storetype.Result, error) {
					return h.target.Upsert(ctx, nil, changes[i].Current, storetype.WriteOptions{})
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

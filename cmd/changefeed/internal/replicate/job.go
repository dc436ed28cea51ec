package replicate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
)

// versionsSuffix is added to the name of the processor that applies all versions.
const versionsSuffix = "-versions"

// job is the work of one processor of the replication. The processor has one or more
// hosts in this process.
type job struct {
	processor string
	mode      feed.Mode
	start     feed.Start
	rules     rules
	// ready, if not nil, makes batches wait until it is closed.
	ready <-chan struct{}
}

// runLatest runs a replication in latest version mode.
func (r *replication) runLatest(ctx context.Context) error {
	j := job{processor: r.Processor, start: feed.Beginning(), rules: r.rules}
	lag, err := r.openLag(ctx, j.processor, j.mode)
	if err != nil {
		return err
	}
	stop := r.start(ctx, j)
	err = r.watch(ctx, lag, "copied", r.note)
	return errors.Join(err, stop())
}

// note records whether the copy has caught up. end reports whether the run ends now,
// which is so with UntilCaughtUp only.
func (r *replication) note(s measurement) (end bool, err error) {
	r.caughtUp = r.caughtUp || s.caughtUp
	return r.UntilCaughtUp && s.caughtUp, nil
}

// runVersions runs a replication in all versions and deletes mode. It first creates the
// leases of that mode, whose batches must wait. Then it copies the latest versions, and
// then applies the waiting batches and all later ones.
func (r *replication) runVersions(ctx context.Context, st *state) (err error) {
	ready := make(chan struct{})
	versions := job{processor: r.Processor + versionsSuffix, mode: feed.AllVersionsAndDeletes, start: feed.Now(), rules: r.rules, ready: ready}
	lag, err := r.openLag(ctx, versions.processor, versions.mode)
	if err != nil {
		return err
	}
	stop := r.start(ctx, versions)
	defer func() { err = errors.Join(err, stop()) }()
	if !st.Copied {
		if err := r.until(ctx, lag.made); err != nil {
			return err
		}
		if err := r.copyFirst(ctx); err != nil {
			return err
		}
	}
	// Another process may still write the latest versions that it has read. They must be
	// written before this process applies newer ones.
	copying, err := r.openLag(ctx, r.Processor, feed.LatestVersion)
	if err != nil {
		return err
	}
	if err := r.until(ctx, copying.idle); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	close(ready)
	r.progress.forget()
	return r.watch(ctx, lag, "copied", r.note)
}

// checkVersions returns an error if the source does not support all versions and deletes
// mode. Without this check, a processor would retry forever.
func checkVersions(ctx context.Context, source feed.Source) error {
	partitions, err := source.Partitions(ctx)
	if err != nil {
		return err
	}
	_, err = source.Read(ctx, feed.Request{Range: partitions[0].Range, From: feed.Now(), Mode: feed.AllVersionsAndDeletes})
	if errors.Is(err, feed.ErrUnsupported) {
		return err
	}
	return nil // the processor retries all other errors
}

// copyFirst copies the latest versions of all documents. It returns when all processes
// together have caught up.
func (r *replication) copyFirst(ctx context.Context) error {
	j := job{processor: r.Processor, start: feed.Beginning(), rules: r.rules}
	// The copy looks up no documents. If a document moves meanwhile, that change is
	// applied again from the feed of all versions.
	j.rules.ends = []protocol.End{{Range: feed.Full(), LSN: math.MaxInt64}}
	lag, err := r.openLag(ctx, j.processor, j.mode)
	if err != nil {
		return err
	}
	stop := r.start(ctx, j)
	err = r.watch(ctx, lag, "existing documents: copied", func(s measurement) (bool, error) {
		if s.caughtUp {
			return true, r.state.copied(ctx)
		}
		st, err := r.state.read(ctx)
		return st != nil && st.Copied, err
	})
	return errors.Join(err, stop())
}

// until calls is once per second, until it returns true or ctx ends. It reports errors and
// continues.
func (r *replication) until(ctx context.Context, is func(ctx context.Context) (bool, error)) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		yes, err := is(ctx)
		switch {
		case err == nil:
			r.failures.Worked(toLeases)
		case ctx.Err() == nil && !yes:
			r.failures.Failed(toLeases, err)
		}
		if yes {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil // Run returns the reason for the end of ctx
		}
	}
}

// openLag returns a lag for one of the replication's processors. It retries temporary
// errors.
func (r *replication) openLag(ctx context.Context, processor string, mode feed.Mode) (l *lag, err error) {
	untilErr := r.until(ctx, func(ctx context.Context) (bool, error) {
		l, err = r.lag(ctx, processor, mode)
		return err == nil || !heals(err), err
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return l, errors.Join(err, untilErr)
}

// watch measures and prints the progress once per Interval. It returns when done returns
// true, or when ctx ends.
func (r *replication) watch(ctx context.Context, l *lag, what string, done func(measurement) (bool, error)) error {
	tick := time.NewTicker(r.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		s, err := l.measure(ctx)
		if errors.Is(err, errNoLeases) {
			continue
		}
		end := false
		if err == nil {
			r.progress.add(s)
			r.progress.say("%s", r.progress.line(what))
			end, err = done(s)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if connect.Throttled(err) { // the lines about failures say so only after a minute
				r.progress.say("%s %s, throttled; how much is left is unknown", what, documents(r.writer.copied.Load()))
			}
			r.failures.Failed(toMeasure, err)
			continue
		case end:
			return nil
		}
		for _, member := range []string{toMeasure, toLeases, toSource} {
			r.failures.Worked(member)
		}
	}
}

// start starts the hosts of a job in goroutines. The function stop stops them, waits
// until they have ended, and returns their errors.
func (r *replication) start(ctx context.Context, j job) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var (
		all  sync.WaitGroup
		mu   sync.Mutex // guards errs
		errs []error
	)
	for n := range r.Hosts {
		all.Go(func() {
			if err := r.host(ctx, j, n); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
				r.fail(err)
			}
		})
	}
	return func() error {
		cancel()
		all.Wait()
		mu.Lock()
		defer mu.Unlock()
		return errors.Join(errs...)
	}
}

// host runs the processor of one host, number n in this process, and returns its error.
func (r *replication) host(ctx context.Context, j job, n int) error {
	name, err := os.Hostname()
	if err != nil {
		name = "host"
	}
	p, err := changefeed.New(changefeed.Config{
		Processor: j.processor,
		Instance:  fmt.Sprintf("%s-%d-%d", name, os.Getpid(), n),
		Source:    r.source,
		Leases:    r.leases,
		Handler:   changefeed.HandlerFunc(func(hctx context.Context, b *changefeed.Batch) error { return r.handle(ctx, hctx, j, b) }),
		Start:     j.start,
		Mode:      j.mode,
		MaxItems:  maxItems,
		ReadAhead: readAhead,
		// The other intervals are derived from Expiration, in the proportions of the
		// defaults.
		ExpirationInterval: r.Expiration,
		AcquireInterval:    r.Expiration * 17 / 60,
		RenewInterval:      r.Expiration * 13 / 60,
		RequestTimeout:     min(10*time.Second, r.Expiration/3),
		Notify:             r.failures.notify,
		Logger:             slog.New(slog.DiscardHandler), // r.failures prints the errors
		Metrics:            r.Metrics,
	})
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// errHeld is the error of a batch that still waited for job.ready when the replication
// ended.
var errHeld = errors.New("the replication ends before this batch is applied")

// handle copies one batch. run is the context of the host, and ctx that of the lease.
func (r *replication) handle(run, ctx context.Context, j job, b *changefeed.Batch) error {
	if j.ready != nil {
		select {
		case <-j.ready:
		case <-run.Done():
			return errHeld
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := r.writer.handle(ctx, j.rules, b)
	switch {
	case err == nil:
		r.failures.Worked(toTarget)
	case fatal(err):
		r.fail(err)
	}
	return err
}

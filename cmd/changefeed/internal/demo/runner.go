package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/balance"
	"github.com/changefeed-go/changefeed/internal/follow"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// runner carries out the plan of a run. It starts and stops writers and hosts. Its
// methods run on one goroutine, except write, say and hear.
type runner struct {
	cfg        Config
	data       dataset
	containers containers
	count      *counters
	began      time.Time

	plan      plan
	estimator *estimator.Estimator
	hosts     []*host
	// poison is nil without Config.Poison.
	poison *poison
	// first and second are the two waves of writes.
	first, second *wave
	// leases are the leases at the last measurement. shownAt and shownDelivered are the
	// time and the number of deliveries when the last rate was shown.
	leases         []view.Lease
	shownAt        time.Time
	shownDelivered int

	saying sync.Mutex // guards cfg.View
}

// newRunner returns a runner. before are the ends of the container's partitions after the
// earlier runs on the same data.
func newRunner(cfg Config, data dataset, all containers, before []protocol.End) (*runner, error) {
	began := time.Now()
	r := &runner{
		cfg: cfg, data: data, containers: all, count: newCounters(began, before), began: began,
		plan: newPlan(cfg.Seed, len(data.records), cfg.Hosts),
	}
	if cfg.Poison {
		r.poison = newPoison(data)
	}
	var rows, updated []int
	for row := range data.records {
		rows = append(rows, row)
		if r.plan.updates(row) {
			updated = append(updated, row)
		}
	}
	r.first = &wave{data: data, to: all.source, count: r.count, lasts: r.plan.wave, rows: rows, write: insert}
	r.second = &wave{data: data, to: all.source, count: r.count, lasts: r.plan.wave / 4, rows: updated, write: update}
	var err error
	r.estimator, err = estimator.New(estimator.Config{Processor: processorName, Source: all.source.source(), Leases: all.leases.leases()})
	return r, err
}

const (
	// tick is the time between two measurements of the progress.
	tick = 200 * time.Millisecond
	// patience is the time without progress after which a run fails. It is several times
	// the duration of a takeover.
	patience = 30 * time.Second
	// lastWait is the longest time that runner waits for a doomed host to get a batch in
	// which it crashes.
	lastWait = 3 * time.Second
)

// say shows an event with its time in the view.
func (r *runner) say(format string, args ...any) {
	r.saying.Lock()
	defer r.saying.Unlock()
	r.cfg.View.Say(time.Since(r.began), fmt.Sprintf(format, args...))
}

// run carries out the plan. It returns when everything is copied, or when the copy makes
// no more progress. All writers and hosts have then ended.
func (r *runner) run(ctx context.Context) (err error) {
	r.introduce()
	defer func() { err = errors.Join(err, r.endHosts()) }()
	if err := r.join(ctx); err != nil {
		return err
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var writing sync.WaitGroup
	writing.Go(func() {
		if err := r.write(ctx); err != nil {
			cancel(err)
		}
	})
	if err := r.disturb(ctx); err != nil {
		cancel(err)
	}
	writing.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	caughtUp, err := r.finish(ctx)
	if err != nil || !caughtUp || r.poison == nil {
		return err
	}
	return r.redrive(ctx)
}

// introduce shows what the run will do, and the intervals of its hosts.
func (r *runner) introduce() {
	r.say("writing %s records (id: %s) to %s, key %s, %d partitions",
		view.Thousands(len(r.data.records)), r.data.ids, r.containers.source.name(), keyPath(r.data.key), partitions)
	r.say("hosts copy them meanwhile to %s, key %s; seed %d", r.containers.target.name(), keyPath(r.data.newKey), r.cfg.Seed)
	r.say("acquire, renew and request timeout are %s, expiration is %s:", acquireInterval, expiration)
	r.say("with the defaults, a crash would be noticed after more than a minute")
	if r.cfg.Data != "" {
		r.say("the store in %s is kept: the next run finishes one that was killed", r.cfg.Data)
	}
	if len(r.count.before) > 0 {
		r.say("an earlier run wrote records here: its changes that are not delivered yet count as \"from before\"")
	}
}

// write runs the two waves of writes, one after the other.
func (r *runner) write(ctx context.Context) error {
	if err := r.first.run(ctx); err != nil {
		return err
	}
	r.say("all records are written; a second wave updates %s of them", view.Thousands(len(r.second.rows)))
	return r.second.run(ctx)
}

// disturb carries out the joins, the split and the crash, each at its moment of the first
// wave. After that it shows the progress until the second wave has ended.
func (r *runner) disturb(ctx context.Context) error {
	for _, moment := range r.plan.joins {
		if err := r.until(ctx, func() bool { return r.first.share() >= moment }); err != nil {
			return err
		}
		if err := r.join(ctx); err != nil {
			return err
		}
	}
	if err := r.until(ctx, func() bool { return r.first.share() >= r.plan.split }); err != nil {
		return err
	}
	if err := r.split(ctx); err != nil {
		return err
	}
	if err := r.until(ctx, func() bool { return r.first.share() >= r.plan.crash }); err != nil {
		return err
	}
	if err := r.crash(ctx); err != nil {
		return err
	}
	return r.until(ctx, func() bool { return r.second.share() >= 1 || len(r.second.rows) == 0 })
}

// until shows the progress periodically. It returns when done returns true, or when ctx
// ends.
func (r *runner) until(ctx context.Context, done func() bool) error {
	for !done() {
		if _, err := r.look(ctx); err != nil {
			return err
		}
		if err := follow.Sleep(ctx, tick); err != nil {
			return err
		}
	}
	return nil
}

// join starts the next host. The host does not end with ctx, because runner stops all
// hosts in the same way at the end.
func (r *runner) join(ctx context.Context) error {
	name := fmt.Sprintf("host-%d", len(r.hosts)+1)
	h, err := r.start(context.WithoutCancel(ctx), name, r.cfg.Metrics)
	if err != nil {
		return err
	}
	r.hosts = append(r.hosts, h)
	r.say("%s joins", name)
	return nil
}

// hear counts an event of a host or shows it, depending on its kind.
func (r *runner) hear(h *host, e event) {
	switch e.Event {
	case eventAcquired:
		r.count.acquired(h.called(), e.Lease)
	case eventReleased:
		r.count.released(h.called(), e.Lease)
	case eventFailed:
		if !h.crashed() {
			r.say("%s: %s", h.called(), e.Text)
		}
	case eventGivenUp:
		if !h.crashed() {
			r.say("%s gives up %s; its key is parked", h.called(), e.Text)
		}
	case eventDelivered:
		r.count.deliver(e)
	case eventHandled:
		r.count.handled(e.Range)
	case eventDying:
		h.crash("with %d of %d changes of a batch copied", e.Done, e.Of)
	}
}

// split splits the planned partition, while it is being written and read.
func (r *runner) split(ctx context.Context) error {
	live, err := r.containers.source.source().Partitions(ctx)
	if err != nil {
		return fmt.Errorf("list the partitions: %w", err)
	}
	p := live[int(r.plan.splitAt*float64(len(live)))]
	children, err := r.containers.source.split(ctx, p.ID)
	if err != nil {
		return fmt.Errorf("split partition %s: %w", p.ID, err)
	}
	r.say("partition %s is split into %s and %s", p.ID, children[0], children[1])
	return nil
}

// crash makes the planned host crash, or the next one that owns a lease. If it was the
// only host, another joins.
func (r *runner) crash(ctx context.Context) error {
	victim := r.hosts[r.plan.victim]
	for i := range r.hosts {
		if h := r.hosts[(r.plan.victim+i)%len(r.hosts)]; r.count.holds(h.called()) {
			victim = h
			break
		}
	}
	victim.doom()
	waited := time.Now()
	if err := r.until(ctx, func() bool {
		return victim.crashed() || time.Since(waited) > lastWait
	}); err != nil {
		return err
	}
	victim.crash("between two batches")
	if len(r.hosts) == 1 {
		return r.join(ctx)
	}
	return nil
}

// finish waits until the copy has caught up. It gives up once the copy has made no
// progress for patience, and reports whether it has caught up.
func (r *runner) finish(ctx context.Context) (caughtUp bool, err error) {
	r.say("everything is written; waiting for the copy to catch up")
	var last []view.Lease
	moved := time.Now()
	for {
		caughtUp, err := r.look(ctx)
		if err != nil || caughtUp {
			return caughtUp, err
		}
		if !slices.Equal(r.leases, last) {
			moved, last = time.Now(), r.leases
		}
		if time.Since(moved) > patience {
			r.say("no progress for %s: giving up", patience)
			return false, nil
		}
		if err := follow.Sleep(ctx, tick); err != nil {
			return false, err
		}
	}
}

// look measures the progress and shows it. It reports whether the copy has caught up: the
// leases cover all keys, and none of them lags.
func (r *runner) look(ctx context.Context) (caughtUp bool, err error) {
	report, err := r.estimator.Report(ctx)
	if err != nil && (!errors.Is(err, feed.ErrNotFound) || report.Time.IsZero()) { // there may be no lease yet
		return false, err
	}
	r.leases = nil
	var measured []lease.Lease
	for i := range report.Lags {
		if err := report.Lags[i].Err; err != nil {
			return false, fmt.Errorf("measure lease %s: %w", report.Lags[i].LeaseToken, err)
		}
		r.leases = append(r.leases, view.NewLease(report.Lags[i]))
		measured = append(measured, lease.Lease{Range: report.Lags[i].Range})
	}
	now := time.Now()
	s := view.Snapshot{Elapsed: now.Sub(r.began), Rate: -1, Leases: r.leases}
	var delivered int
	s.Counts, delivered = r.count.counts()
	if since := now.Sub(r.shownAt); since >= time.Second {
		if !r.shownAt.IsZero() {
			s.Rate = float64(delivered-r.shownDelivered) / since.Seconds()
		}
		r.shownAt, r.shownDelivered = now, delivered
	}
	for _, h := range r.hosts {
		s.Hosts = append(s.Hosts, view.Host{Name: h.called(), Crashed: h.crashed()})
	}
	r.saying.Lock()
	defer r.saying.Unlock()
	r.cfg.View.Show(s)
	covered := len(balance.Gaps(measured, feed.Full())) == 0
	return covered && !slices.ContainsFunc(r.leases, func(l view.Lease) bool { return l.Lag != 0 }), nil
}

// endHosts stops all hosts and waits for them.
func (r *runner) endHosts() error {
	for _, h := range r.hosts {
		h.stop()
	}
	var errs []error
	for _, h := range r.hosts {
		errs = append(errs, h.end())
	}
	return errors.Join(errs...)
}

package estimator

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/letters"
)

// Estimator measures how far one processor lags. Create it with [New]. Its methods are safe for
// concurrent use.
type Estimator struct {
	cfg     Config
	used    atomic.Bool
	opening chan struct{} // a semaphore of the call that opens the lease store
	store   atomic.Pointer[opened]
	letters atomic.Pointer[letters.Store]
	last    atomic.Pointer[Report] // the last report of Run
}

// opened is an open lease store with the identity of the monitored container.
type opened struct {
	lease.Store
	identity feed.Identity
}

// New returns an estimator, without any I/O. Its error is a [*changefeed.ConfigError]
// that names the field of [Config].
func New(cfg Config) (*Estimator, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Estimator{cfg: cfg, opening: make(chan struct{}, 1)}, nil
}

// Current measures once and yields the lags one by one, for a caller that doesn't want to
// wait for the slowest lease as [Estimator.Report] does. The leases are listed when the
// loop begins, and their lags come sorted by range. A lease that cannot be read
// has [Lag.Err].
//
// An error ends the loop: [feed.ErrNotFound] if the processor has no leases or a
// container does not exist, a [*lease.DialectError] if the leases are in another dialect,
// and a [*changefeed.ConfigError] if the monitored container is its own lease container.
func (e *Estimator) Current(ctx context.Context) iter.Seq2[Lag, error] {
	return func(yield func(Lag, error) bool) {
		m, err := e.list(ctx)
		if err != nil {
			yield(Lag{}, err)
			return
		}
		if err := m.none(); err != nil {
			yield(Lag{}, err)
			return
		}
		m.each(ctx, yield)
	}
}

// Report measures once and returns every lease's lag with the total, for a scaler or a
// command. The errors are those of [Estimator.Current].
//
// Only Report counts the letters in [Config.Letters]. If that fails, [Report.LettersErr] says
// why.
//
// If the processor has no leases, Report returns [feed.ErrNotFound] and a report with
// Time but no Lags, whose Total.Reference is 1 so that a scaler starts the first host.
// With any other error the report is zero.
func (e *Estimator) Report(ctx context.Context) (Report, error) {
	m, err := e.list(ctx)
	if err != nil {
		return Report{}, err
	}
	r := Report{Time: m.now, Unreadable: m.unreadable, Lags: make([]Lag, 0, len(m.leases))}
	m.each(ctx, func(l Lag, failed error) bool {
		err = failed
		r.Lags = append(r.Lags, l)
		return true
	})
	if err != nil {
		return Report{}, err
	}
	r.Total = Sum(r.Lags)
	r.Total.Charge += m.charge
	if m.cfg.Letters != nil {
		r.LettersErr = m.countLetters(ctx, &r)
	}
	return r, m.none()
}

// none returns an error if the processor has no leases. A lease document that cannot be
// read counts as a lease.
func (m *measurement) none() error {
	if len(m.leases) > 0 || len(m.unreadable) > 0 {
		return nil
	}
	return fmt.Errorf("estimator: leases of processor %q: %w; check its name, or start a host of it", m.cfg.Processor, feed.ErrNotFound)
}

// measurement is the state of one measurement: a listing of the leases, and the lag of
// each lease.
type measurement struct {
	*Estimator
	store      *opened
	leases     []lease.Lease
	lags       []Lag // one for each lease, with the facts that the listing contains
	partitions []feed.Partition
	unreadable []string
	now        time.Time // the time of the listing by the store's clock
	since      time.Time // the time of the listing by this host's clock
	charge     float64   // the cost of the listing in request units
}

// list lists the leases, and the partitions if they are needed.
func (e *Estimator) list(ctx context.Context) (*measurement, error) {
	store, err := e.open(ctx)
	if err != nil {
		return nil, err
	}
	m := &measurement{Estimator: e, store: store, since: time.Now(), charge: -protocol.Charged(store.Store)}
	listing, err := request(ctx, e, store.List)
	if err != nil {
		if errors.Is(err, feed.ErrNotFound) {
			e.store.Store(nil) // the next call opens a recreated container
		}
		return nil, fmt.Errorf("estimator: cannot list leases: %w", err)
	}
	m.charge += protocol.Charged(store.Store)
	if refusal := protocol.Refusal(listing, e.cfg.Leases.Dialect()); refusal != nil && len(listing.Leases) == 0 {
		return nil, fmt.Errorf("estimator: cannot list leases: %w", refusal)
	}
	if m.now = listing.Now; m.now.IsZero() {
		m.now = m.since
	}
	if needsPartitions(listing) {
		if m.partitions, err = request(ctx, e, e.cfg.Source.Partitions); err != nil {
			return nil, fmt.Errorf("estimator: cannot list partitions: %w", err)
		}
		listing = protocol.WithRanges(listing, m.partitions)
	}
	for _, u := range listing.Unreadable {
		m.unreadable = append(m.unreadable, u.ID)
	}
	m.leases = listing.Leases
	m.prepare()
	return m, nil
}

// open returns the lease store. Only the first call opens it.
func (e *Estimator) open(ctx context.Context) (*opened, error) {
	if found := e.store.Load(); found != nil {
		return found, nil
	}
	select {
	case e.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-e.opening }()
	if found := e.store.Load(); found != nil {
		return found, nil
	}
	store, identity, err := protocol.Open(ctx, e.cfg.Source, e.cfg.Leases, lease.Key{Processor: e.cfg.Processor}, e.cfg.RequestTimeout)
	if err != nil {
		return nil, openingError(err)
	}
	found := &opened{Store: store, identity: identity}
	e.store.Store(found)
	return found, nil
}

// request calls do with a context that ends after Config.RequestTimeout.
func request[T any](ctx context.Context, e *Estimator, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.RequestTimeout)
	defer cancel()
	return do(ctx)
}

// needsPartitions reports whether the partitions must be listed, because a lease has no
// partition or no range.
func needsPartitions(l lease.Listing) bool {
	for i := range l.Leases {
		if l.Leases[i].PartitionID == "" {
			return true
		}
	}
	return protocol.Rangeless(l)
}

// each reads the lag of several leases at a time. It yields the lags in the order of the
// leases.
func (m *measurement) each(ctx context.Context, yield func(Lag, error) bool) {
	ctx, stop := context.WithCancel(ctx)
	answers := make([]chan Lag, len(m.leases))
	for i := range answers {
		answers[i] = make(chan Lag, 1)
	}
	var next atomic.Int64
	var readers sync.WaitGroup
	defer readers.Wait()
	defer stop()
	for range min(m.cfg.Concurrency, len(m.leases)) {
		readers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(m.leases)); i = next.Add(1) - 1 {
				answers[i] <- m.read(ctx, m.leases[i], m.lags[i])
			}
		})
	}
	for _, answer := range answers {
		lag := <-answer
		if err := ctx.Err(); err != nil {
			yield(Lag{}, err)
			return
		}
		if !yield(lag, nil) {
			return
		}
	}
}

package changefeed

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/hook"
	"github.com/changefeed-go/changefeed/internal/keypath"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// Config configures a Processor. A zero field means its default, and -1 switches off ReadAhead,
// DrainTimeout and (as Failure.Breaker.Letters) the breaker. No duration may be longer than 365
// days. New copies the Config.
type Config struct {
	// Processor names the deployment unit. Hosts with the same name share the work, while
	// processors with different names each get every change. Required.
	Processor string
	// Instance names this host in leases and messages. It need not be unique, because Run
	// adds a random suffix. If empty, the host name and the process ID are used.
	Instance string

	// Source is the monitored container's change feed. Required.
	Source feed.Source
	// Leases is the lease container. Required.
	Leases lease.Container

	// Handler receives every lease's changes. Use [Each] for one typed change at a time,
	// [Batches] for typed batches, and [HandlerFunc] for raw ones. Either Handler or
	// Observer is required.
	Handler Handler
	// Observer returns an observer for one lease, for handlers that keep something for each
	// lease. It is called each time work on a lease begins and, if it returns an error,
	// again after a delay, like a handler.
	Observer func(lease.Lease) (Observer, error)

	// Start is where the feed is first read, when the leases are created. Once they exist,
	// Start is ignored. The zero value means now. A continuation can start only one lease,
	// all versions and deletes mode can start neither at the beginning nor at a time, and a
	// time in the future may be treated as now.
	//
	// If Azure Cosmos DB refuses a start time on merged partitions, the processor reads the
	// feed from the beginning and drops the older changes. For that it stores the start time
	// in the lease as a bound, but if another implementation's host drops the bound, the older
	// changes are delivered.
	Start feed.Start
	// Mode is latest version (the default) or all versions and deletes. It cannot change
	// while the leases exist.
	Mode feed.Mode
	// Range limits the leases that are created to a part of the container, and must be the
	// same on all hosts. If zero, it is the whole container. Because existing leases outside
	// it are still processed, change Processor or set DiscardLeases to change the range.
	Range feed.Range
	// MaxItems is how many changes a page and a batch have. Both may exceed it, because a
	// transaction is never cut. If zero, 100 is used. Since pages that wait while the
	// handler is busy are delivered together, raise it for a handler that takes long for
	// every call.
	MaxItems int
	// PollInterval is how long after an empty read a lease is read again at the latest.
	// The delay is a quarter of the time since the last change, but at least a twentieth of
	// the interval. If zero, 5 s is used: a change then waits for at most 250 ms while
	// changes come, and an idle lease costs 720 reads an hour. A source that can wait for
	// changes holds each read for PollInterval instead.
	PollInterval time.Duration
	// ReadAhead is how many bytes per lease may be read ahead of the handler; no read starts
	// while that many wait. If zero, 4 MiB is used. Leave room for MaxItems changes, because
	// the pages that wait are the next batch. -1 disables reading ahead: a page is read when
	// the handler is free.
	ReadAhead int

	// Concurrency is how many calls of the handler may be under way at once for one lease. If
	// zero, 1 is used. With more, a batch has changes of one partition key only (see Order),
	// and different keys' batches are handled at the same time. The lease's position never
	// passes a change that is not done, so after a crash what is done behind it is delivered
	// again: at most ReadAhead bytes of changes, where a change that is done counts 32. Raise
	// Concurrency for a handler that waits, for instance for a database. At most 1024.
	//
	// A handler that waits for [Batch.Checkpoint] does not count, since what it waits for may be
	// a change that no call has begun with. If it goes on in the meantime, because another
	// goroutine waits or that call's context has ended, more calls are under way.
	//
	// When a lease moves, its owner first finishes what it has begun: every page from which a
	// call has started. That takes long if a slow key lags far behind the others. If a stop's
	// DrainTimeout is over before, what is done behind that key is delivered again.
	Concurrency int
	// Order says which changes keep their order if Concurrency is above 1: by default those of
	// one partition key.
	Order Order

	// AcquireInterval is the time between two balance cycles, plus or minus 10 %, and must
	// be the same on all hosts. If zero, 17 s is used.
	AcquireInterval time.Duration
	// RenewInterval is how often an owned lease is written, shortened at random by up to 10 %.
	// If zero, 13 s is used.
	RenewInterval time.Duration
	// ExpirationInterval is how long after its last write a lease expires, and must be the
	// same on all hosts. A shorter one lets others take over sooner after a crash. If zero,
	// 60 s is used.
	ExpirationInterval time.Duration
	// RequestTimeout bounds one request to the source or to the lease store. If zero, 10 s
	// is used. RenewInterval, RequestTimeout and a margin (a tenth of ExpirationInterval, at
	// least 2 s) together must be below ExpirationInterval.
	RequestTimeout time.Duration
	// DrainTimeout is how long a stop waits for handlers before it ends their context. If
	// zero, 30 s is used. -1 ends their context at once.
	DrainTimeout time.Duration
	// MinLeases and MaxLeases bound how many leases this host has. Zero means no bound.
	MinLeases, MaxLeases int
	// DiscardLeases deletes the existing leases when Run begins, so that the processor
	// starts over. Since Run fails if another host holds a lease, stop the other hosts
	// first, and discard on one host only. If Start then turns out to be impossible, the old
	// positions are lost all the same.
	DiscardLeases bool

	// Checkpoint configures when positions are written, by default after every batch.
	Checkpoint Checkpointing
	// Failure configures what happens after the handler has failed.
	Failure Failure
	// Filter selects the changes that the handler receives; checkpoints advance over the
	// others. It is called concurrently for several leases, and with Concurrency above 1 for
	// several keys of one. A panic in it, as in any function of yours, is recovered, logged
	// with its stack, and notified as a [HandlerError].
	Filter func(feed.Change) bool
	// OnHistoryLost decides what happens when the feed no longer reaches back to a lease's
	// position, or ends before it because an older copy of the container was restored. If it
	// returns true, the lease resumes at the feed's oldest position. If it returns false,
	// panics or is nil, the lease is kept, the read is retried, and an error is notified. It
	// is called concurrently for several leases.
	OnHistoryLost func(lease.Lease, *feed.HistoryLostError) bool
	// Notify receives a notification for each lease that is acquired or released, and for
	// each error. It is called concurrently, and must return soon because the lease waits
	// for it. A panic in it is recovered and logged with its stack.
	Notify func(Notification)
	// Logger receives leases that move at level info, and errors at level warn. An error
	// that the service returned is one line at level warn, and complete at level debug.
	// If nil, [slog.Default] is used as it is when New is called.
	Logger *slog.Logger
	// Metrics provides the instruments for the processor's metrics, which docs/metrics.md
	// lists. If nil, there are no metrics.
	Metrics metric.MeterProvider
	// Traces provides the tracer for spans about reads, handler calls and checkpoints, which
	// docs/traces.md describes. The handler's context carries the span of its call. If
	// nil, there are no spans.
	Traces trace.TracerProvider
	// TraceParent is where documents have the W3C traceparent, written like a partition key's
	// path: /traceparent or /trace/traceparent, for instance. The tracestate is looked for in the
	// member "tracestate" beside it. A call's span then links to the spans that wrote its
	// changes. If empty, there are no links.
	TraceParent string
	// seed makes jitter and the suffix of the instance name reproducible. Package hook
	// sets it. If zero, the seed is random.
	seed uint64
	// concurrency replaces Concurrency, also with an Observer. Package hook sets it.
	concurrency int
	// now returns the readings of the host's clocks. Package hook sets it. If nil, the
	// clocks of package time are used.
	now func() (mono time.Duration, wall time.Time)
}

func init() {
	hook.SetSeed = func(config any, n uint64) {
		if cfg, ok := config.(*Config); ok {
			cfg.seed = n
		}
	}
	hook.SetClock = func(config any, now func() (mono time.Duration, wall time.Time)) {
		if cfg, ok := config.(*Config); ok {
			cfg.now = now
		}
	}
	hook.SetConcurrency = func(config any, n int) {
		if cfg, ok := config.(*Config); ok {
			cfg.concurrency = n
		}
	}
	hook.FailedChanges = func(err error, changes int) []int {
		failed, _, _ := failedChanges(err, changes)
		return failed
	}
	hook.SetCheckpoint = func(batch any, checkpoint func(ctx context.Context) error) {
		if b, ok := batch.(*Batch); ok {
			b.checkpoint = checkpoint
		}
	}
}

// Order is what a processor with several calls at a time handles in order; see
// [Config.Concurrency].
type Order int

const (
	// OrderByKey handles the changes of one partition key in order, and never at the same
	// time.
	OrderByKey Order = iota
	// OrderByItem handles the changes of one item in order, and never at the same time. Those
	// of other items with the same partition key may overtake them, even within a
	// transaction. Reach for it if a few keys have most of the changes.
	OrderByItem
)

// String returns the name of the order for messages.
func (o Order) String() string {
	switch o {
	case OrderByKey:
		return "by key"
	case OrderByItem:
		return "by item"
	}
	return "unknown"
}

// Checkpointing configures when positions are written. Whatever it says, every renewal of
// a lease writes its position, too.
type Checkpointing struct {
	// Manual leaves checkpoints to the handler, which calls [Batch.Checkpoint]. Changes
	// and Interval must be zero then.
	Manual bool
	// Changes and Interval delay the write until that many changes were handled, or that
	// much time has passed since the last write, whichever comes first. That saves lease
	// writes, but more is redelivered after a crash. If both are zero, a position is written
	// after every batch, so that the handler is at most one batch ahead.
	Changes  int
	Interval time.Duration
}

// everyBatch reports whether a position is written after every batch, which is the
// default.
func (c Checkpointing) everyBatch() bool { return !c.Manual && c.Changes == 0 && c.Interval == 0 }

// These are the default values of Config. The intervals equal the documented intervals
// of the .NET processor, whose code swaps the acquire and the renew interval.
const (
	defaultMaxItems   = 100
	defaultPoll       = 5 * time.Second
	defaultReadAhead  = 4 << 20
	defaultAcquire    = 17 * time.Second
	defaultRenew      = 13 * time.Second
	defaultExpiration = 60 * time.Second
	defaultRequest    = 10 * time.Second
	defaultDrain      = 30 * time.Second
)

// maxConcurrency is the largest Config.Concurrency. Each call needs a goroutine, and a lease that
// needs more calls than this should be several leases.
const maxConcurrency = 1024

// off is the value of a Config field that switches the field's feature off.
const off = -1

// maxDuration is the longest duration that a Config field may have. Sums and multiples of
// longer durations would overflow. Then a stop would not wait at all, or the next read
// would never be due.
const maxDuration = 365 * 24 * time.Hour

func (c Config) withDefaults() Config {
	if c.Instance == "" {
		name, err := os.Hostname()
		if err != nil {
			name = "host"
		}
		c.Instance = fmt.Sprintf("%s-%d", name, os.Getpid())
	}
	setDefault(&c.MaxItems, defaultMaxItems)
	setDefault(&c.PollInterval, defaultPoll)
	setDefault(&c.ReadAhead, defaultReadAhead)
	setDefault(&c.Concurrency, 1)
	setDefault(&c.AcquireInterval, defaultAcquire)
	setDefault(&c.RenewInterval, defaultRenew)
	setDefault(&c.ExpirationInterval, defaultExpiration)
	setDefault(&c.RequestTimeout, defaultRequest)
	setDefault(&c.DrainTimeout, defaultDrain)
	if c.Failure.Delay == 0 && c.Failure.MaxDelay > 0 {
		c.Failure.Delay = min(backoffFirst, c.Failure.MaxDelay)
	}
	setDefault(&c.Failure.Delay, backoffFirst)
	setDefault(&c.Failure.MaxDelay, max(backoffMost, c.Failure.Delay))
	if c.Failure.Letters != nil {
		setDefault(&c.Failure.Breaker.Letters, defaultBreakerLetters)
		setDefault(&c.Failure.Breaker.Window, defaultBreakerWindow)
	}
	c.Range = c.Range.OrFull()
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// validate returns a *ConfigError if c, with its defaults set, cannot work.
func (c Config) validate() error {
	switch {
	case c.Processor == "":
		return &ConfigError{"Processor", "is required: the name that the hosts of this processor share"}
	case c.Source == nil:
		return &ConfigError{"Source", "is required"}
	case c.Leases == nil:
		return &ConfigError{"Leases", "is required"}
	case c.Handler == nil && c.Observer == nil:
		return &ConfigError{"Handler", "is required, or Observer"}
	case c.Handler != nil && c.Observer != nil:
		return &ConfigError{"Handler", "and Observer exclude each other"}
	case c.Mode != feed.LatestVersion && c.Mode != feed.AllVersionsAndDeletes:
		return &ConfigError{"Mode", fmt.Sprintf("%d is not a mode", c.Mode)}
	case c.TraceParent != "" && c.Traces == nil:
		return &ConfigError{"TraceParent", "has an effect with Traces only"}
	case c.Range.IsEmpty() || !feed.Full().Contains(c.Range):
		return &ConfigError{"Range", fmt.Sprintf("%s holds no key", c.Range)}
	}
	if _, err := keypath.Parse(c.TraceParent); err != nil {
		return &ConfigError{"TraceParent", fmt.Sprintf("%q is not a path such as /trace/traceparent: %v", c.TraceParent, err)}
	}
	if err := c.validateNumbers(); err != nil {
		return err
	}
	if err := c.validateStart(); err != nil {
		return err
	}
	if err := c.validateDialect(); err != nil {
		return err
	}
	return c.validateTerms()
}

func (c Config) validateNumbers() error {
	const count, duration = math.MaxInt64, int64(maxDuration) // the largest values of a field
	for _, f := range []struct {
		name        string
		value, most int64
		orOff       bool
	}{
		{"MaxItems", int64(c.MaxItems), count, false},
		{"PollInterval", int64(c.PollInterval), duration, false},
		{"ReadAhead", int64(c.ReadAhead), count, true},
		{"Concurrency", int64(c.Concurrency), count, false},
		{"AcquireInterval", int64(c.AcquireInterval), duration, false},
		{"RenewInterval", int64(c.RenewInterval), duration, false},
		{"ExpirationInterval", int64(c.ExpirationInterval), duration, false},
		{"RequestTimeout", int64(c.RequestTimeout), duration, false},
		{"DrainTimeout", int64(c.DrainTimeout), duration, true},
		{"MinLeases", int64(c.MinLeases), count, false},
		{"MaxLeases", int64(c.MaxLeases), count, false},
		{"Checkpoint.Changes", int64(c.Checkpoint.Changes), count, false},
		{"Checkpoint.Interval", int64(c.Checkpoint.Interval), duration, false},
		{"Failure.Delay", int64(c.Failure.Delay), duration, false},
		{"Failure.MaxDelay", int64(c.Failure.MaxDelay), duration, false},
		{"Failure.Attempts", int64(c.Failure.Attempts), count, false},
		{"Failure.Breaker.Letters", int64(c.Failure.Breaker.Letters), count, true},
		{"Failure.Breaker.Window", int64(c.Failure.Breaker.Window), duration, false},
	} {
		if f.value < 0 && !(f.orOff && f.value == off) {
			return &ConfigError{f.name, "is negative"}
		}
		if f.value > f.most {
			return &ConfigError{f.name, fmt.Sprintf("(%s) is more than 365 days (%s)", time.Duration(f.value), maxDuration)}
		}
	}
	switch {
	case c.Concurrency > maxConcurrency:
		return &ConfigError{"Concurrency", fmt.Sprintf("(%d) is more than %d", c.Concurrency, maxConcurrency)}
	case c.Concurrency > 1 && c.Observer != nil:
		return &ConfigError{"Concurrency", "must be 1 with Observer, whose methods are called one at a time; use Handler"}
	case c.keyed() && c.ReadAhead == off:
		return &ConfigError{"ReadAhead", "cannot be switched off with Concurrency above 1 or Failure.Letters, which work on what was read ahead"}
	case c.Order != OrderByKey && c.Order != OrderByItem:
		return &ConfigError{"Order", fmt.Sprintf("%d is not an order", c.Order)}
	case c.Order != OrderByKey && !c.keyed():
		return &ConfigError{"Order", "has an effect with Concurrency above 1 or Failure.Letters only"}
	case c.MaxLeases > 0 && c.MinLeases > c.MaxLeases:
		return &ConfigError{"MinLeases", fmt.Sprintf("(%d) is more than MaxLeases (%d)", c.MinLeases, c.MaxLeases)}
	case c.Failure.MaxDelay < c.Failure.Delay:
		return &ConfigError{"Failure.MaxDelay", fmt.Sprintf("(%s) is less than Failure.Delay (%s)", c.Failure.MaxDelay, c.Failure.Delay)}
	case c.Failure.Attempts > 0 && c.Failure.Letters == nil:
		return &ConfigError{"Failure.Letters", "is required with Failure.Attempts, because a change is given up only when it is kept as a letter"}
	case c.Failure.Letters == nil && c.Failure.Park != 0:
		return &ConfigError{"Failure.Park", "has an effect with Failure.Letters only"}
	case c.Failure.Letters == nil && c.Failure.Breaker != Breaker{}:
		return &ConfigError{"Failure.Breaker", "has an effect with Failure.Letters only"}
	case c.Failure.Park < ParkKey || c.Failure.Park > ParkNone:
		return &ConfigError{"Failure.Park", fmt.Sprintf("%d is not one of ParkKey, ParkItem and ParkNone", c.Failure.Park)}
	case c.Failure.Letters != nil && c.Failure.Park == ParkKey && c.Order == OrderByItem:
		return &ConfigError{"Failure.Park", "cannot be ParkKey with OrderByItem, by which an item's changes do not wait for those of its key; use ParkItem"}
	case c.Failure.Letters != nil && c.Checkpoint.Manual:
		return &ConfigError{"Checkpoint.Manual", "cannot be combined with Failure.Letters, because no batch is left by which to checkpoint a change that was given up"}
	case c.Checkpoint.Manual && (c.Checkpoint.Changes != 0 || c.Checkpoint.Interval != 0):
		return &ConfigError{"Checkpoint.Manual", "excludes Changes and Interval"}
	}
	return nil
}

// keyed reports whether changes are handled by key: several at a time, or so that one that fails
// delays no other.
func (c Config) keyed() bool { return c.Concurrency > 1 || c.Failure.Letters != nil }

func (c Config) validateStart() error {
	kind := c.Start.Kind()
	switch {
	case kind == feed.StartContinuation && c.Start.Continuation() == "":
		return &ConfigError{"Start", "is an empty continuation"}
	case c.Mode == feed.AllVersionsAndDeletes && (kind == feed.StartBeginning || kind == feed.StartTime):
		return &ConfigError{"Start", c.Start.String() + " is not possible with all versions and deletes, which starts now or after a continuation"}
	}
	return nil
}

// validateDialect returns an error if the source and the lease container have different
// dialects. It also returns one if the leases' dialect cannot represent the mode or
// range.
func (c Config) validateDialect() error {
	if err := protocol.CheckDialects(c.Source, c.Leases); err != nil {
		return openingError(err)
	}
	dialect := c.Leases.Dialect()
	if dialect != lease.JavaHandleChanges {
		return nil
	}
	const remedy = "; use the dialect of handleLatestVersionChanges: a Java host upgrades these leases to it, or `changefeed leases convert` converts them"
	switch {
	case c.Mode != feed.LatestVersion:
		return &ConfigError{"Mode", c.Mode.String() + " is not supported by " + dialect.String() + remedy}
	case c.Range != feed.Full():
		return &ConfigError{"Range", "cannot be a part of the container in " + dialect.String() + ", whose leases are for whole partitions" + remedy}
	}
	return nil
}

// validateTerms returns an error if the intervals are too short to keep a lease. A
// renewal may start RenewInterval after the write before it and take RequestTimeout. It
// must be answered before trust in the lease ends.
func (c Config) validateTerms() error {
	margin := c.terms().Margin()
	if need := c.RenewInterval + c.RequestTimeout + margin; need >= c.ExpirationInterval {
		return &ConfigError{"ExpirationInterval", fmt.Sprintf(
			"(%s) must be more than RenewInterval (%s), RequestTimeout (%s) and the margin (%s) together (%s)",
			c.ExpirationInterval, c.RenewInterval, c.RequestTimeout, margin, need)}
	}
	return nil
}

// terms returns the expiration and acquire intervals, which all hosts of the processor
// share.
func (c Config) terms() protocol.Terms {
	return protocol.Terms{Expiration: c.ExpirationInterval, Acquire: c.AcquireInterval}
}

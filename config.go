package changefeed

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/hook"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// Config configures a [Processor]. The zero value of a field means its default. -1
// switches off ReadAhead and DrainTimeout. No duration may be longer than 365 days. [New]
// copies the Config.
type Config struct {
	// Processor names the deployment unit. Hosts of the same name share the work.
	// Processors of different names each get every change. Required.
	Processor string
	// Instance names this host in leases and messages. Run adds a random suffix, so two
	// hosts with the same Instance are still two hosts. If empty, the host name and the
	// process ID are used.
	Instance string

	// Source is the monitored container's change feed. Required.
	Source feed.Source
	// Leases is the lease container. Required.
	Leases lease.Container

	// Handler receives the changes of all leases. Either Handler or Observer is required.
	Handler Handler
	// Observer returns an observer for one lease. It is called each time work on a lease
	// begins. If it returns an error, it is called again after a delay, like a handler.
	Observer func(lease.Lease) (Observer, error)

	// Start is the position from which the feed is read when the leases are created for
	// the first time. Once the leases exist, Start is ignored. The zero value means now.
	// If Start is a continuation, it can start one lease only. In all versions and
	// deletes mode the feed cannot start at the beginning or at a time. A time in the
	// future may be treated as now.
	//
	// Azure Cosmos DB may refuse a start time on merged partitions. Then the processor
	// reads the feed from the beginning and drops the older changes. It stores the start
	// time in the lease as a bound. Hosts of other implementations may drop the bound.
	// Then the older changes are delivered.
	Start feed.Start
	// Mode is latest version (the default) or all versions and deletes. It cannot change
	// while the leases exist.
	Mode feed.Mode
	// Range limits the leases that are created to a part of the container. It must be the
	// same on all hosts. Existing leases outside of it are still processed. To change the
	// range, change Processor or set DiscardLeases. The zero value means the whole
	// container.
	Range feed.Range
	// MaxItems is the number of changes per page and per batch. Both may exceed it, because
	// a transaction is never cut. If zero, 100 is used. Pages that wait while the handler is
	// busy are delivered together, so a handler that takes long for every call keeps up
	// better with a larger MaxItems.
	MaxItems int
	// PollInterval is the longest time between an empty read of a lease and the next
	// read. The delay starts at a twentieth of the interval after a change. It is a
	// quarter of the time since the last change, up to the whole interval. If zero, 5 s
	// is used. Then a change waits for at most 250 ms while changes come, and an idle
	// lease costs 720 reads an hour. A source that can wait for changes holds each read
	// for PollInterval instead.
	PollInterval time.Duration
	// ReadAhead is the number of bytes per lease that may be read ahead of the handler.
	// No read starts while that many bytes wait. If zero, 4 MiB is used. The
	// pages that wait are the next batch, so leave room for MaxItems changes. -1 disables
	// reading ahead: a page is read when the handler is free.
	ReadAhead int

	// AcquireInterval is the time between two balance cycles, plus or minus 10 %. It must
	// be the same on all hosts. If zero, 17 s is used.
	AcquireInterval time.Duration
	// RenewInterval is the time from one write of an owned lease to the next. It is
	// shortened at random by up to 10 %. If zero, 13 s is used.
	RenewInterval time.Duration
	// ExpirationInterval is the time after its last write at which a lease expires. It
	// must be the same on all hosts. If zero, 60 s is used.
	ExpirationInterval time.Duration
	// RequestTimeout bounds one request to the source or to the lease store. If zero, 10
	// s is used. The sum of RenewInterval, RequestTimeout and a margin must be below
	// ExpirationInterval. The margin is a tenth of ExpirationInterval and at least 2 s.
	RequestTimeout time.Duration
	// DrainTimeout bounds the time that a stop waits for handlers before it ends their
	// context. If zero, 30 s is used. -1 ends their context at once.
	DrainTimeout time.Duration
	// MinLeases and MaxLeases bound the number of leases of this host. Zero means no
	// bound.
	MinLeases, MaxLeases int
	// DiscardLeases deletes the existing leases when Run begins, so that the processor
	// starts over. Run fails if another host holds a lease. Stop the other hosts first,
	// and discard on one host only. The leases are deleted before Start is tried: if
	// Start turns out to be impossible, the old positions are lost.
	DiscardLeases bool

	// Checkpoint configures when positions are written. By default a position is written
	// after every batch.
	Checkpoint Checkpointing
	// Failure configures what happens after the handler has failed.
	Failure Failure
	// Filter selects the changes that the handler receives. Checkpoints advance over the
	// others. It is called concurrently for several leases. Like every function of yours, it
	// may panic: the panic is recovered, logged with its stack, and notified as a
	// [HandlerError].
	Filter func(feed.Change) bool
	// OnHistoryLost is called when the feed no longer reaches back to the position of a
	// lease, or ends before it, because an older copy of the container was restored. If it
	// returns true, the lease resumes at the oldest position that the feed has. If it returns
	// false, panics or is nil, the lease is kept, the read is retried, and an error is
	// notified. It is called concurrently for several leases.
	OnHistoryLost func(lease.Lease, *feed.HistoryLostError) bool
	// Notify receives a notification for each lease that is acquired or released, and for
	// each error. It is called concurrently and must return soon, because the lease waits
	// for it. A panic in it is recovered and logged with its stack.
	Notify func(Notification)
	// Logger receives leases that move at level info, and errors at level warn. An error
	// that the service returned is one line at level warn, and complete at level debug.
	// If nil, [slog.Default] is used as it is when New is called.
	Logger *slog.Logger
	// Metrics provides the instruments for the processor's metrics: changes,
	// redeliveries, batches, checkpoints, leases and their moves, errors, and request
	// units. If nil, there are no metrics.
	Metrics metric.MeterProvider
	// seed makes jitter and the suffix of the instance name reproducible. Package hook
	// sets it. If zero, the seed is random.
	seed uint64
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
	hook.SetCheckpoint = func(batch any, checkpoint func(ctx context.Context) error) {
		if b, ok := batch.(*Batch); ok {
			b.checkpoint = checkpoint
		}
	}
}

// Checkpointing configures when positions are written. In addition, every renewal of a
// lease writes its position.
type Checkpointing struct {
	// Manual leaves checkpoints to the handler, which calls [Batch.Checkpoint]. Changes
	// and Interval must be zero then.
	Manual bool
	// Changes and Interval delay the write until that many changes were handled, or that
	// much time has passed since the last write, whichever comes first. If both are zero,
	// a position is written after every batch. Then the handler is at most one batch
	// ahead of the written position.
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
	setDefault(&c.AcquireInterval, defaultAcquire)
	setDefault(&c.RenewInterval, defaultRenew)
	setDefault(&c.ExpirationInterval, defaultExpiration)
	setDefault(&c.RequestTimeout, defaultRequest)
	setDefault(&c.DrainTimeout, defaultDrain)
	setDefault(&c.Failure.Delay, backoffFirst)
	setDefault(&c.Failure.MaxDelay, max(backoffMost, c.Failure.Delay))
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
	case c.Range.IsEmpty() || !feed.Full().Contains(c.Range):
		return &ConfigError{"Range", fmt.Sprintf("%s holds no key", c.Range)}
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
	} {
		if f.value < 0 && !(f.orOff && f.value == off) {
			return &ConfigError{f.name, "is negative"}
		}
		if f.value > f.most {
			return &ConfigError{f.name, fmt.Sprintf("(%s) is more than 365 days (%s)", time.Duration(f.value), maxDuration)}
		}
	}
	switch {
	case c.MaxLeases > 0 && c.MinLeases > c.MaxLeases:
		return &ConfigError{"MinLeases", fmt.Sprintf("(%d) is more than MaxLeases (%d)", c.MinLeases, c.MaxLeases)}
	case c.Failure.MaxDelay < c.Failure.Delay:
		return &ConfigError{"Failure.MaxDelay", fmt.Sprintf("(%s) is less than Failure.Delay (%s)", c.Failure.MaxDelay, c.Failure.Delay)}
	case c.Checkpoint.Manual && (c.Checkpoint.Changes != 0 || c.Checkpoint.Interval != 0):
		return &ConfigError{"Checkpoint.Manual", "excludes Changes and Interval"}
	}
	return nil
}

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

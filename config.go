package changefeed

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Config says what a [Processor] reads, where its leases are, and what it does
// with the changes. Zero is the default of every field; -1 switches off what
// can be switched off. No duration may be longer than 365 days. [New] copies it.
type Config struct {
	// Processor names the deployment unit: hosts of the same name share the
	// work, processors of different names each get every change. Required.
	Processor string
	// Instance names this host in leases and messages. Run adds a random suffix,
	// so two hosts of one name are two hosts. Default: host name and process id.
	Instance string

	// Source is the monitored container's change feed. Required.
	Source feed.Source
	// Leases is the lease container. Required.
	Leases lease.Container

	// Handler gets the changes of all leases. Either it or Observer is required.
	Handler Handler
	// Observer makes one observer per lease instead, each time work on the lease
	// begins. Its error is retried like that of a handler.
	Observer func(lease.Lease) (Observer, error)

	// Start is where to start when the leases are made for the first time;
	// afterwards it is not looked at. Default: now. A continuation can start one
	// lease only. All versions and deletes can't start at the beginning or at a
	// time. A time in the future may be taken for now. Where the source refuses a time,
	// as Azure Cosmos DB may on merged partitions, the feed is read from the beginning and
	// older changes are dropped; hosts of other implementations on the same leases may
	// lose that bound, and then older changes are delivered.
	Start feed.Start
	// Mode is latest version (default) or all versions and deletes. It is fixed
	// for the life of the leases.
	Mode feed.Mode
	// Range limits the processor to a part of the container; the same on all
	// its hosts. It says which leases are made. Those that are there are worked on
	// also outside of it, so another range needs another name in Processor, or
	// DiscardLeases. Default: everything.
	Range feed.Range
	// MaxItems is how many changes a page should hold; a transaction is never
	// cut. Default: 100.
	MaxItems int
	// PollInterval is the time from one read that found nothing to the next. Just
	// after changes it is a twentieth of that, and grows to the whole: a quarter of
	// the time for which nothing came. A source that can wait for a change holds
	// the read that long instead. Default: 5 s; a change then waits for 250 ms at
	// most while changes come, and a lease at rest costs 720 reads an hour.
	PollInterval time.Duration
	// ReadAhead is how many bytes per lease may be read before the handler has
	// taken them: no read starts while that many wait. Default: 4 MiB; -1: none,
	// a page is read when the handler is free.
	ReadAhead int

	// AcquireInterval is the time between two looks at the leases, +- 10 %; the
	// same on all hosts. Default: 17 s.
	AcquireInterval time.Duration
	// RenewInterval is the time, up to 10 % less, after which an owned lease is
	// written again. Default: 13 s.
	RenewInterval time.Duration
	// ExpirationInterval is how long a lease stays with a host that no longer
	// writes it; the same on all hosts. Default: 60 s.
	ExpirationInterval time.Duration
	// RequestTimeout bounds one request to the source or to the lease store.
	// Default: 10 s. RenewInterval, RequestTimeout and a margin (a tenth of
	// ExpirationInterval, at least 2 s) together must stay below
	// ExpirationInterval.
	RequestTimeout time.Duration
	// DrainTimeout bounds how long a stop waits for handlers before it ends
	// their context. Default: 30 s; -1: it ends at once.
	DrainTimeout time.Duration
	// MinLeases and MaxLeases bound how many leases this host wants. Default: no bound.
	MinLeases, MaxLeases int
	// DiscardLeases starts over: existing leases are deleted when Run begins.
	// Run fails when another host holds one: stop the others first, and discard
	// on one host. They are deleted before Start is tried; if that turns out to
	// be impossible, the old positions are gone all the same.
	DiscardLeases bool

	// Checkpoint says when positions are written. Default: after every batch.
	Checkpoint Checkpointing
	// Filter passes only the changes for which it returns true to the handler;
	// checkpoints advance over the others. It is called for several leases at
	// the same time. A panic in it is a [HandlerError].
	Filter func(feed.Change) bool
	// OnHistoryLost chooses to go on at the oldest position (return true) when
	// the feed no longer reaches back to the lease's. It is called for several
	// leases at the same time. Default: never; the lease is kept, the read
	// retried, and an error notified. A panic in it is not caught.
	OnHistoryLost func(lease.Lease, *feed.HistoryLostError) bool
	// Notify is told of leases acquired and released, and of errors. It is
	// called from several goroutines and must return soon: the lease waits for it.
	// A panic in it is not caught.
	Notify func(Notification)
	// Logger gets what happens: leases at level info, errors at warn. An answer of the service is
	// one line there, and whole at level debug. Default: [slog.Default], as it is when New is called.
	Logger *slog.Logger
	// Metrics gets the processor's metrics: changes, redeliveries, batches, checkpoints,
	// leases and their moves, errors, request units. Default: none.
	Metrics metric.MeterProvider
	// Seed makes jitter and the suffix of the instance's name reproducible, for
	// simulations. Two runs of one instance name must not share it. 0: random.
	Seed uint64
}

// Checkpointing says when positions are written. A renewal of the lease writes
// the position too, whatever is said here.
type Checkpointing struct {
	// Manual leaves it to the handler: [Batch.Checkpoint]. Changes and Interval
	// must be 0 then.
	Manual bool
	// Changes and Interval put off the write until that many changes were
	// handled or that much time has passed since the last one, whichever comes
	// first. Both 0: after every batch, and the handler never runs more than one
	// batch ahead of what was written.
	Changes  int
	Interval time.Duration
}

// everyBatch reports whether each batch is followed by its checkpoint.
func (c Checkpointing) everyBatch() bool { return !c.Manual && c.Changes == 0 && c.Interval == 0 }

// The defaults. The intervals are those that the original library documents; its
// code has acquire and renew the other way round.
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

// off is the value of a field that switches it off.
const off = -1

// maxDuration is the longest duration of a field. Sums and multiples of longer ones would
// overflow: a stop would not wait at all, and the next read would never be due.
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

// validate checks a Config that has its defaults.
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
		return &ConfigError{"Mode", fmt.Sprintf("%d is no mode", c.Mode)}
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
	const count, duration = math.MaxInt64, int64(maxDuration) // the most that a field may be
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

// validateDialect refuses a source and a lease container that were made for
// different dialects of leases, and what the dialect of the leases can't hold.
func (c Config) validateDialect() error {
	dialect := c.Leases.Dialect()
	if source, ok := c.Source.(lease.DialectSource); ok && source.Dialect() != dialect {
		return &ConfigError{"Leases", fmt.Sprintf("has leases in %s, but Source reads for %s; give both the same dialect", dialect, source.Dialect())}
	}
	if dialect != lease.JavaHandleChanges {
		return nil
	}
	const remedy = "; use the dialect of handleLatestVersionChanges, to which a Java host upgrades these leases, and `changefeed leases convert` converts them"
	switch {
	case c.Mode != feed.LatestVersion:
		return &ConfigError{"Mode", c.Mode.String() + " is unknown to " + dialect.String() + remedy}
	case c.Range != feed.Full():
		return &ConfigError{"Range", "can't be a part of the container in " + dialect.String() + ", whose leases are for whole partitions" + remedy}
	}
	return nil
}

// validateTerms refuses terms under which a lease could not be kept: a renewal
// that is due after renew, and takes the whole request timeout, must be answered
// before trust in the lease ends.
func (c Config) validateTerms() error {
	margin := c.terms().Margin()
	if need := c.RenewInterval + c.RequestTimeout + margin; need >= c.ExpirationInterval {
		return &ConfigError{"ExpirationInterval", fmt.Sprintf(
			"(%s) must be more than RenewInterval (%s), RequestTimeout (%s) and the margin (%s) together (%s)",
			c.ExpirationInterval, c.RenewInterval, c.RequestTimeout, margin, need)}
	}
	return nil
}

// terms are the times that the hosts of the processor agree on.
func (c Config) terms() lease.Terms {
	return lease.Terms{Expiration: c.ExpirationInterval, Acquire: c.AcquireInterval}
}

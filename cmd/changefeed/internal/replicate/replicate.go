package replicate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Config says what is copied where.
type Config struct {
	// From and To are the two containers, Leases the lease container.
	From, To, Leases Container
	// Key are the paths by which the target is keyed. Default: those that it has, or
	// the source's where it is made.
	Key []string
	// Versions copies what is there, and then applies all versions and deletes.
	Versions bool
	// NoMoves saves the look-up by id of documents whose key may have changed.
	NoMoves bool
	// Create makes a missing target, like the source, and a missing lease container.
	Create bool
	// Throughput is that of a target that is made, in RU/s. Default: the source's. -1: none of its
	// own.
	Throughput int
	// UntilCaughtUp ends Run when all that was written a few seconds ago is copied.
	UntilCaughtUp bool
	// Processor names the replication: processes of one name share the work, and
	// a later one goes on where they ended. Default: of the target's names.
	Processor string
	// Hosts is how many processors this process runs. Default: 1.
	Hosts int
	// Expiration is how long the leases of a process that was killed stay with it; the same
	// in all processes. Default: 60 s.
	Expiration time.Duration
	// Interval is the time between two lines of progress. Default: 5 s.
	Interval time.Duration
	// Out gets the lines of progress, and what went wrong and is tried again.
	Out io.Writer
	// Metrics gets the processors' metrics, and this package's. Default: none.
	Metrics metric.MeterProvider

	// made is what the start of this run has made.
	made *made
}

const (
	defaultExpiration = time.Minute
	defaultInterval   = 5 * time.Second
	// maxItems is the size of a page: large, because each is a round of writes.
	maxItems = 1000
	// bulkRequests is how many requests with writes are under way at a time, and
	// batches how many batches are worked on: they bound the memory of many leases.
	bulkRequests = 8
	batches      = 8
	// readAhead bounds what is read before it can be written, per lease.
	readAhead = 1 << 20
	// modes, in the state.
	modeLatest, modeVersions = "latest version", "all versions and deletes"
)

func (cfg Config) withDefaults() Config {
	if cfg.Processor == "" {
		cfg.Processor = strings.Map(func(r rune) rune {
			if strings.ContainsRune(`/\?#`, r) { // an id can't have them
				return '-'
			}
			return r
		}, "replicate-"+cfg.To.Database+"-"+cfg.To.Container)
	}
	cfg.Hosts = max(cfg.Hosts, 1)
	if cfg.Expiration == 0 {
		cfg.Expiration = defaultExpiration
	}
	if cfg.Interval == 0 {
		cfg.Interval = defaultInterval
	}
	return cfg
}

// replication is one at work.
type replication struct {
	Config
	rules
	writer   *writer
	source   *cosmos.Source
	leases   *cosmos.Leases
	state    stateStore
	progress *progress
	// slots bounds the batches that are worked on.
	slots chan struct{}
	// caughtUp reports whether the copy has caught up once in this run.
	caughtUp bool
	// fail ends the run with an error that will stay.
	fail context.CancelCauseFunc
}

// Run copies until ctx ends, or until it has caught up if that is asked for. Errors:
// *[UnfinishedError] if ctx ends before the copy has caught up once in this run, *[ConfigError],
// *[CollisionError], and whatever will not go away by trying again; what may,
// is told and tried again.
func Run(ctx context.Context, cfg Config) (err error) {
	cfg = cfg.withDefaults()
	r, st, err := begin(ctx, cfg)
	if err != nil {
		return err
	}
	interrupted := ctx
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r.fail = fail
	unregister, err := r.instrument(cfg.Metrics)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unregister()) }()
	r.announce(st)
	if cfg.Versions {
		err = r.runVersions(ctx, st)
	} else {
		err = r.runLatest(ctx)
	}
	if cause := context.Cause(ctx); fatal(cause) && !errors.Is(err, cause) {
		err = errors.Join(cause, err)
	}
	r.summary()
	if interrupted.Err() != nil && !r.caughtUp && (err == nil || errors.Is(err, interrupted.Err())) {
		return &UnfinishedError{errors.Join(interrupted.Err(), err)}
	}
	return err
}

// UnfinishedError reports that the context of [Run] ended before the copy had caught up. It wraps
// the context's error.
type UnfinishedError struct{ err error }

func (e *UnfinishedError) Error() string { return "before the copy had caught up: " + e.err.Error() }

// Unwrap returns the context's error, and others if there are any.
func (e *UnfinishedError) Unwrap() error { return e.err }

// open looks at both containers, and at where an earlier run ended.
func open(ctx context.Context, cfg Config) (*replication, *state, error) {
	source, target, err := cfg.prepare(ctx)
	if err != nil {
		return nil, nil, err
	}
	r := &replication{Config: cfg, slots: make(chan struct{}, batches)}
	if r.shape.source, err = parseKeyPaths(source.paths); err != nil {
		return nil, nil, refuse("container %s: %v", cfg.From, err)
	}
	if r.target, err = parseKeyPaths(target.paths); err != nil {
		return nil, nil, refuse("container %s: %v", cfg.To, err)
	}
	r.rekeyed = strings.Join(source.paths, ",") != strings.Join(target.paths, ",")
	r.moves = !cfg.NoMoves
	r.source = cfg.source()
	r.leases = cfg.Leases.Account.Leases(cfg.Leases.Database, cfg.Leases.Container, cosmos.LeaseOptions{Create: cfg.Create})
	if _, err := r.lag(ctx, cfg.Processor, feed.LatestVersion); err != nil { // makes the lease container, or says how
		return nil, nil, err
	}
	documents, err := cfg.To.Account.Documents().NewContainer(cfg.To.Database, cfg.To.Container)
	if err != nil {
		return nil, nil, err
	}
	r.writer = &writer{
		source: cfg.From.Account.Bulk(cfg.From.Database, cfg.From.Container, cosmos.BulkOptions{Requests: 1}),
		target: cfg.To.Account.Bulk(cfg.To.Database, cfg.To.Container, cosmos.BulkOptions{Requests: bulkRequests}),
		finder: lookUp{shape: r.shape, container: documents},
	}
	r.progress = &progress{out: cfg.Out, write: r.writer, began: time.Now()}
	if r.state, err = cfg.states(); err != nil {
		return nil, nil, err
	}
	st, err := r.state.begin(ctx, state{
		FromRID: source.properties.ResourceID, ToRID: target.properties.ResourceID,
		SourceKey: source.paths, TargetKey: target.paths, Mode: cfg.modeName(),
	}, func(ctx context.Context, st *state) (err error) {
		if st.TargetEmpty, err = isEmpty(ctx, documents); err != nil {
			return err
		}
		st.Ends, err = endsOf(ctx, r.source)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	r.empty, r.ends = st.TargetEmpty, st.ends()
	return r, st, nil
}

// source is the feed of the source.
func (cfg Config) source() *cosmos.Source {
	return cfg.From.Account.Source(cfg.From.Database, cfg.From.Container, cosmos.SourceOptions{})
}

func (cfg Config) modeName() string {
	if cfg.Versions {
		return modeVersions
	}
	return modeLatest
}

// lag opens the leases of one of the replication's processors.
func (r *replication) lag(ctx context.Context, processor string, mode feed.Mode) (*lag, error) {
	identity, err := r.source.Identity(ctx)
	if err != nil {
		return nil, err
	}
	start := feed.Beginning()
	if mode == feed.AllVersionsAndDeletes {
		start = feed.Now()
	}
	store, err := r.leases.Open(ctx, lease.Key{Processor: processor, Identity: identity, Mode: mode, Start: start})
	if err != nil {
		return nil, fmt.Errorf("open the leases in %s of %s: %w", r.Leases, r.Leases.Account.Settings, err)
	}
	return &lag{source: r.source, store: store, mode: mode, start: start, expiration: r.Expiration}, nil
}

// announce says what is done, and what isn't.
func (r *replication) announce(st *state) {
	how := "keyed alike"
	if r.rekeyed {
		how = "keyed by " + strings.Join(st.TargetKey, ",") + " instead of " + strings.Join(st.SourceKey, ",")
	}
	processor := r.Processor
	if r.Versions { // `changefeed lag` of the first stands still once it has copied what was there
		processor += " for what is there, " + r.Processor + versionsSuffix + " for what comes since"
	}
	r.progress.say("%s of %s to %s of %s, %s; leases in %s, processor %s",
		r.From, r.From.Account.Settings, r.To, r.To.Account.Settings, how, r.Leases, processor)
	if !r.Versions {
		r.progress.say("deletes are not copied: latest version mode doesn't show them (--mode avad does)")
	}
	if r.rekeyed && r.NoMoves {
		r.progress.say("--no-moves: a document whose new key changes is not looked up, and stays at its old key, too")
	}
	if r.rekeyed && !r.NoMoves && !r.empty {
		r.progress.say("the target had documents when the replication began: each document is looked up by its id before it is copied")
	}
}

// summary is the last line.
func (r *replication) summary() {
	w := r.writer
	text := fmt.Sprintf("this process copied %s documents in %s", view.Thousands(w.copied.Load()), time.Since(r.progress.began).Round(time.Second))
	if n := w.moved.Load(); n > 0 {
		text += fmt.Sprintf(", of which %s moved to another key", view.Thousands(n))
	}
	if n := w.deleted.Load(); n > 0 {
		text += fmt.Sprintf(", and deleted %s", view.Thousands(n))
	}
	r.progress.say("%s", text)
	if n := w.unsure.Load(); n > 0 {
		r.progress.say("%s changes of documents whose old key isn't known were not looked up (--no-moves): their old copies may still be there", view.Thousands(n))
	}
}

package replicate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// Config configures [Run].
type Config struct {
	// From and To are the source and the target. Leases is the lease container.
	From, To, Leases Container
	// Key holds the partition key paths of the target. If empty, they are the existing
	// target's, or the source's for a new target.
	Key []string
	// Versions selects all versions and deletes mode. The existing documents are copied
	// first, and then all versions and deletes are applied.
	Versions bool
	// NoMoves disables the look-up by id in the target of documents whose target key may
	// have changed.
	NoMoves bool
	// Create creates the target, like the source, and the lease container if they are
	// missing.
	Create bool
	// Throughput is the throughput of a new target, in RU/s. If zero, it is the source's.
	// If -1, the target has none of its own.
	Throughput int
	// SetAside is the name of a file. If set, documents that the target refuses are
	// appended to it, and the run goes on. Otherwise such a document ends the run.
	SetAside string
	// UntilCaughtUp makes Run return when all changes but those of the last few seconds
	// have been copied.
	UntilCaughtUp bool
	// Processor names the replication. Processes of one name share the work, and a later
	// one resumes where they ended. If empty, the name is made from the target's names.
	Processor string
	// Hosts is the number of processors in this process. The default is 1.
	Hosts int
	// Expiration is the lease expiration interval: a killed process keeps its leases for
	// so long. It must be the same in all processes. The default is 60 s.
	Expiration time.Duration
	// Interval is the time between two lines of progress. The default is 5 s.
	Interval time.Duration
	// Out receives the lines of progress, and the errors that are retried.
	Out io.Writer
	// Metrics receives the metrics of the processors and of this package. It may be nil.
	Metrics metric.MeterProvider

	// made records what the start of this run has created.
	made *made
}

const (
	defaultExpiration = time.Minute
	defaultInterval   = 5 * time.Second
	// maxItems is the maximum number of changes in a page. It is large, because the
	// writer needs several requests for a page of any size.
	maxItems = 1000
	// bulkRequests is the maximum number of concurrent write requests. batches is the
	// maximum number of concurrent batches. They limit the memory if there are many
	// leases.
	bulkRequests = 8
	batches      = 8
	// readAhead is the number of bytes that each lease may read before they can be
	// written.
	readAhead = 1 << 20
	// openTime limits the opening of the leases, which may create their container.
	openTime = time.Minute
	// These constants name the modes in the state document.
	modeLatest, modeVersions = "latest version", "all versions and deletes"
)

func (cfg Config) withDefaults() Config {
	if cfg.Processor == "" {
		cfg.Processor = strings.Map(func(r rune) rune {
			if strings.ContainsRune(`/\?#`, r) { // a name that becomes an id must not contain these
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

// replication is the state of one call of Run.
type replication struct {
	Config
	rules
	writer   *writer
	source   *cosmos.Source
	leases   *cosmos.Leases
	state    stateStore
	progress *progress
	failures *errorLog
	// slots contains one element for each batch in progress. Its capacity limits them.
	slots chan struct{}
	// caughtUp reports whether the copy has caught up at least once in this run.
	caughtUp bool
	// fail ends the run with a permanent error.
	fail context.CancelCauseFunc
}

// Run copies until ctx ends or, with UntilCaughtUp, until the copy has caught up. It
// prints and retries errors that may be temporary. It returns a *[UnfinishedError] if ctx
// ends before the copy has caught up in this run, a *[ConfigError], a *[CollisionError],
// a *[SetAsideError] at the end of a run that set documents aside, or another permanent
// error.
func Run(ctx context.Context, cfg Config) (err error) {
	cfg = cfg.withDefaults()
	refused, err := openAside(cfg.SetAside)
	if err != nil {
		return err
	}
	defer func() {
		lacking := refused.close()
		if err == nil {
			err = lacking
		} else if lacking != nil {
			_, _ = fmt.Fprintln(cfg.Out, connect.Text(lacking))
		}
	}()
	r, st, err := begin(ctx, cfg)
	if err != nil {
		return err
	}
	r.writer.aside = refused
	interrupted := ctx
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r.fail, r.failures.fail = fail, fail
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

// open opens both containers, and reads or creates the state of the replication, which
// reports its failures to failures.
func open(ctx context.Context, cfg Config, failures *errorLog) (*replication, *state, error) {
	source, target, err := cfg.prepare(ctx)
	if err != nil {
		return nil, nil, err
	}
	r := &replication{Config: cfg, slots: make(chan struct{}, batches)}
	if r.shape.source, err = source.definition(); err != nil {
		return nil, nil, refuse("container %s: %v", cfg.From, err)
	}
	if r.target, err = target.definition(); err != nil {
		return nil, nil, refuse("container %s: %v", cfg.To, err)
	}
	r.rekeyed = !slices.Equal(source.paths, target.paths) || r.shape.source.v1 != r.target.v1
	r.moves = !cfg.NoMoves
	r.source = cfg.source()
	r.leases = cfg.Leases.Account.Leases(cfg.Leases.Database, cfg.Leases.Container, cosmos.LeaseOptions{Create: cfg.Create})
	if _, err := r.lag(ctx, cfg.Processor, feed.LatestVersion); err != nil { // it creates the lease container, or returns an error with the remedy
		return nil, nil, err
	}
	documents := cfg.To.documents()
	r.writer = &writer{
		source: cfg.From.Account.Bulk(cfg.From.Database, cfg.From.Container, cosmos.BulkOptions{Requests: 1}),
		target: cfg.To.Account.Bulk(cfg.To.Database, cfg.To.Container, cosmos.BulkOptions{Requests: bulkRequests}),
		finder: lookUp{shape: r.shape, container: documents},
	}
	r.failures, r.progress = failures, failures.progress
	r.progress.write, r.progress.began = r.writer, time.Now()
	r.state = cfg.states()
	st, err := r.state.begin(ctx, state{
		FromRID: source.RID, ToRID: target.RID,
		SourceKey: source.paths, TargetKey: target.paths, Mode: cfg.modeName(),
	}, func(ctx context.Context, st *state) (err error) {
		if st.TargetEmpty, err = isEmpty(ctx, documents); err != nil {
			return err
		}
		ends, err := protocol.Ends(ctx, r.source, feed.LatestVersion)
		for _, e := range ends {
			st.Ends = append(st.Ends, stateEnd{e.Min, e.Max, e.LSN})
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	r.empty, r.ends = st.TargetEmpty, st.ends()
	return r, st, nil
}

// source returns the feed of the source.
func (cfg Config) source() *cosmos.Source {
	return cfg.From.Account.Source(cfg.From.Database, cfg.From.Container, cosmos.SourceOptions{})
}

func (cfg Config) modeName() string {
	if cfg.Versions {
		return modeVersions
	}
	return modeLatest
}

// lag returns a lag for one of the replication's processors.
func (r *replication) lag(ctx context.Context, processor string, mode feed.Mode) (*lag, error) {
	start := feed.Beginning()
	if mode == feed.AllVersionsAndDeletes {
		start = feed.Now()
	}
	store, _, err := protocol.Open(ctx, r.source, r.leases, lease.Key{Processor: processor, Mode: mode, Start: start}, openTime)
	if err != nil {
		return nil, fmt.Errorf("leases in %s of %s: %w", r.Leases, r.Leases.Account.Settings, err)
	}
	return &lag{source: r.source, store: store, mode: mode, start: start, terms: protocol.Terms{Expiration: r.Expiration}}, nil
}

// announce prints what this run copies and what it does not copy.
func (r *replication) announce(st *state) {
	how := "with the same key"
	if !slices.Equal(st.SourceKey, st.TargetKey) {
		how = "with key " + strings.Join(st.TargetKey, ",") + " instead of " + strings.Join(st.SourceKey, ",")
	}
	if r.shape.source.v1 != r.target.v1 {
		how += ", whose hash has another version"
	}
	processor := r.Processor
	if r.Versions { // `changefeed lag` of the first processor does not change after the initial copy
		processor += " for existing documents, " + r.Processor + versionsSuffix + " for later changes"
	}
	r.progress.say("%s of %s to %s of %s, %s; leases in %s, processor %s",
		r.From, r.From.Account.Settings, r.To, r.To.Account.Settings, how, r.Leases, processor)
	if !r.Versions {
		r.progress.say("deletes are not copied: latest version mode does not report them (--mode avad does)")
	}
	if r.rekeyed && r.NoMoves {
		r.progress.say("--no-moves: when a document's new key changes, its old copy stays")
	}
	if r.rekeyed && !r.NoMoves && !r.empty {
		r.progress.say("the target had documents when the replication began, so each document is looked up by id before it is copied")
	}
}

// documents returns a number of documents as a text.
func documents(n int64) string {
	if n == 1 {
		return "1 document"
	}
	return view.Thousands(n) + " documents"
}

// summary prints the last line of a run, with the numbers of documents.
func (r *replication) summary() {
	w := r.writer
	text := fmt.Sprintf("this process copied %s in %s", documents(w.copied.Load()), time.Since(r.progress.began).Round(time.Second))
	if n := w.moved.Load(); n > 0 {
		text += fmt.Sprintf(", of which %s moved to another key", view.Thousands(n))
	}
	if n := w.deleted.Load(); n > 0 {
		text += fmt.Sprintf(", and deleted %s", view.Thousands(n))
	}
	r.progress.say("%s", text)
	if n := w.unsure.Load(); n > 0 {
		r.progress.say("%s changes of documents with an unknown old key were not looked up (--no-moves): their old copies may still exist", view.Thousands(n))
	}
}

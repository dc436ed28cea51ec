// Package demo implements `changefeed demo`. It moves a data set to another partition key
// while the data is being written.
//
// Writers put records into one container. Hosts, each a processor of its own, copy every
// change into a second container that has another partition key. In the meantime hosts
// join and a partition is split. One host crashes in the middle of a batch without
// releasing its leases. A second wave updates a quarter of the records. At the end both
// containers are compared document by document.
//
// With Poison the hosts cannot copy some records. These are given up and kept as letters, and the
// later changes of their keys wait behind them. In the end the hosts are mended, and the letters
// are redriven.
//
// The hosts share only the containers. A host that crashes is isolated: from then on none
// of its calls is carried out or answered.
//
// All state of a run is in the store, so the next run on the same directory finishes a
// run that was killed.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/datadir"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/store"
)

// The intervals of the demo's processors. The defaults would take over a minute to
// notice the crash.
const (
	acquireInterval = time.Second
	renewInterval   = time.Second
	requestTimeout  = time.Second
	expiration      = 5 * time.Second
)

// Config is the configuration of a run.
type Config struct {
	// Input is a file of records: a JSON array, or one JSON object per line. If empty,
	// the 20,000 built-in flights are used.
	Input string
	// Records is the number of records of the input to use. If zero, all are used.
	Records int
	// ID is the field that names a record. If empty, it is "id" if the first record has
	// that field, and otherwise the row number, counted from 1.
	ID string
	// Key is the field that is the partition key of the records' container. It is
	// required with Input. The default for the flights is origin.
	Key string
	// NewKey is the field that is the partition key of the copy. If empty, it is the id.
	// The default for the flights is destination.
	NewKey string
	// Hosts is the number of hosts that share the work. The default is 3.
	Hosts int
	// Data is the store's directory, which is kept. If empty, a temporary one is used and
	// removed at the end.
	Data string
	// Seed determines the order of events: which partition is split, which host crashes,
	// and which records are updated.
	Seed uint64
	// Poison makes the hosts fail with some records, which become letters and are redriven in
	// the end.
	Poison bool
	// Metrics receives the metrics of the hosts. It may be nil.
	Metrics metric.MeterProvider
	// View shows the events and the progress. Required.
	View view.View
}

// Run moves the records. It returns when everything was copied and compared, or when ctx
// ends, with ctx's error. It also returns when the copy has made no progress for too
// long. The report then counts the missing documents.
func Run(ctx context.Context, cfg Config) (Report, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Report{}, err
	}
	data, err := load(cfg)
	if err != nil {
		return Report{}, err
	}
	dir, remove, err := directory(cfg.Data)
	if err != nil {
		return Report{}, err
	}
	report, err := moveIn(ctx, cfg, data, dir)
	return report, errors.Join(err, remove())
}

// moveIn runs the demo on the store in dir.
func moveIn(ctx context.Context, cfg Config, data dataset, dir string) (Report, error) {
	db, err := store.Open(dir, store.Options{})
	if err != nil {
		return Report{}, err
	}
	report, err := move(ctx, cfg, data, db)
	if closeErr := db.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("close the store: %w", closeErr))
	}
	return report, err
}

// move runs the demo on the containers of a store, compares them, and returns the report.
func move(ctx context.Context, cfg Config, data dataset, db *store.DB) (Report, error) {
	all, err := ensureContainers(ctx, db, data)
	if err != nil {
		return Report{}, err
	}
	before, err := protocol.Ends(ctx, all.source.source(), feed.LatestVersion)
	if err != nil {
		return Report{}, err
	}
	before = slices.DeleteFunc(before, func(e protocol.End) bool { return e.LSN <= 0 }) // nothing was written there
	r, err := newRunner(cfg, data, all, before)
	if err != nil {
		return Report{}, err
	}
	if err := r.run(ctx); err != nil {
		return Report{}, err
	}
	r.say("comparing %s and %s document by document", all.source.name(), all.target.name())
	found, err := compare(ctx, data, all.source, all.target)
	if err != nil {
		return Report{}, err
	}
	report := r.count.report()
	report.comparison, report.Missing, report.Wrong = found, found.missing, found.wrong
	return report, nil
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Hosts == 0:
		c.Hosts = 3
	case c.Hosts < 0 || c.Hosts > maxHosts:
		return c, configError("--hosts is %d: it must be from 1 to %d", c.Hosts, maxHosts)
	}
	if c.Records < 0 {
		return c, configError("--records is %d: it must not be negative", c.Records)
	}
	if c.Input == "" {
		if c.ID != "" || c.Key != "" || c.NewKey != "" {
			return c, configError("--id, --key and --new-key name fields of --input, which is missing")
		}
		c.Key, c.NewKey = "origin", "destination"
		return c, nil
	}
	if c.Key == "" {
		return c, configError("--key is missing: it must name the field of --input that is the partition key of the records' container")
	}
	return c, nil
}

// ConfigError reports a configuration that cannot be run. Its text names the flag.
type ConfigError struct{ text string }

func (e *ConfigError) Error() string { return e.text }

func configError(format string, args ...any) error {
	return &ConfigError{fmt.Sprintf(format, args...)}
}

// maxHosts is the maximum number of hosts. Hosts join one after the other, so it limits a
// run to about a minute.
const maxHosts = 16

// directory returns the directory of the store. It creates a temporary directory if data
// is empty. The function remove deletes only a temporary one.
func directory(data string) (dir string, remove func() error, err error) {
	if data != "" {
		return data, func() error { return nil }, datadir.Check(data)
	}
	dir, err = os.MkdirTemp("", "changefeed-demo-*")
	if err != nil {
		return "", nil, fmt.Errorf("create a temporary directory: %w", err)
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

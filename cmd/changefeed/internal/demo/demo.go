// Package demo moves a data set to another partition key while it is being
// written: the work of `changefeed demo`.
//
// Writers put records into one container. Hosts, each a processor of its own,
// copy every change into a second container that is keyed by another field. In
// the meantime hosts join, a partition is split, one host crashes in the middle
// of a batch without releasing its leases, and a second wave updates a quarter of the
// records. At the end both containers are compared document by document.
//
// The hosts share nothing besides the containers. A host that crashes is isolated: from then
// on none of its calls is carried out or answered. With [Config.Processes] each host is a process of its own over
// `changefeed serve`, and the crash is SIGKILL.
//
// Nothing of a run is kept outside the store, so a run that was killed is
// finished by the next one on the same directory.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/datadir"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
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
	// Input is a file of records: a JSON array, or one JSON object per line.
	// Default: the 20,000 flights that are built in.
	Input string
	// Records is the number of records of the input to take. Default: all.
	Records int
	// ID is the field that names a record. Default: "id" if the first record has it.
	// Otherwise the row number, counted from 1.
	ID string
	// Key is the field that the records' container is keyed by. Required with
	// Input; default for the flights: origin.
	Key string
	// NewKey is the field that the copy is keyed by. Default: the id; for the
	// flights: destination.
	NewKey string
	// Hosts is the number of hosts that share the work. Default: 3.
	Hosts int
	// Data is the store's directory, which is kept. Default: a temporary one,
	// removed at the end.
	Data string
	// Seed decides what happens when: which partition is split, which host
	// crashes, which records are updated.
	Seed uint64
	// Processes runs each host as a process of its own, over a server. The one that
	// crashes is killed.
	Processes bool
	// Metrics gets the hosts' metrics, of hosts in this process. Default: none.
	Metrics metric.MeterProvider
	// View shows the events and the progress. Required.
	View view.View
}

// Run moves the records. It returns when everything was copied and compared, when ctx ends
// (with ctx's error), or when the copy has made no progress for too long. Then the report
// counts the missing documents.
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

// moveIn runs the demo on the store in dir: in this process, or over a server.
func moveIn(ctx context.Context, cfg Config, data dataset, dir string) (Report, error) {
	if cfg.Processes {
		s, err := startServer(context.WithoutCancel(ctx), dir)
		if err != nil {
			return Report{}, err
		}
		report, err := move(ctx, cfg, data, s)
		return report, errors.Join(err, s.end()) //nolint:contextcheck // what was opened is closed, though ctx has ended
	}
	db, err := store.Open(dir, store.Options{})
	if err != nil {
		return Report{}, err
	}
	report, err := move(ctx, cfg, data, storeBackend{db})
	if closeErr := db.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("close the store: %w", closeErr))
	}
	return report, err
}

// move runs the demo on a backend.
func move(ctx context.Context, cfg Config, data dataset, b backend) (Report, error) {
	all, err := ensureContainers(ctx, b, data)
	if err != nil {
		return Report{}, err
	}
	before, err := lastLSN(ctx, all.source.source())
	if err != nil {
		return Report{}, err
	}
	r, err := newRunner(cfg, data, all, before)
	if err != nil {
		return Report{}, err
	}
	r.server, _ = b.(*serverBackend)
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
		return c, configError("--records is %d: it can't be negative", c.Records)
	}
	if c.Input == "" {
		if c.ID != "" || c.Key != "" || c.NewKey != "" {
			return c, configError("--id, --key and --new-key name fields of --input, which is missing")
		}
		c.Key, c.NewKey = "origin", "destination"
		return c, nil
	}
	if c.Key == "" {
		return c, configError("--key is missing: it names the field of --input that the records' container is keyed by")
	}
	return c, nil
}

// ConfigError reports a configuration that cannot be run. Its text names the flag.
type ConfigError struct{ text string }

func (e *ConfigError) Error() string { return e.text }

func configError(format string, args ...any) error {
	return &ConfigError{fmt.Sprintf(format, args...)}
}

// maxHosts keeps a run within its minute: one host joins after the other.
const maxHosts = 16

// directory returns the store's directory and what removes it.
func directory(data string) (dir string, remove func() error, err error) {
	if data != "" {
		return data, func() error { return nil }, datadir.Check(data)
	}
	dir, err = os.MkdirTemp("", "changefeed-demo-*")
	if err != nil {
		return "", nil, fmt.Errorf("make a temporary directory: %w", err)
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

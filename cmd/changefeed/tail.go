package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/metrics"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
)

// tailOptions are the flags of `changefeed tail`.
type tailOptions struct {
	connect.Flags
	database, container string
	from, mode          string
	follow              bool
	position            string
	interval            time.Duration
	metrics             string
	flags               *pflag.FlagSet
}

func tailCommand() *cobra.Command {
	var o tailOptions
	cmd := &cobra.Command{
		Use:   "tail --database NAME --container NAME",
		Short: "Print the change feed of a container, one JSON object per line",
		Long: `Prints the change feed of a container of an account, or of an embedded store
(--data), to its end; with --follow it goes on there, until interrupted.

In latest version mode a line is the document as it was last written. In all
versions and deletes mode it is an object with current, previous and metadata,
as in the protocol of Azure Cosmos DB; that feed has no beginning, so say
"--from after:0" for all that is retained.

Lines of one partition key are in the order of their writes; those of different
partitions mix. after:LSN is the same LSN in every partition: of an embedded store, where one
count goes through the whole container, that is one moment; of an account it is not.

With --position the position is kept in a file, and the next call resumes after it; what was
printed in the last second before a crash is printed again. The position survives
splits, merges and restarts, and belongs to the container that it was made with.

A store is open in one process at a time: while another one uses the directory, tail
names it and ends.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := o.reader(time.Now(), cmd.ErrOrStderr())
			if err != nil {
				return &usageError{err}
			}
			return o.tail(cmd.Context(), cfg, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	o.flags = flags
	o.Add(flags)
	flags.StringVar(&o.database, "database", "", "`name` of the database")
	flags.StringVar(&o.container, "container", "", "`name` of the container")
	flags.StringVar(&o.from, "from", "beginning", "`start`: beginning, now, a time (2026-11-21T09:30:00Z, 2026-11-21), or after:LSN")
	flags.StringVar(&o.mode, "mode", modeLatest, modeHelp+" (default with a position that is kept: the position's)")
	flags.BoolVar(&o.follow, "follow", false, "go on at the end of the feed, until interrupted")
	flags.DurationVar(&o.interval, "interval", time.Second, "longest `time` from one read of a partition that has nothing new to the next")
	metrics.Add(flags, &o.metrics)
	flags.StringVar(&o.position, "position", "", "`file` that keeps the position: --from counts only while it does not exist")
	return cmd
}

// reader checks the options and returns the reader's configuration.
func (o *tailOptions) reader(now time.Time, warnings io.Writer) (feed.ReaderConfig, error) {
	cfg := feed.ReaderConfig{MaxItems: 1000, Parallel: 4}
	err := required("--database", o.database, "--container", o.container)
	if err != nil {
		return cfg, err
	}
	if cfg.Mode, err = parseMode(o.mode, warnings); err != nil {
		return cfg, err
	}
	if cfg.Start, err = parseStart(o.from, now); err != nil {
		return cfg, fmt.Errorf("--from is %q: %w", o.from, err)
	}
	if o.interval <= 0 {
		return cfg, fmt.Errorf("--interval is %s: it is a time, as in 5s", o.interval)
	}
	if err := metrics.Check(o.metrics); err != nil {
		return cfg, err
	}
	if o.metrics != "" && !o.follow {
		return cfg, errors.New("--metrics goes with --follow: nobody could read them of a command that ends")
	}
	cfg.Follow, cfg.Wait = o.follow, o.interval
	if o.position != "" {
		if err := o.resume(&cfg); err != nil {
			return cfg, fmt.Errorf("--position: %w", err)
		}
	}
	if kind := cfg.Start.Kind(); cfg.Position == "" && cfg.Mode == feed.AllVersionsAndDeletes && (kind == feed.StartBeginning || kind == feed.StartTime) {
		return cfg, fmt.Errorf("--from is %q: with --mode avad it is now, or after:LSN (after:0 is all that is retained)", o.from)
	}
	return cfg, nil
}

// resume reads the position that is kept, if there is one, and checks that the next one can be
// kept. The mode of the position is the default of --mode.
func (o *tailOptions) resume(cfg *feed.ReaderConfig) error {
	f := positionFile{name: o.position}
	kept, err := f.read()
	if err != nil {
		return err
	}
	if cfg.Position = kept; kept != "" {
		mode, known := positionMode(kept)
		if known && o.flags.Changed("mode") && mode != cfg.Mode {
			return fmt.Errorf("the position in %s is one of %s mode, and --mode is %s; say another file, or leave --mode out", o.position, mode, o.mode)
		}
		if known {
			cfg.Mode = mode
		}
	}
	return f.check()
}

// errFuture refuses a start that no change has reached.
var errFuture = errors.New("it is in the future")

// parseStart reads a start as people write it.
func parseStart(s string, now time.Time) (feed.Start, error) {
	switch s {
	case "beginning":
		return feed.Beginning(), nil
	case "now":
		return feed.Now(), nil
	}
	if after, has := strings.CutPrefix(s, "after:"); has {
		lsn, err := strconv.ParseUint(after, 10, 63)
		if err != nil {
			return feed.Start{}, errors.New("an LSN is a whole number, 0 or more")
		}
		return feed.After(feed.Continuation(`"` + strconv.FormatUint(lsn, 10) + `"`)), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		t, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		if t.After(now) {
			return feed.At(t), errFuture
		}
		return feed.At(t), nil
	}
	return feed.Start{}, errors.New("it is beginning, now, a time such as 2026-11-21T09:30:00Z or 2026-11-21 (UTC), or after:LSN")
}

// tail prints the feed.
func (o *tailOptions) tail(ctx context.Context, cfg feed.ReaderConfig, out, errOut io.Writer) (err error) {
	connection, err := o.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, connection.Close()) }() //nolint:contextcheck // what was opened is closed, though ctx has ended
	paths, err := keyPaths(ctx, connection.Monitored, o.database, o.container)
	if err != nil {
		return err
	}
	provider, stop, err := metrics.Start(ctx, o.metrics, errOut)
	if err != nil {
		return err
	}
	defer stop()
	source, err := countReads(connection.Monitored.Source(o.database, o.container, cosmos.SourceOptions{}), provider)
	if err != nil {
		return err
	}
	reader, err := feed.NewReader(source, cfg)
	if err != nil && cfg.Position != "" { // the rest of the configuration is known to be right
		return fmt.Errorf("--position: the position in %s is damaged: %w; restore the file, or delete it to begin at --from", o.position, err)
	}
	if err != nil {
		return err
	}
	lines := &lineWriter{w: bufio.NewWriterSize(out, 1<<16), keyPaths: paths, mode: cfg.Mode}
	position, printed := positionFile{name: o.position}, false
	for page, err := range reader.Pages(ctx) {
		if err != nil {
			if o.follow && ctx.Err() != nil { // this is how following ends
				err = nil
			}
			if err != nil && !printed {
				return o.otherContainer(err) // there is no new position to keep
			}
			return errors.Join(err, position.keep(context.WithoutCancel(ctx), reader, 0))
		}
		printed = true
		if err := lines.page(page); err != nil {
			return fmt.Errorf("print: %w", err)
		}
		if err := position.keep(ctx, reader, positionInterval); err != nil {
			return err
		}
	}
	return position.keep(ctx, reader, 0)
}

// otherContainer adds the remedy to the error of a position in another container.
func (o *tailOptions) otherContainer(err error) error {
	var other *feed.PositionError
	if !errors.As(err, &other) {
		return err
	}
	return fmt.Errorf("--position: %w: it was deleted and recreated, or the position in %s is one in another; delete the file to begin at --from", err, o.position)
}

// keyPaths returns the partition key paths of a container. If it does not exist, the error names
// those that do.
func keyPaths(ctx context.Context, account *connect.Opened, database, container string) ([]string, error) {
	c, err := account.Documents().NewContainer(database, container)
	if err != nil {
		return nil, err
	}
	answer, err := c.Read(ctx, nil)
	if err != nil {
		return nil, account.Explain(ctx, database, container, err)
	}
	return answer.ContainerProperties.PartitionKeyDefinition.Paths, nil
}

// lineWriter writes changes as lines of JSON.
type lineWriter struct {
	w        *bufio.Writer
	keyPaths []string
	mode     feed.Mode
	line     bytes.Buffer
}

// page writes a page's changes and flushes them.
func (l *lineWriter) page(p feed.Page) error {
	for _, c := range p.Changes {
		text := c.Current
		if l.mode == feed.AllVersionsAndDeletes {
			var err error
			if text, err = json.Marshal(l.version(c)); err != nil {
				return err
			}
		}
		// A document keeps its writer's line breaks.
		l.line.Reset()
		if err := json.Compact(&l.line, text); err != nil {
			return err
		}
		l.line.WriteByte('\n')
		if _, err := l.w.Write(l.line.Bytes()); err != nil {
			return err
		}
	}
	return l.w.Flush()
}

// version is a line in all versions and deletes mode.
type version struct {
	Current  json.RawMessage `json:"current,omitempty"`
	Previous json.RawMessage `json:"previous,omitempty"`
	Metadata metadata        `json:"metadata"`
}

// metadata is that of a change, in the names of the protocol.
type metadata struct {
	Operation string         `json:"operationType"`
	LSN       int64          `json:"lsn"`
	Time      int64          `json:"crts"`
	Expired   bool           `json:"timeToLiveExpired,omitempty"`
	ID        string         `json:"id,omitempty"`
	Key       map[string]any `json:"partitionKey,omitempty"`
}

func (l *lineWriter) version(c feed.Change) version {
	v := version{Current: c.Current, Previous: c.Previous, Metadata: metadata{
		Operation: c.Op.String(), LSN: c.LSN, Time: c.Time.Unix(), Expired: c.Expired, ID: c.DeletedID,
	}}
	if len(c.DeletedKey) > 0 {
		v.Metadata.Key = make(map[string]any)
		for i, component := range c.DeletedKey {
			if i < len(l.keyPaths) {
				v.Metadata.Key[strings.TrimPrefix(l.keyPaths[i], "/")] = component
			}
		}
	}
	return v
}

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
	"github.com/changefeed-go/changefeed/internal/follow"
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
		Long: `Tail prints the change feed of a container, of an account or of an embedded store (--data). It ends
at the end of the feed. With --follow it waits there for new changes until it is interrupted, and,
once it has read the feed, for an account that cannot be reached.

In latest version mode a line is the document as it was last written. In all versions and deletes
mode it is an object with current, previous and metadata, as in the protocol of Azure Cosmos DB. The
feed of that mode has no beginning. Use "--from after:0" for all retained changes.

Lines of one partition key are in the order of their writes. Lines of different partitions are
interleaved. after:LSN means the same LSN in every partition. Each partition counts its own LSNs, so
after:LSN is not one moment, and a partition that ends before it is an error.

With --position the position is saved in a file, and the next run resumes after it. Lines of the last
second before a crash are printed again. The position survives splits, merges and restarts. It is valid
only for its own container.

Only one process can open a store at a time. If another process has opened the directory, tail
names that process and fails.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := o.reader(time.Now())
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
	flags.StringVar(&o.mode, "mode", modeLatest, modeHelp+" (default with a saved position: that position's mode)")
	flags.BoolVar(&o.follow, "follow", false, "wait for new changes at the end of the feed, until interrupted")
	flags.DurationVar(&o.interval, "interval", time.Second, "maximum `time` between two reads of a partition that has no new changes")
	metrics.Add(flags, &o.metrics)
	flags.StringVar(&o.position, "position", "", "`file` that stores the position; --from is used only if the file does not exist")
	return cmd
}

// reader checks the flags and returns the configuration of the feed's reader.
func (o *tailOptions) reader(now time.Time) (feed.ReaderConfig, error) {
	cfg := feed.ReaderConfig{MaxItems: 1000, Parallel: 4}
	err := required("--database", o.database, "--container", o.container)
	if err != nil {
		return cfg, err
	}
	if cfg.Mode, err = parseMode(o.mode); err != nil {
		return cfg, err
	}
	if cfg.Start, err = parseStart(o.from, now); err != nil {
		return cfg, fmt.Errorf("--from is %q: %w", o.from, err)
	}
	if o.interval <= 0 {
		return cfg, fmt.Errorf("--interval is %s: it must be positive, for instance 5s", o.interval)
	}
	if err := metrics.Check(o.metrics); err != nil {
		return cfg, err
	}
	if o.metrics != "" && !o.follow {
		return cfg, errors.New("--metrics requires --follow: a command that ends cannot serve metrics")
	}
	cfg.Follow, cfg.Wait = o.follow, o.interval
	if o.position != "" {
		if err := o.resume(&cfg); err != nil {
			return cfg, fmt.Errorf("--position: %w", err)
		}
	}
	if kind := cfg.Start.Kind(); cfg.Position == "" && cfg.Mode == feed.AllVersionsAndDeletes && (kind == feed.StartBeginning || kind == feed.StartTime) {
		return cfg, fmt.Errorf("--from is %q: with --mode avad it must be now or after:LSN (after:0 prints all retained changes)", o.from)
	}
	return cfg, nil
}

// resume sets the position of cfg from the file, if the file exists, and checks that the
// file can be written. If --mode is not given, it also sets the mode of the position.
func (o *tailOptions) resume(cfg *feed.ReaderConfig) error {
	f := positionFile{name: o.position}
	kept, err := f.read()
	if err != nil {
		return err
	}
	if cfg.Position = kept; kept != "" {
		mode, known := positionMode(kept)
		if known && o.flags.Changed("mode") && mode != cfg.Mode {
			return fmt.Errorf("the position in %s is in %s mode, but --mode is %s; name another file, or omit --mode", o.position, mode, o.mode)
		}
		if known {
			cfg.Mode = mode
		}
	}
	return f.check()
}

// errFuture reports a start time in the future.
var errFuture = errors.New("it must not be in the future")

// parseStart parses the value of --from.
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
			return feed.Start{}, errors.New("an LSN must be a whole number, 0 or more")
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
	return feed.Start{}, errors.New("it must be beginning, now, a time such as 2026-11-21T09:30:00Z or 2026-11-21 (UTC), or after:LSN")
}

// tail connects to the account and prints the feed.
func (o *tailOptions) tail(ctx context.Context, cfg feed.ReaderConfig, out, errOut io.Writer) (err error) {
	connection, err := o.Open(errOut)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, connection.Close()) }() //nolint:contextcheck // it must close even if ctx has ended
	paths, err := keyPaths(ctx, connection.Monitored, o.database, o.container)
	if err != nil {
		return err
	}
	provider, stop, err := metrics.Start(ctx, o.metrics, errOut)
	if err != nil {
		return err
	}
	defer stop()
	source, err := countReads(ctx, connection.Monitored.Source(o.database, o.container, cosmos.SourceOptions{}), provider)
	if err != nil {
		return err
	}
	outage := connect.NewOutage("requests", func(line string) { _, _ = fmt.Fprintln(errOut, "changefeed: "+line) })
	reader, err := feed.NewReader(watchedSource{source, outage}, cfg)
	if err != nil && cfg.Position != "" { // an error must be about the position, because the rest of the configuration is valid
		return fmt.Errorf("--position: the position in %s is damaged: %w; restore the file, or delete it to start at --from", o.position, err)
	}
	if err != nil {
		return err
	}
	lines := &lineWriter{w: bufio.NewWriterSize(out, 1<<16), keyPaths: paths, mode: cfg.Mode}
	for {
		unread, err := o.print(ctx, reader, lines)
		switch {
		case ctx.Err() != nil && o.follow: // --follow ends when ctx ends, which is not an error
			return err
		case unread == nil || err != nil || !o.follow || lines.pages == 0 || !connect.Temporary(unread):
			return errors.Join(o.otherContainer(unread), err)
		}
		outage.Failed("", unread)
		if follow.Sleep(ctx, max(o.interval, time.Second)) != nil {
			return nil
		}
	}
}

// print prints the feed from the reader's position, and saves the position. unread is the
// error by which reading ended, and err any other.
func (o *tailOptions) print(ctx context.Context, reader *feed.Reader, lines *lineWriter) (unread, err error) {
	position := positionFile{name: o.position}
	for page, err := range reader.Pages(ctx) {
		if err != nil {
			unread = err
			break
		}
		if err := lines.page(page); err != nil {
			return nil, fmt.Errorf("print: %w", err)
		}
		if err := position.keep(ctx, reader, positionInterval); err != nil {
			return nil, err
		}
	}
	if lines.pages == 0 && unread != nil { // there is no new position
		return unread, nil
	}
	return unread, position.keep(context.WithoutCancel(ctx), reader, 0)
}

// watchedSource is a source whose reads an outage watches. It reports throttled reads,
// which the reader repeats by itself. The command reports all others.
type watchedSource struct {
	feed.Source
	outage *connect.Outage
}

// Read implements [feed.Source].
func (s watchedSource) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	page, err := s.Source.Read(ctx, r)
	switch {
	case err == nil:
		s.outage.Worked("")
	case connect.Throttled(err):
		s.outage.Failed("", err)
	}
	return page, err
}

// otherContainer adds the remedy to an error about a position of another container. It
// returns other errors unchanged.
func (o *tailOptions) otherContainer(err error) error {
	var other *feed.PositionError
	if !errors.As(err, &other) {
		return err
	}
	return fmt.Errorf("--position: %w: the container was deleted and recreated, or the position in %s belongs to another one; delete the file to start at --from", err, o.position)
}

// keyPaths returns the partition key paths of a container. If the container does not
// exist, the error lists the containers that do.
func keyPaths(ctx context.Context, account *connect.Opened, database, container string) ([]string, error) {
	p, err := account.Documents().Container(database, container).Properties(ctx)
	if err != nil {
		return nil, account.Explain(ctx, database, container, err)
	}
	return p.PartitionKey.Paths, nil
}

// lineWriter writes changes as JSON, one per line.
type lineWriter struct {
	w        *bufio.Writer
	keyPaths []string
	mode     feed.Mode
	line     bytes.Buffer
	pages    int // the number of pages
}

// page writes all changes of a page, and flushes them.
func (l *lineWriter) page(p feed.Page) error {
	l.pages++
	for _, c := range p.Changes {
		text := c.Current
		if l.mode == feed.AllVersionsAndDeletes {
			var err error
			if text, err = json.Marshal(l.version(c)); err != nil {
				return err
			}
		}
		// A document may contain line breaks, which a line must not.
		l.line.Reset()
		if err := json.Compact(&l.line, text); err != nil {
			return err
		}
		l.line.WriteByte('\n')
		// A character that two writes share would not be escaped.
		if l.line.Len() > l.w.Available() {
			if err := l.w.Flush(); err != nil {
				return err
			}
		}
		if _, err := l.w.Write(l.line.Bytes()); err != nil {
			return err
		}
	}
	return l.w.Flush()
}

// version is the line of a change in all versions and deletes mode.
type version struct {
	Current  json.RawMessage `json:"current,omitempty"`
	Previous json.RawMessage `json:"previous,omitempty"`
	Metadata metadata        `json:"metadata"`
}

// metadata is the metadata of a change, with the names and the order of the protocol.
type metadata struct {
	LSN       int64          `json:"lsn"`
	Time      int64          `json:"crts"`
	Operation string         `json:"operationType"`
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

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
)

// tailOptions are the flags of `changefeed tail`.
type tailOptions struct {
	data, database, container string
	from, mode                string
	follow                    bool
}

func tailCommand() *cobra.Command {
	var o tailOptions
	cmd := &cobra.Command{
		Use:   "tail --data DIR --database NAME --container NAME",
		Short: "Print the change feed of a container, one JSON object per line",
		Long: `Prints the change feed of a container of an embedded store, to its end.

In latest version mode a line is the document as it was last written. In all
versions and deletes mode it is an object with current, previous and metadata,
as in the protocol of Azure Cosmos DB; that feed has no beginning, so say
"--from after:0" for all that is retained.

Lines of one partition key are in the order of their writes; those of different
partitions mix. A store is open in one process at a time: while another one uses
the directory, tail names it and ends.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := o.reader(time.Now())
			if err != nil {
				return &usageError{err}
			}
			return tail(cmd.Context(), o, cfg, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.data, "data", "", "`directory` of the store")
	flags.StringVar(&o.database, "database", "", "`name` of the database")
	flags.StringVar(&o.container, "container", "", "`name` of the container")
	flags.StringVar(&o.from, "from", "beginning", "`start`: beginning, now, a time (2026-11-21T09:30:00Z, 2026-11-21), or after:LSN")
	flags.StringVar(&o.mode, "mode", "latest", "`mode`: latest or all-versions")
	flags.BoolVar(&o.follow, "follow", false, "go on at the end of the feed, until interrupted")
	return cmd
}

// reader checks the options and makes a reader's configuration of them.
func (o tailOptions) reader(now time.Time) (feed.ReaderConfig, error) {
	cfg := feed.ReaderConfig{MaxItems: 1000}
	for _, f := range []struct{ flag, value string }{
		{"--data", o.data}, {"--database", o.database}, {"--container", o.container},
	} {
		if f.value == "" {
			return cfg, fmt.Errorf("%s is missing", f.flag)
		}
	}
	switch o.mode {
	case "latest":
	case "all-versions":
		cfg.Mode = feed.AllVersionsAndDeletes
	default:
		return cfg, fmt.Errorf("--mode is %q: it is latest or all-versions", o.mode)
	}
	var err error
	if cfg.Start, err = parseStart(o.from, now); err != nil {
		return cfg, fmt.Errorf("--from is %q: %w", o.from, err)
	}
	if kind := cfg.Start.Kind(); cfg.Mode == feed.AllVersionsAndDeletes && (kind == feed.StartBeginning || kind == feed.StartTime) {
		return cfg, fmt.Errorf("--from is %q: with --mode all-versions it is now, or after:LSN (after:0 is all that is retained)", o.from)
	}
	if o.follow {
		cfg.Wait = followWait
	}
	return cfg, nil
}

// followWait is how long a read is held at the end of the feed; the store answers
// it as soon as something is written.
const followWait = time.Second

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
			return feed.Start{}, errors.New("it is in the future")
		}
		return feed.At(t), nil
	}
	return feed.Start{}, errors.New("it is beginning, now, a time such as 2026-11-21T09:30:00Z or 2026-11-21 (UTC), or after:LSN")
}

// tail prints the feed.
func tail(ctx context.Context, o tailOptions, cfg feed.ReaderConfig, out io.Writer) (err error) {
	db, err := openExisting(o.data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c, err := findContainer(ctx, db, o.database, o.container)
	if err != nil {
		return err
	}
	properties, err := c.Properties(ctx)
	if err != nil {
		return err
	}
	reader, err := feed.NewReader(db.Source(c), cfg)
	if err != nil {
		return err
	}
	lines := &lineWriter{w: bufio.NewWriterSize(out, 1<<16), keyPaths: properties.KeyPaths, mode: cfg.Mode}
	for {
		page, _, err := reader.Next(ctx)
		if err != nil {
			if o.follow && ctx.Err() != nil { // this is how following ends
				return nil
			}
			return err
		}
		if err := lines.page(page); err != nil {
			return fmt.Errorf("print: %w", err)
		}
		if reader.Drained() && !o.follow {
			return nil
		}
	}
}

// openExisting opens the store in dir, and doesn't make one of a directory that
// has none: a mistyped name is no new store.
func openExisting(dir string) (*store.DB, error) {
	if _, err := os.Stat(filepath.Join(dir, "FORMAT")); err != nil { // each store has this file, see store/FORMAT.md
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("there is no store in %s", dir)
		}
		return nil, err
	}
	return store.Open(dir, store.Options{})
}

// findContainer returns a container, or an error that says which there are.
func findContainer(ctx context.Context, db *store.DB, database, container string) (*store.Container, error) {
	c, err := db.Container(ctx, database, container)
	if err == nil || !errors.Is(err, feed.ErrNotFound) {
		return c, err
	}
	databases, err := db.Databases(ctx)
	if err != nil {
		return nil, err
	}
	var there []string
	for _, d := range databases {
		containers, err := db.Containers(ctx, d.ID)
		if err != nil {
			return nil, err
		}
		for _, c := range containers {
			p, err := c.Properties(ctx)
			if err != nil {
				return nil, err
			}
			there = append(there, d.ID+"/"+p.ID)
		}
	}
	if len(there) == 0 {
		return nil, fmt.Errorf("there is no container %s/%s: the store has none", database, container)
	}
	return nil, fmt.Errorf("there is no container %s/%s; there are %s", database, container, strings.Join(there, ", "))
}

// lineWriter writes changes as lines of JSON.
type lineWriter struct {
	w        *bufio.Writer
	keyPaths []string
	mode     feed.Mode
	line     bytes.Buffer
}

// page writes a page's changes, and hands them on to the reader of the pipe.
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

// metadata is what happened, in the names of the protocol.
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

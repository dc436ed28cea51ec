package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/leases"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/internal/engine"
)

// restoreOptions are the flags of `changefeed restore`.
type restoreOptions struct {
	yes, dryRun, json bool
}

func restoreCommand() *cobra.Command {
	var o restoreOptions
	cmd := &cobra.Command{
		Use:   "restore DIR",
		Short: "Make a restored copy of a data directory ready for use",
		Long: `Restore must be run once after a data directory was replaced by an older copy, before anything else
opens it. It checks the whole store. Then it moves every counter on, so that the store never uses again
what the lost part may have used: LSNs, ETags, session tokens, resource ids and partition ids.

Each partition goes on above a hole of at least 2^32 LSNs, at an LSN that depends on the clock. A
reader whose position is beyond the copy gets an error (over REST 404 with the sub-status 1002) and does
not miss changes without a word. Other positions stay valid.

The change is atomic. To run restore a second time makes a second hole, which does no harm. The same
copy may be restored again later, with restore after each time.`,
		Args: arguments(1, 1, "directory", "./data"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.restore(cmd.Context(), cmd, args[0]) },
	}
	addYes(cmd, &o.yes)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "only check the store, and show what would be done")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON; requires --yes or --dry-run")
	return cmd
}

func (o *restoreOptions) restore(ctx context.Context, cmd *cobra.Command, dir string) error {
	if o.json && !o.yes && !o.dryRun {
		return &usageError{errors.New("--json requires --yes or --dry-run, because a question would be part of the output")}
	}
	out := cmd.OutOrStdout()
	r, err := engine.Restore(ctx, dir, engine.Options{}, func(r engine.Restoration) (bool, error) {
		if o.json {
			return !o.dryRun, nil
		}
		if err := printRestoration(out, dir, r); err != nil || o.dryRun {
			return false, err
		}
		return confirm(ctx, cmd, o.yes, "Restore it?")
	})
	switch {
	case errors.Is(err, engine.ErrNotConfirmed) && o.dryRun && o.json:
		return leases.WriteJSON(out, restorationJSON(dir, r, false))
	case errors.Is(err, engine.ErrNotConfirmed) && o.dryRun:
		return nil
	case errors.Is(err, engine.ErrNotConfirmed):
		return errUnchanged
	case err != nil:
		return err
	case o.json:
		return leases.WriteJSON(out, restorationJSON(dir, r, true))
	}
	_, err = fmt.Fprintf(out, "restored: the incarnation of the store is %08x\n", r.Incarnation)
	return err
}

// printRestoration prints what a restore is about to do.
func printRestoration(w io.Writer, dir string, r engine.Restoration) error {
	last := "it has no writes"
	if !r.LastWrite.IsZero() {
		last = "its last write was at " + r.LastWrite.UTC().Format(time.RFC3339)
	}
	if _, err := fmt.Fprintf(w, "%s has %s and %s; %s\n", view.OneLine(dir), view.Plural(r.Databases, "database", "databases"),
		view.Plural(len(r.Containers), "container", "containers"), last); err != nil {
		return err
	}
	if !r.Previous.IsZero() {
		if _, err := fmt.Fprintf(w, "it was restored before, at %s; to restore it again makes a second hole\n", r.Previous.UTC().Format(time.RFC3339)); err != nil {
			return err
		}
	}
	rows := [][]string{{"DATABASE", "CONTAINER", "PARTITION", "LAST LSN", "NEXT LSN"}}
	for _, c := range r.Containers {
		for _, p := range c.Partitions {
			rows = append(rows, []string{c.Database, c.Container, p.ID, fmt.Sprint(p.Last), fmt.Sprint(p.Next)})
		}
	}
	return view.Table(w, rows)
}

// restoration is what a restore did or would do, as JSON.
type restoration struct {
	Dir         string              `json:"dir"`
	Done        bool                `json:"done"`
	Incarnation string              `json:"incarnation,omitempty"`
	Databases   int                 `json:"databases"`
	Containers  []restoredContainer `json:"containers"`
	LastWrite   time.Time           `json:"lastWrite,omitzero"`
	Previous    time.Time           `json:"previous,omitzero"`
}

type restoredContainer struct {
	Database   string              `json:"database"`
	Container  string              `json:"container"`
	Partitions []restoredPartition `json:"partitions"`
}

type restoredPartition struct {
	ID   string `json:"id"`
	Min  string `json:"min"`
	Max  string `json:"max"`
	Last int64  `json:"lsn"`
	Next int64  `json:"nextLsn"`
}

func restorationJSON(dir string, r engine.Restoration, done bool) restoration {
	out := restoration{Dir: dir, Done: done, Databases: r.Databases, LastWrite: r.LastWrite.UTC(), Previous: r.Previous.UTC(), Containers: []restoredContainer{}}
	if done {
		out.Incarnation = fmt.Sprintf("%08x", r.Incarnation)
	}
	for _, c := range r.Containers {
		row := restoredContainer{Database: c.Database, Container: c.Container}
		for _, p := range c.Partitions {
			row.Partitions = append(row.Partitions, restoredPartition{p.ID, p.Range.Min, p.Range.Max, p.Last, p.Next})
		}
		out.Containers = append(out.Containers, row)
	}
	return out
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/leases"
	"github.com/changefeed-go/changefeed/feed"
)

func (o *leasesOptions) check() *cobra.Command {
	var repair bool
	var mode, start, covered string
	cmd := &cobra.Command{
		Use:   "check [--repair]",
		Short: "Find what is wrong with the leases, and repair it",
		Long: fmt.Sprintf("Finds %d kinds of damage and repairs %d:\n\n%s", len(leases.Kinds), leases.Repairs(), kindLines()) + `
TROUBLESHOOTING.md has each by its name.

--repair shows its plan first, and carries it out when that is confirmed. It never moves a position
forward: of two that share keys the older wins, so changes may be delivered again and none is lost. A
lease that is made for a hole starts at --start. While a host works on a lease, only
the lock and the marker are repaired.

The exit status is 0 when nothing is wrong (any more), else 1.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := checkOptions(mode, start, covered, cmd.ErrOrStderr())
			if err != nil {
				return &usageError{err}
			}
			return o.with(cmd, func(ctx context.Context, c *opened, s leases.Survey) error {
				return o.checked(ctx, cmd, c, s, options, repair)
			})
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "repair what is wrong, after its plan was shown and confirmed")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "carry out the plan without asking")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON (not with --repair)")
	cmd.Flags().StringVar(&mode, "mode", "", modeHelp+" (default: that of most leases)")
	cmd.Flags().StringVar(&covered, "range", "", "`MIN-MAX`, the part of the container that the processor covers, where its hosts are configured so (default: everything)")
	cmd.Flags().StringVar(&start, "start", "beginning", "`start` of a lease that is made for a hole: beginning, marker (when the marker was made: right where the processor starts from now), or a time")
	return o.changes(cmd, "")
}

// kindLines returns the kinds of damage, one a line.
func kindLines() string {
	var b strings.Builder
	for _, k := range leases.Kinds {
		note := ""
		if !k.Repaired {
			note = " (not repaired)"
		}
		fmt.Fprintf(&b, "  %-24s %s%s\n", k.Kind, k.Meaning, note)
	}
	return b.String()
}

// atMarker is the start that the survey says.
const atMarker = "marker"

// checkOptions reads the flags.
func checkOptions(mode, start, covered string, warnings io.Writer) (func(leases.Survey) (leases.Options, error), error) {
	var o leases.Options
	if covered != "" {
		lower, upper, ok := strings.Cut(strings.ToUpper(covered), "-")
		if o.Range = (feed.Range{Min: lower, Max: upper}); !ok || o.Range.IsEmpty() {
			return nil, fmt.Errorf("--range is %q: it is MIN-MAX, two effective partition keys (hex), as in -80 or 80-FF", covered)
		}
	}
	if mode != "" {
		m, err := parseMode(mode, warnings)
		if err != nil {
			return nil, err
		}
		o.Mode = &m
	}
	if start == atMarker {
		return func(s leases.Survey) (leases.Options, error) {
			at, ok := s.Marked()
			if !ok {
				return o, errors.New("--start marker: there is no marker")
			}
			o.Start = at
			return o, nil
		}, nil
	}
	var err error
	o.Start, err = parseStart(start, time.Now())
	if k := o.Start.Kind(); err != nil && !errors.Is(err, errFuture) || k != feed.StartBeginning && k != feed.StartTime {
		return nil, fmt.Errorf("--start is %q: it is beginning, marker, or a time such as 2026-11-21T09:30:00Z or 2026-11-21 (UTC), so that nothing is lost", start)
	}
	if err != nil {
		return nil, fmt.Errorf("--start is %q: %w", start, err)
	}
	return func(leases.Survey) (leases.Options, error) { return o, nil }, nil
}

// checked finds damage, and repairs it.
func (o *leasesOptions) checked(ctx context.Context, cmd *cobra.Command, c *opened, s leases.Survey, options func(leases.Survey) (leases.Options, error), repair bool) error {
	with, err := options(s)
	if err != nil {
		return &usageError{err}
	}
	report, out := leases.Find(s, with), cmd.OutOrStdout()
	if o.json && !repair {
		if err := leases.WriteJSON(out, report); err != nil {
			return err
		}
		return verdict(report)
	}
	if _, err := io.WriteString(out, reportText(s, report)); err != nil {
		return err
	}
	if !repair || len(report.Plan) == 0 {
		return verdict(report)
	}
	if !o.dryRun {
		if err := s.MayRepair(report.Plan, o.force); err != nil {
			return err
		}
		if err := printSteps(out, "\nthe plan:\n", "  ", report.Plan); err != nil {
			return err
		}
		yes, err := o.confirm(cmd, "Carry it out?")
		if err != nil {
			return err
		}
		if !yes {
			return verdict(report)
		}
	}
	if err := o.carryOut(ctx, cmd, c, s, report.Plan); err != nil {
		return err
	}
	if o.dryRun {
		return verdict(report)
	}
	// What counts is what is there now.
	left := 0
	for _, f := range report.Findings {
		if f.Remedy != "" {
			left++
		}
	}
	if s, report, err = c.FindAfter(ctx, s, with, left); err != nil {
		return err
	}
	if _, err := io.WriteString(out, "\nafter the repair:\n"+reportText(s, report)); err != nil {
		return err
	}
	return verdict(report)
}

// verdict is the exit status.
func verdict(r leases.Report) error {
	if !r.OK {
		return errReported
	}
	return nil
}

// reportText returns a report as lines of text.
func reportText(s leases.Survey, r leases.Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s: %s\n", f.Kind, f.Text)
		if f.Remedy != "" {
			fmt.Fprintf(&b, "  not repaired: %s\n", f.Remedy)
		}
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	if r.OK {
		fmt.Fprintln(&b, s.Right())
	}
	return b.String()
}

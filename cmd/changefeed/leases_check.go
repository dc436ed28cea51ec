package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/leases"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
)

func (o *leasesOptions) check() *cobra.Command {
	var repair bool
	var mode, start, covered string
	cmd := &cobra.Command{
		Use:   "check [--repair]",
		Short: "Find damage in the leases, and repair it",
		Long: fmt.Sprintf("Check finds %d kinds of damage and repairs %d of them:\n\n%s", len(leases.Kinds), leases.Repairs(), kindLines()) + `
TROUBLESHOOTING.md explains each kind under its name.

--repair prints its plan, and asks before it carries it out. It never moves a position forward. If two leases cover the same keys, the older position wins. Changes may therefore be
delivered again, but none is lost. A lease that fills a hole starts at --start. While a live host
owns a lease, only the lock and the marker are repaired.

The exit status is 0 if no damage was found, or if none is left after the repair. Otherwise it is 1.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := checkOptions(mode, start, covered)
			if err != nil {
				return &usageError{err}
			}
			return o.with(cmd, func(ctx context.Context, c *opened, s leases.Survey) error {
				return o.checked(ctx, cmd, c, s, options, repair)
			})
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "repair the damage, after showing the plan and asking for confirmation")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON (not with --repair)")
	cmd.Flags().StringVar(&mode, "mode", "", modeHelp+" (default: the mode of most leases)")
	cmd.Flags().StringVar(&covered, "range", "", "the part `MIN-MAX` of the container that the processor covers, if its hosts are configured with a range (default: everything)")
	cmd.Flags().StringVar(&start, "start", "beginning", "`start` of a lease that fills a hole: beginning, marker (the time when the marker was created, for processors that start at now), or a time")
	return o.asks(cmd, "")
}

// kindLines returns the help text about the kinds of damage, one line for each.
func kindLines() string {
	var b strings.Builder
	for _, k := range leases.Kinds {
		note := ""
		if !k.Repaired {
			note = ", not repaired"
		}
		fmt.Fprintf(&b, "    %-20s %s%s\n", k.Kind, k.Meaning, note)
	}
	return b.String()
}

// atMarker is the value of --start that stands for the time of the marker.
const atMarker = "marker"

// checkOptions checks the values of the command's flags. The returned function computes
// the options, for which it also needs the survey.
func checkOptions(mode, start, covered string) (func(leases.Survey) (leases.Options, error), error) {
	var o leases.Options
	if covered != "" {
		var err error
		if o.Range, err = parseRange(covered); err != nil {
			return nil, err
		}
	}
	if mode != "" {
		m, err := parseMode(mode)
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
		return nil, fmt.Errorf("--start is %q: it must be beginning, marker, or a time such as 2026-11-21T09:30:00Z or 2026-11-21 (UTC), so that no change is lost", start)
	}
	if err != nil {
		return nil, fmt.Errorf("--start is %q: %w", start, err)
	}
	return func(leases.Survey) (leases.Options, error) { return o, nil }, nil
}

// checked finds damage and prints it. With --repair it also repairs the damage.
func (o *leasesOptions) checked(ctx context.Context, cmd *cobra.Command, c *opened, s leases.Survey, options func(leases.Survey) (leases.Options, error), repair bool) error {
	c.TryPositions(ctx, &s)
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
	if err := o.repairing(ctx, cmd, c, s, report.Plan).carryOut(ctx, cmd); err != nil && !errors.Is(err, errUnchanged) {
		return err
	} else if err != nil || o.dryRun {
		return verdict(report)
	}
	// If some damage is left after the repair, the exit status is a failure.
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

// verdict returns errReported if a report contains damage, and nil otherwise.
func verdict(r leases.Report) error {
	if !r.OK {
		return errReported
	}
	return nil
}

// reportText returns a report as text, with one line or more for each finding.
func reportText(s leases.Survey, r leases.Report) string {
	texts := slices.Clone(r.Notes)
	for _, f := range r.Findings {
		texts = append(texts, f.Text, f.Remedy)
	}
	names := view.NamesIn(texts...)
	line := func(text string) string { return view.OneLine(names.In(text)) }
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s: %s\n", f.Kind, line(f.Text))
		if f.Remedy != "" {
			fmt.Fprintf(&b, "  not repaired: %s\n", line(f.Remedy))
		}
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", line(n))
	}
	if r.OK {
		fmt.Fprintln(&b, s.Right())
	}
	return b.String()
}

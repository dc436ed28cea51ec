package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/leases"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
)

// change is a plan with what its user must know before it is carried out.
type change struct {
	plan []leases.Step
	// names are the short names of the ranges in the plan's texts.
	names view.ShortNames
	// effect says what the plan does to the delivery of changes. If empty, it does nothing.
	effect string
	// refusal is the reason why the plan must not be carried out now, or nil. It does not
	// hinder a dry run.
	refusal error
	// question asks whether the plan is to be carried out, which apply does.
	question string
	apply    func() error
	// dryRun and yes are the values of --dry-run and --yes.
	dryRun, yes bool
}

// errUnchanged reports that the user did not confirm a plan.
var errUnchanged = errors.New("nothing was changed")

// move carries out a plan that may move positions, as carryOut does. verb names it.
func (o *leasesOptions) move(ctx context.Context, cmd *cobra.Command, c *opened, s leases.Survey, verb string, plan []leases.Step) error {
	ch := o.repairing(ctx, cmd, c, s, plan)
	if ch.refusal = s.Refuse(verb, plan); o.force {
		ch.refusal = nil
	}
	if len(plan) > 0 && (ch.refusal == nil || o.dryRun) {
		moves, err := c.Moves(ctx, s, plan)
		if err != nil {
			return err
		}
		ch.effect = moves.Text()
	}
	return ch.carryOut(ctx, cmd)
}

// repairing returns the change of a plan that moves no position forward.
func (o *leasesOptions) repairing(ctx context.Context, cmd *cobra.Command, c *opened, s leases.Survey, plan []leases.Step) change {
	ch := o.change(plan, func() error {
		if o.force && len(s.Live()) > 0 {
			cmd.PrintErrf("changefeed: forced: %s\n", leases.ForceCosts)
		}
		return c.Apply(ctx, s, plan, printDone(cmd.OutOrStdout(), plan))
	})
	if !o.force {
		ch.refusal = s.RefuseRepair(plan)
	}
	return ch
}

// change returns the change of a plan that apply carries out.
func (o *leasesOptions) change(plan []leases.Step, apply func() error) change {
	return change{plan: plan, names: stepNames(plan), question: "Carry it out?", apply: apply, dryRun: o.dryRun, yes: o.yes}
}

// carryOut prints a plan, asks the user, and carries it out. With --dry-run it only prints
// the plan. It returns errUnchanged if the answer is no.
func (ch change) carryOut(ctx context.Context, cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	switch {
	case len(ch.plan) == 0:
		_, err := fmt.Fprintln(out, "there is nothing to do")
		return err
	case ch.dryRun:
		if err := printSteps(out, "", "would ", ch.plan, ch.names); err != nil {
			return err
		}
		return printNotes(out, ch)
	case ch.refusal != nil:
		return ch.refusal
	}
	if err := printSteps(out, "the plan:\n", "  ", ch.plan, ch.names); err != nil {
		return err
	}
	if err := printNotes(out, ch); err != nil {
		return err
	}
	yes, err := confirm(ctx, cmd, ch.yes, ch.question)
	switch {
	case err != nil:
		return err
	case !yes:
		return errUnchanged
	}
	return ch.apply()
}

// printNotes prints what a plan does to the delivery of changes, and why it is refused.
func printNotes(out io.Writer, ch change) error {
	text := ""
	if ch.effect != "" {
		text = view.OneLine(ch.effect) + "\n"
	}
	if ch.refusal != nil {
		text += fmt.Sprintf("note: %s\n", connect.Text(ch.refusal))
	}
	_, err := io.WriteString(out, text)
	return err
}

// stepNames returns the short names of the ranges in the texts of a plan.
func stepNames(plan []leases.Step) view.ShortNames {
	var texts []string
	for _, step := range plan {
		texts = append(texts, step.Text)
	}
	return view.NamesIn(texts...)
}

// printSteps prints title, and then one line per step, which begins with prefix. The details
// of a step follow it. They are members of documents, and have long names.
func printSteps(out io.Writer, title, prefix string, steps []leases.Step, names view.ShortNames) error {
	var b strings.Builder
	b.WriteString(title)
	for _, step := range steps {
		b.WriteString(prefix + view.OneLine(names.In(step.Text)) + "\n")
		for _, line := range step.Details {
			b.WriteString("    " + view.OneLine(line) + "\n")
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// printDone returns a function that prints a step of a plan as done, with the names that the
// plan was shown with.
func printDone(out io.Writer, plan []leases.Step) func(leases.Step) error {
	names := stepNames(plan)
	return func(step leases.Step) error { return printSteps(out, "", "done: ", []leases.Step{step}, names) }
}

// addYes adds the flag --yes of a command that asks by confirm.
func addYes(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVar(yes, "yes", false, "carry out the plan without asking; needed where the input is not a terminal")
}

// confirm asks the user a question, and reports whether the answer is yes. Every command
// that moves a position, or deletes or overwrites something, calls it first. It does not
// ask if yes, the value of --yes, is true. It returns an error if it must ask and the input
// is not a terminal.
func confirm(ctx context.Context, cmd *cobra.Command, yes bool, question string) (bool, error) {
	if yes {
		return true, nil
	}
	if !terminal(cmd.InOrStdin()) {
		return false, &usageError{errors.New("cannot ask for confirmation: the input is not a terminal; use --yes to carry out the plan, or --dry-run to see it")}
	}
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s [y/N] ", question); err != nil {
		return false, err
	}
	text, err := readLine(ctx, cmd.InOrStdin())
	if ctx.Err() != nil {
		_, _ = fmt.Fprintln(cmd.OutOrStdout()) // the question's line is still open
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	text = strings.ToLower(strings.TrimSpace(text))
	return text == "y" || text == "yes", nil
}

// readLine reads a line of a terminal, but only until ctx ends. Without that, a signal would
// end the command only after the next line. Nothing interrupts the read itself, so it may
// outlast the call. It then ends with the process.
func readLine(ctx context.Context, in io.Reader) (string, error) {
	type line struct {
		text string
		err  error
	}
	lines := make(chan line, 1)
	go func() {
		text, err := bufio.NewReader(in).ReadString('\n')
		lines <- line{text, err}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case l := <-lines:
		return l.text, cmp.Or(ctx.Err(), l.err)
	}
}

package leases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/lease"
)

// Conversion moves the leases of a processor into another dialect.
type Conversion struct {
	// Source is what is converted, Target what is there already: nothing, or what an earlier
	// attempt has left.
	Source, Target Survey
	// Steps create the leases that are missing; Unchanged are those that are there. Remove deletes the source's.
	Steps, Remove []Step
	Unchanged     []string
	// Notes say what the new leases don't carry on.
	Notes []string
}

// PlanConversion judges whether a conversion can be made, and what it does. same tells that
// source and target are one lease container. Errors: *[LiveError]; a lease that the other dialect has no form for; the target is in use.
func PlanConversion(source, target Survey, same, force bool) (Conversion, error) {
	c := Conversion{Source: source, Target: target}
	from, to := source.Codec, target.Codec
	if from.Dialect() == to.Dialect() {
		return c, fmt.Errorf("the leases are in %s already", to.Dialect())
	}
	if same && from.LeasePrefix() == to.LeasePrefix() {
		return c, fmt.Errorf("in one lease container leases of %s and of %s have the same ids: convert into another one (--to-leases), or under another processor name (--to-processor)", from.Dialect(), to.Dialect())
	}
	if err := source.refuseLive("convert", source.Items, force); err != nil {
		return c, err
	}
	if err := target.refuseLive("convert", target.Items, false); err != nil {
		return c, fmt.Errorf("the target is in use: %w", err)
	}
	made, notes, err := convertLeases(source, to)
	if err != nil {
		return c, err
	}
	c.Notes = notes
	for _, m := range made {
		there, ok := target.find(m.to.Token)
		if !ok {
			c.Steps = append(c.Steps, Step{
				Op: Create, After: m.to, Raw: m.after,
				Text: fmt.Sprintf("create lease %s of lease %s (%s)\n%s", m.to.Token, m.from.Token, Position(m.from), indented(difference(m.before, m.after))),
			})
			continue
		}
		if there.Continuation != m.to.Continuation {
			return c, fmt.Errorf("the target has lease %s already, at another position (%s, and not %s): somebody works there; use another processor name (--to-processor)", there.Token, Position(there.Lease), Position(m.to))
		}
		c.Unchanged = append(c.Unchanged, there.Token)
	}
	if err := c.resumable(made); err != nil {
		return c, err
	}
	if target.Marker != nil && len(c.Steps) == 0 {
		c.Notes = nil // they are about leases that an attempt before made, of all that was there then
	}
	for _, i := range source.Items {
		c.Remove = append(c.Remove, Step{Op: Delete, Before: &i.Document, Text: fmt.Sprintf("delete lease %s of the source", i.Token)})
	}
	return c, nil
}

// resumable refuses a target that holds something else than an earlier attempt's work.
func (c Conversion) resumable(made []convertedLease) error {
	ours := func(i Item) bool {
		return slices.ContainsFunc(made, func(m convertedLease) bool { return m.to.Token == i.Token })
	}
	if len(c.Target.Broken)+len(c.Target.Foreign) > 0 {
		return errors.New("the target has documents that can't be understood or are of another dialect: see `changefeed leases check`")
	}
	switch {
	case c.Target.Marker != nil && len(c.Target.Items) == 0:
		// Java's second dialect makes the first's marker, so that nobody starts there by mistake.
		if c.Target.Codec.Dialect() != lease.JavaHandleChanges {
			// Without the dialect the command would find, and delete, the leases that are to be converted.
			return fmt.Errorf("the target has a marker and no leases: a processor of that name was there; use another name (--to-processor), or delete the marker "+
				"with `changefeed leases delete --all --processor %s --dialect %s`, which names no lease (--leases is the target's container)", c.Target.Processor, c.Target.Codec.Dialect().Name())
		}
	case c.Target.Marker != nil && len(c.Steps) > 0, !slices.ContainsFunc(c.Target.Items, ours) && len(c.Target.Items) > 0:
		return fmt.Errorf("the target has %s of its own: use another processor name (--to-processor) or another lease container (--to-leases)", view.Plural(len(c.Target.Items), "lease", "leases"))
	}
	return nil
}

// Convert carries a conversion out. Each step may be the last one: the same command goes on where it
// ended. from and to may be the same container.
func Convert(ctx context.Context, from, to *Container, c Conversion, done func(Step) error) error {
	id := c.Target.Codec.LockID()
	lock, err := to.Create(ctx, id, id, c.Target.Codec.Lock())
	if changed(err) {
		return fmt.Errorf("the target is locked: a host is starting there, or was when it was killed (`changefeed leases check` tells)")
	}
	if err != nil {
		return fmt.Errorf("lock the target: %w", err)
	}
	err = convertLocked(ctx, from, to, c, done)
	// The lock goes whatever became of the conversion, an interrupt included.
	return errors.Join(err, unlock(context.WithoutCancel(ctx), to, lock))
}

func unlock(ctx context.Context, to *Container, lock Document) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	if err := to.Delete(ctx, lock); err != nil {
		return fmt.Errorf("unlock the target: %w", err)
	}
	return nil
}

func convertLocked(ctx context.Context, from, to *Container, c Conversion, done func(Step) error) error {
	short := func(s Step) error {
		s.Text, _, _ = strings.Cut(s.Text, "\n")
		return done(s)
	}
	if err := to.Apply(ctx, c.Target, c.Steps, short); err != nil {
		return err
	}
	if c.Target.Marker == nil {
		if err := to.Apply(ctx, c.Target, []Step{{Op: Mark, Text: "create the marker of the target"}}, done); err != nil {
			return err
		}
	}
	if err := verify(ctx, to, c); err != nil {
		return err
	}
	return from.Apply(ctx, c.Source, c.Remove, done)
}

// verify reads again what was written, before the source's leases go. An account of session consistency may
// answer from a replica that is behind, for a moment.
func verify(ctx context.Context, to *Container, c Conversion) error {
	var err error
	for range readAttempts {
		var now Survey
		if now, err = to.SurveyOf(ctx, c.Target.Processor, c.Target.Codec.Dialect(), c.Target.Terms); err != nil {
			return fmt.Errorf("read again what was written: %w", err)
		}
		if err = c.written(now); err == nil {
			return nil
		}
		if err := pause(ctx, pollInterval); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: nothing was deleted from the source", err)
}

// readAttempts is how often something that isn't there yet is looked for.
const readAttempts = 5

// written tells what of a conversion isn't in the target.
func (c Conversion) written(now Survey) error {
	for _, step := range c.Steps {
		i, ok := now.find(step.After.Token)
		if !ok || i.Continuation != step.After.Continuation {
			return fmt.Errorf("lease %s isn't in the target as it was written", step.After.Token)
		}
	}
	if now.Marker == nil {
		return errors.New("the marker isn't in the target")
	}
	return nil
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// FindAfter looks at the leases again after a repair, with the same options. What the repair has mended may be shown for
// a moment longer; left is how many findings it left.
func (c *Container) FindAfter(ctx context.Context, s Survey, o Options, left int) (Survey, Report, error) {
	for attempt := 1; ; attempt++ {
		again, err := c.SurveyOf(ctx, s.Processor, s.Codec.Dialect(), s.Terms)
		if err != nil {
			return s, Report{}, err
		}
		report := Find(again, o)
		if len(report.Findings) <= left || attempt == readAttempts {
			return again, report, nil
		}
		if err := pause(ctx, pollInterval); err != nil {
			return s, Report{}, err
		}
	}
}

// indented moves lines to the right, under the step that they are of.
func indented(lines string) string {
	return "    " + strings.ReplaceAll(strings.TrimSuffix(lines, "\n"), "\n", "\n    ")
}

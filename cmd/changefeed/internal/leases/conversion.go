package leases

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/internal/follow"
	"github.com/changefeed-go/changefeed/lease"
)

// Conversion is a plan that moves the leases of a processor to another dialect.
type Conversion struct {
	// Source has the leases to convert. Target is empty, or has the leases of an
	// interrupted conversion.
	Source, Target Survey
	// Steps create the missing leases. Unchanged are the tokens of those that exist.
	// Remove deletes the source's leases.
	Steps, Remove []Step
	Unchanged     []string
	// Notes describe the properties that the new leases do not keep.
	Notes []string
	// Skipped names the documents of the source that stay as they are, and says why.
	Skipped []string
}

// PlanConversion returns the plan of a conversion. same reports whether source and target
// are in one lease container. Its errors name a lease that the other dialect cannot
// represent, or report that the target is in use.
func PlanConversion(source, target Survey, same bool) (Conversion, error) {
	c := Conversion{Source: source, Target: target}
	from, to := source.Codec, target.Codec
	if from.Dialect() == to.Dialect() {
		return c, fmt.Errorf("the leases already are in %s", to.Dialect())
	}
	if same && from.LeasePrefix() == to.LeasePrefix() {
		return c, fmt.Errorf("in one lease container, leases of %s and of %s have the same ids; convert into another one (--to-leases), or under another processor name (--to-processor)", from.Dialect(), to.Dialect())
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
				Text:    fmt.Sprintf("create lease %s from lease %s (%s)", m.to.Token, m.from.Token, Position(m.from)),
				Details: difference(m.before, m.after),
			})
			continue
		}
		if there.Continuation != m.to.Continuation {
			return c, fmt.Errorf("the target already has lease %s at another position (%s, not %s): hosts work there; use another processor name (--to-processor)", there.Token, Position(there.Lease), Position(m.to))
		}
		c.Unchanged = append(c.Unchanged, there.Token)
	}
	if err := c.resumable(made); err != nil {
		return c, err
	}
	if target.Marker != nil && len(c.Steps) == 0 {
		c.Notes = nil // the notes are about leases that an earlier attempt has created
	}
	c.Skipped = skipped(source)
	for _, i := range source.Items {
		c.Remove = append(c.Remove, Step{Op: Delete, Before: &i.Document, Text: fmt.Sprintf("delete lease %s of the source", i.Token)})
	}
	return c, nil
}

// skipped names the documents of a survey that a conversion neither converts nor deletes. A
// document that cannot be read is not among them, because it prevents the conversion.
func skipped(source Survey) []string {
	var all []string
	skip := func(d Document, why string) {
		all = append(all, fmt.Sprintf("document %s is skipped: %s", d.ID, why))
	}
	for _, f := range source.Foreign {
		skip(f.Document, fmt.Sprintf("it is a lease in %s, and not in %s; see `changefeed leases check`", f.Dialect, source.Codec.Dialect()))
	}
	if source.Lock != nil {
		skip(*source.Lock, "it is the lock of a host that starts, or that was killed while it started")
	}
	if source.Marker != nil {
		skip(*source.Marker, "it is the marker, without which a host of the old leases would make new ones, as at its first start")
	}
	return all
}

// Refuse returns a *[LiveError] if a lease of the source is live and force is false, or if
// one of the target is.
func (c Conversion) Refuse(force bool) error {
	if err := c.Source.refuseLive("convert", c.Source.Items); err != nil && !force {
		return err
	}
	if err := c.Target.refuseLive("convert", c.Target.Items); err != nil {
		return fmt.Errorf("the target is in use: %w", err)
	}
	return nil
}

// Plan returns all steps in the order in which they are carried out, with details or
// without.
func (c Conversion) Plan(details bool) []Step {
	verify := Step{Text: "create the target's marker, and read the new leases again"}
	if c.Target.Marker != nil {
		verify.Text = "read the new leases again"
	}
	all := slices.Concat(c.Steps, []Step{verify}, c.Remove)
	for n := range all {
		if !details {
			all[n].Details = nil
		}
	}
	return all
}

// resumable returns an error if the target has documents that an earlier attempt at this
// conversion did not write.
func (c Conversion) resumable(made []convertedLease) error {
	ours := func(i Item) bool {
		return slices.ContainsFunc(made, func(m convertedLease) bool { return m.to.Token == i.Token })
	}
	if len(c.Target.Broken)+len(c.Target.Foreign) > 0 {
		return errors.New("the target has documents that cannot be read or are of another dialect; see `changefeed leases check`")
	}
	switch {
	case c.Target.Marker != nil && len(c.Target.Items) == 0:
		// Java's second dialect also creates the marker of the first one, so that no host
		// of the first one starts there by mistake.
		if c.Target.Codec.Dialect() != lease.JavaHandleChanges {
			// Without --dialect, the command in the remedy would delete the leases that
			// are to be converted.
			return fmt.Errorf("the target has a marker but no leases: a processor of that name was used there; use another name (--to-processor), or delete the marker "+
				"with `changefeed leases delete --all --processor %s --dialect %s` without lease tokens (--leases must name the target's container)", c.Target.Processor, c.Target.Codec.Dialect().Name())
		}
	case c.Target.Marker != nil && len(c.Steps) > 0, !slices.ContainsFunc(c.Target.Items, ours) && len(c.Target.Items) > 0:
		return fmt.Errorf("the target has %s of its own; use another processor name (--to-processor) or another lease container (--to-leases)", view.Plural(len(c.Target.Items), "lease", "leases"))
	}
	return nil
}

// Convert carries out a conversion. If it is interrupted after any step, the same command
// finishes it later. from and to may be the same container. It calls done after each
// step.
func Convert(ctx context.Context, from, to *Container, c Conversion, done func(Step) error) error {
	id := c.Target.Codec.LockID()
	lock, err := to.Create(ctx, id, id, c.Target.Codec.Lock())
	if changed(err) {
		return fmt.Errorf("the target is locked: a host is starting there, or was killed while it started; see `changefeed leases check`")
	}
	if err != nil {
		return fmt.Errorf("lock the target: %w", err)
	}
	err = convertLocked(ctx, from, to, c, done)
	// The lock is deleted even if the conversion failed or was interrupted.
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
	if err := to.Apply(ctx, c.Target, c.Steps, func(s Step) error {
		s.Details = nil
		return done(s)
	}); err != nil {
		return err
	}
	if c.Target.Marker == nil {
		if err := to.Apply(ctx, c.Target, []Step{{Op: Mark, Text: "create the target's marker"}}, done); err != nil {
			return err
		}
	}
	if err := verify(ctx, to, c); err != nil {
		return err
	}
	return from.Apply(ctx, c.Source, c.Remove, done)
}

// verify reads the new leases, before the source's leases are deleted. Under session
// consistency a read may come from a replica that lags, so verify tries it again.
func verify(ctx context.Context, to *Container, c Conversion) error {
	var err error
	for range readAttempts {
		var now Survey
		if now, err = to.SurveyOf(ctx, c.Target.Processor, c.Target.Codec.Dialect(), c.Target.Terms); err != nil {
			return fmt.Errorf("read the new leases again: %w", err)
		}
		if err = c.written(now); err == nil {
			return nil
		}
		if err := follow.Sleep(ctx, pollInterval); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: nothing was deleted from the source", err)
}

// readAttempts is the number of times that the leases are read before a missing one is an
// error.
const readAttempts = 5

// written returns an error if the survey of the target lacks a lease of the conversion or
// the marker.
func (c Conversion) written(now Survey) error {
	for _, step := range c.Steps {
		i, ok := now.find(step.After.Token)
		if !ok || i.Continuation != step.After.Continuation {
			return fmt.Errorf("lease %s is not in the target, or has another position", step.After.Token)
		}
	}
	if now.Marker == nil {
		return errors.New("the marker is not in the target")
	}
	return nil
}

// FindAfter reads the leases again after a repair, and returns the damage that is left.
// left is the number of findings that the repair could not fix. The first reads may still
// return the old leases, so FindAfter tries again until the findings are no more than
// left.
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
		if err := follow.Sleep(ctx, pollInterval); err != nil {
			return s, Report{}, err
		}
	}
}

package changefeed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/balance"
	"github.com/changefeed-go/changefeed/lease"
)

// cycle is one look at the leases: list them, make what is missing, and carry out
// what the plan decides, write by write. It runs on a goroutine of its own, so a
// slow store holds up nobody, and tells the supervisor of each lease it acquired
// at once, because trust in it is already running.
//
// Its reads end with Run's context. A write that is under way is waited for: an
// acquire that arrived must be released.
type cycle struct {
	*host
	// ctx is Run's; base carries its values and never ends.
	ctx, base context.Context
	regular   bool
	memory    balance.Memory
	// running are the leases, by ID, that this host has a worker for.
	running map[string]bool
	// acquired is told of each lease acquired. It returns when the supervisor has
	// it.
	acquired func(a acquisition)
	starts   *starts
	first    bool
	// suspect: the last listing looked as if the leases had been upgraded.
	suspect bool

	began time.Duration
	out   cycleResult
}

// cycleResult is what came of a cycle.
type cycleResult struct {
	balance.Cycle
	// memory is what to remember for the next listing.
	memory balance.Memory
	// shadowed are the running leases that the listing shows an ancestor of.
	shadowed []string
	// listed: there was a listing.
	listed bool
	// err ended the cycle early; it was notified. fatal ends Run.
	err, fatal error
}

func (c *cycle) run() cycleResult {
	c.began = c.clock().Mono
	c.out.Regular, c.out.memory = c.regular, c.memory
	plan, err := c.plan()
	if plan != nil {
		c.out.memory = plan.Memory()
		for id := range c.running {
			if plan.Shadowed(id) {
				c.out.shadowed = append(c.out.shadowed, id)
			}
		}
	}
	slices.Sort(c.out.shadowed)
	if plan != nil && c.out.fatal == nil {
		c.balance(plan)
		c.out.MarksOut = plan.MarksOut()
	}
	c.out.err = err
	return c.out
}

// plan lists the leases, and makes what is missing, until there is nothing to
// make. The plan that it returns is that of the last listing; nil: there is none.
func (c *cycle) plan() (*balance.Plan, error) {
	// A first start takes three listings: one that shows the gap, one after the
	// start was resolved and the partitions asked for, one that shows no gap.
	const most = 6
	var partitions []feed.Partition
	var plan *balance.Plan
	memory, regular := c.memory, c.regular
	for range most {
		listing, err := c.list()
		if err != nil {
			return plan, err
		}
		if again, err := c.refuses(listing); again || err != nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		if listing, err = c.withRanges(memory.WithRanges(listing), &partitions); err != nil {
			return plan, err
		}
		if err := c.checkModes(listing); err != nil {
			return nil, err
		}
		plan = balance.NewPlan(c.asHost(), listing, memory, c.clock().Mono, regular, func(id string) bool { return c.running[id] })
		memory, regular = plan.Memory(), false
		marked := !listing.Initialized.IsZero()
		if marked {
			c.starts.forget()
		}
		if plan.Complete() {
			return plan, c.createMarker()
		}
		if !plan.Due() {
			return plan, nil
		}
		if partitions == nil || !marked && !c.starts.resolved() {
			if partitions, err = c.prepare(marked); err != nil {
				return plan, err
			}
			continue
		}
		missing := plan.Missing(partitions)
		partitions = nil
		if err := c.create(missing, marked); err != nil {
			return plan, err
		}
	}
	return plan, nil
}

// withRanges is listing with the ranges of leases without one. partitions are those that the cycle has asked for, nil if
// it hasn't. They may be older than the listing: a lease of a partition that came since would keep no range, so that it would be
// acquired while its parent's lease is still there.
func (c *cycle) withRanges(listing lease.Listing, partitions *[]feed.Partition) (lease.Listing, error) {
	if listing.Rangeless() && *partitions != nil {
		listing = listing.WithRanges(*partitions)
	}
	if !listing.Rangeless() {
		return listing, nil
	}
	fresh, err := c.partitions()
	if err != nil {
		return listing, err
	}
	if *partitions == nil {
		*partitions = fresh
	}
	return listing.WithRanges(fresh), nil
}

func (c *cycle) asHost() balance.Host {
	return balance.Host{
		Owner: c.owner, Min: c.cfg.MinLeases, Max: c.cfg.MaxLeases, Terms: c.terms,
		Range: c.cfg.Range, Start: c.cfg.Start, Mode: c.cfg.Mode, Dialect: c.dialect,
	}
}

func (c *cycle) list() (lease.Listing, error) {
	ctx, cancel := c.request(c.ctx)
	defer cancel()
	listing, err := c.store.List(ctx)
	if err != nil {
		return listing, c.failed(&LeaseStoreError{Op: "list leases", Err: err})
	}
	if c.regular && !c.out.listed {
		c.report(listing.Unreadable)
	}
	c.out.listed = true
	return listing, nil
}

// report names the lease documents that can't be read, once an interval for as long
// as they are there: their keys are nobody's of ours.
func (c *cycle) report(unreadable []lease.Unreadable) {
	for _, u := range unreadable {
		c.fail(u.Token, &LeaseStoreError{Op: "read lease document " + u.ID, Err: u.Err})
	}
}

func (c *cycle) partitions() ([]feed.Partition, error) {
	ctx, cancel := c.request(c.ctx)
	defer cancel()
	partitions, err := c.cfg.Source.Partitions(ctx)
	if err != nil {
		return nil, c.failed(&SourceError{Op: "list partitions", Err: err})
	}
	return partitions, nil
}

func (c *cycle) createMarker() error {
	const op = "mark the leases as initialised"
	err := c.insist(op, func(ctx context.Context) error { return c.store.Mark(ctx, true) })
	if err != nil {
		return c.failed(&LeaseStoreError{Op: op, Err: err})
	}
	return nil
}

// insist carries out a write, and again when the store throttles it, which means
// that it was not applied. To begin with a listing again would take more of what
// is short than the write does, and no write might ever come through. After an
// acquire interval it is left to the next cycle.
func (c *cycle) insist(op string, write func(ctx context.Context) error) error {
	pause := backoff{jitter: newJitter(c.seed, op)}
	for {
		ctx, cancel := c.request(c.base)
		err := write(ctx)
		cancel()
		if _, throttled := errors.AsType[*feed.ThrottledError](err); !throttled {
			return err
		}
		wait := pause.after(err)
		if c.clock().Mono-c.began+wait > c.cfg.AcquireInterval || c.ctx.Err() != nil {
			return err
		}
		err = c.failed(&LeaseStoreError{Op: op, Err: err})
		if !sleep(c.ctx, wait) {
			return err
		}
	}
}

// checkModes refuses leases that were made for another mode. A position of one
// mode means nothing in the other.
func (c *cycle) checkModes(listing lease.Listing) error {
	for i := range listing.Leases {
		if l := &listing.Leases[i]; l.Mode != c.cfg.Mode {
			err := &ConfigError{"Mode", fmt.Sprintf("is %s, but lease %s was made for %s; use another processor name, or discard the leases",
				c.cfg.Mode, l.Token, l.Mode)}
			if c.first {
				c.out.fatal = err
			}
			return c.failed(err)
		}
	}
	return nil
}

// failed notifies an error, unless it came from the end of Run. At the start, an
// error that waiting does not heal ends Run, which returns it.
func (c *cycle) failed(err error) error {
	switch {
	case c.ctx.Err() != nil:
	case c.first && errors.Is(err, feed.ErrMisconfigured):
		c.out.fatal = err
	default:
		c.fail("", err)
	}
	return err
}

// balance carries out what the plan decides. Many conflicts say that the listing
// is too old to go on with.
func (c *cycle) balance(plan *balance.Plan) {
	for c.out.Conflicts < balance.MaxConflicts && c.ctx.Err() == nil && c.out.fatal == nil {
		move := plan.Decide()
		switch move.Kind {
		case balance.MoveAcquire, balance.MoveSteal:
			c.acquire(plan, move)
		case balance.MoveAsk:
			c.ask(plan, move.Lease)
		case balance.MoveNone:
			return
		}
	}
}

// acquire takes a lease, or steals it. An attempt whose outcome is unknown is repeated while the
// trust that it would have begun still holds; when a conflict then shows that it
// had arrived, the document is written once more, so that trust always begins with
// a write that was answered.
func (c *cycle) acquire(plan *balance.Plan, m balance.Move) {
	l := m.Lease
	take, began, inDoubt := l.Acquired(c.owner), c.clock(), false
	// inDoubt: an attempt may have arrived.
	first, pause := began.Mono, c.writeBackoff(l, "acquire")
	for {
		attempt := c.clock()
		take.Timestamp = attempt.Wall.UTC()
		got, err := c.update(take)
		switch o, current := judge(err, c.owner, l.Continuation, l.Continuation); o {
		case applied:
			c.took(plan, acquisition{lease: got, attempt: attempt, stolen: m.Kind == balance.MoveSteal, until: m.Until})
			return
		case mine:
			if !inDoubt {
				c.conflict(plan, err)
				return
			}
			take = current
			continue
		case moved, taken:
			c.conflict(plan, err)
			return
		case absent:
			plan.Remove(l.ID)
			return
		case refused:
			if !inDoubt {
				began = attempt
			}
		case unknown:
			inDoubt = true
		}
		err = c.failed(&LeaseStoreError{Op: m.Kind.String() + " " + l.Token, Err: err})
		if c.out.fatal != nil {
			return
		}
		running := sleep(c.ctx, pause.after(err))
		now := c.clock()
		// Other leases wait for this one; a store that throttles it for long is
		// asked again in the next cycle.
		throttled := !inDoubt && now.Mono-first > c.cfg.AcquireInterval
		if !running || throttled || !c.terms.Trusted(began, now) {
			plan.Skip(l.ID)
			return
		}
	}
}

// took says that a lease was acquired.
func (c *cycle) took(plan *balance.Plan, a acquisition) {
	c.out.Acquired++
	plan.Amend(a.lease)
	c.acquired(a)
}

// conflict puts the document that a conflict showed into the listing.
func (c *cycle) conflict(plan *balance.Plan, err error) {
	c.out.Conflicts++
	if conflict, ok := errors.AsType[*lease.ConflictError](err); ok {
		plan.Amend(conflict.Current)
	}
}

// ask marks a lease as wanted. When the outcome is unknown the next listing tells.
func (c *cycle) ask(plan *balance.Plan, l lease.Lease) {
	asked := l.Asked(c.owner)
	asked.Timestamp = c.clock().Wall.UTC()
	op := "ask for " + l.Token
	var marked lease.Lease
	err := c.insist(op, func(ctx context.Context) (err error) {
		marked, err = c.store.Update(ctx, asked)
		return err
	})
	switch o, _ := judge(err, c.owner, "", ""); o {
	case applied:
		c.out.Asked++
		plan.Amend(marked)
	case mine, moved, taken:
		c.conflict(plan, err)
	case absent:
		plan.Remove(l.ID)
	case refused, unknown:
		_ = c.failed(&LeaseStoreError{Op: op, Err: err})
		c.out.Asked++ // it may have arrived: look again soon
		plan.Skip(l.ID)
	}
}

func (c *cycle) update(l lease.Lease) (lease.Lease, error) {
	ctx, cancel := c.request(c.base)
	defer cancel()
	return c.store.Update(ctx, l)
}

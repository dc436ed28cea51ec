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

// cycle is one balance cycle. It lists the leases, creates the missing ones, and carries
// out the moves of the plan one by one. It runs on a goroutine of its own, so a slow
// store delays no worker. It reports each acquired lease to the supervisor at once,
// because trust in the lease has already begun.
//
// Its reads end with Run's context. It waits for a write that has been sent, because a
// lease that was acquired must be released.
type cycle struct {
	*host
	// ctx is Run's; base carries its values and never ends.
	ctx, base context.Context
	regular   bool
	memory    balance.Memory
	// running holds the IDs of the leases that this host has a worker for.
	running map[string]bool
	// acquired reports an acquired lease to the supervisor. It returns when the
	// supervisor has taken it.
	acquired func(a acquisition)
	starts   *starts
	first    bool
	// suspect reports whether the last listing looked as if another host had upgraded the
	// leases.
	suspect bool

	began time.Duration
	out   cycleResult
}

// cycleResult is the result of a cycle.
type cycleResult struct {
	balance.Cycle
	// memory is the input of the next cycle.
	memory balance.Memory
	// shadowed holds the running leases that have an ancestor in the listing.
	shadowed []string
	// listed reports whether a listing succeeded.
	listed bool
	// err ended the cycle early and was notified. fatal ends Run.
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

// plan lists the leases and creates missing ones until none is missing. It returns the
// plan of the last listing, or nil if there is none.
func (c *cycle) plan() (*balance.Plan, error) {
	// A first start takes three listings. The first shows the gap. The second comes after
	// the start was resolved and the partitions were listed. The third shows no gap.
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

// withRanges returns listing with the ranges of leases that have no range. partitions
// points to the partitions that the cycle has listed, or to nil. They may be older than
// the listing and lack a new partition. A lease of that partition would remain without a
// range, and would be acquired while its parent's lease exists. So the partitions are
// listed again then.
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

// report notifies an error for each lease document that cannot be read. It is called once
// per acquire interval. No host of this processor reads the keys of such a document.
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

// insist writes again while the store throttles the write. A throttled write was not
// applied. Starting over with a listing would cost more request units than the write
// does, and no write might ever succeed. After an acquire interval insist returns the
// error, and the next cycle tries again.
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

// checkModes refuses leases of another mode, because a position of one mode is
// meaningless in the other.
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

// failed notifies an error, unless the end of Run caused it. During the start an error
// that waiting does not heal ends Run, and Run returns it.
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

// balance carries out the moves of the plan. It stops after many conflicts, because they
// show that the listing is too old.
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

// acquire takes or steals a lease. It repeats an attempt of unknown outcome while the
// trust that the attempt would have begun still lasts. A conflict may then show that an
// earlier attempt was applied. In that case acquire writes the document once more, so
// that trust always begins with an answered write.
func (c *cycle) acquire(plan *balance.Plan, m balance.Move) {
	l := m.Lease
	// inDoubt reports whether an attempt may have been applied.
	take, began, inDoubt := l.Acquired(c.owner), c.clock(), false
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
		// Other leases wait for this one. If the store throttles it for long, the next
		// cycle tries again.
		throttled := !inDoubt && now.Mono-first > c.cfg.AcquireInterval
		if !running || throttled || !c.terms.Trusted(began, now) {
			plan.Skip(l.ID)
			return
		}
	}
}

// took records a lease that was acquired.
func (c *cycle) took(plan *balance.Plan, a acquisition) {
	c.out.Acquired++
	plan.Amend(a.lease)
	c.acquired(a)
}

// conflict updates the plan with the document that a conflict returned.
func (c *cycle) conflict(plan *balance.Plan, err error) {
	c.out.Conflicts++
	if conflict, ok := errors.AsType[*lease.ConflictError](err); ok {
		plan.Amend(conflict.Current)
	}
}

// ask requests a lease from its owner. If the outcome is unknown, the next listing shows
// it.
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
		c.out.Asked++ // it may have been applied, so the next cycle comes soon
		plan.Skip(l.ID)
	}
}

func (c *cycle) update(l lease.Lease) (lease.Lease, error) {
	ctx, cancel := c.request(c.base)
	defer cancel()
	return c.store.Update(ctx, l)
}

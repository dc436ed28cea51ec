package changefeed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/balance"
	"github.com/changefeed-go/changefeed/internal/protocol"
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
	// ctx is the context of Run. base has the values of ctx and never ends.
	ctx, base context.Context
	regular   bool
	memory    balance.Memory
	// workers holds the workers of this host by lease ID, as of the start of the cycle.
	workers map[string]*worker
	// acquired reports an acquired lease to the supervisor. It returns when the
	// supervisor has taken it.
	acquired func(a acquisition)
	starts   *starts
	shadows  *shadows
	first    bool
	// foreign reports whether a .NET or Java host owned a lease by the last listing.
	foreign bool
	// suspect reports whether the previous listing looked as if a Java host had upgraded
	// the leases.
	suspect bool

	began time.Duration
	out   cycleResult
}

// cycleResult is the result of a cycle, which the supervisor receives.
type cycleResult struct {
	balance.Cycle
	// memory is the state that the next cycle starts from.
	memory balance.Memory
	// shadowed holds the IDs of leases that have a worker, although an ancestor of the
	// lease exists. Their workers must stop.
	shadowed []string
	// listed reports whether the cycle has listed the leases at least once.
	listed bool
	// err is the error that ended the cycle early; the user was notified of it. fatal is
	// an error that must end Run.
	err, fatal error
}

func (c *cycle) run() cycleResult {
	c.began = c.clock().Mono
	c.out.Regular, c.out.memory = c.regular, c.memory
	plan, err := c.plan()
	if plan != nil {
		c.out.memory = plan.Memory()
		for id := range c.workers {
			if plan.Shadowed(id) {
				c.out.shadowed = append(c.out.shadowed, id)
			}
		}
	}
	slices.Sort(c.out.shadowed)
	if plan != nil && c.regular {
		c.reportOverlaps(plan)
		c.reportWaiting(plan)
	}
	if plan != nil && c.out.fatal == nil {
		c.balance(plan)
		c.out.WantsOut = plan.WantsOut()
	}
	c.out.err = err
	return c.out
}

// plan lists the leases and creates missing ones until none is missing. It returns the
// plan of the last listing, or nil if there is none.
func (c *cycle) plan() (*balance.Plan, error) {
	// A first start takes three listings: one that shows that leases are missing, one
	// after "now" was resolved, and one that shows all leases. Beside other hosts it may
	// take more.
	const most = 8
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
		c.foreign = slices.ContainsFunc(listing.Leases, func(l lease.Lease) bool { return l.Owner != "" && !protocol.Ours(l.Owner) })
		plan = balance.NewPlan(c.asHost(), listing, memory, c.clock().Mono, regular, c.trusting())
		memory, regular = plan.Memory(), false
		initialized := !listing.Initialized.IsZero()
		if initialized {
			c.starts.forget()
		}
		if plan.Complete() {
			return plan, c.createMarker()
		}
		if plan.Unsure() {
			continue
		}
		if !plan.Due() {
			return plan, nil
		}
		if partitions == nil || !initialized && !c.starts.resolved() {
			if partitions, err = c.prepare(initialized); err != nil {
				return plan, err
			}
			continue
		}
		missing := plan.Missing(partitions)
		partitions = nil
		if err := c.create(missing, initialized); err != nil {
			return plan, err
		}
	}
	return plan, nil
}

// withRanges returns listing after it has added the ranges of leases whose documents have
// none. partitions points to the partitions that the cycle has listed, or to nil.
//
// A list of partitions that is older than the listing may lack a new partition. Without a
// range, the lease of that partition would be acquired although its parent's lease
// exists. So withRanges lists the partitions again if one is missing.
func (c *cycle) withRanges(listing lease.Listing, partitions *[]feed.Partition) (lease.Listing, error) {
	if protocol.Rangeless(listing) && *partitions != nil {
		listing = protocol.WithRanges(listing, *partitions)
	}
	if !protocol.Rangeless(listing) {
		return listing, nil
	}
	fresh, err := c.partitions()
	if err != nil {
		return listing, err
	}
	if *partitions == nil {
		*partitions = fresh
	}
	return protocol.WithRanges(listing, fresh), nil
}

func (c *cycle) asHost() balance.Host {
	return balance.Host{
		Owner: c.owner, Min: c.cfg.MinLeases, Max: c.cfg.MaxLeases, Terms: c.terms,
		Range: c.cfg.Range, Start: c.cfg.Start, Mode: c.cfg.Mode, Dialect: c.dialect,
	}
}

// trusting returns the IDs of the leases that this host has a worker for. The value
// reports whether the worker still trusts its lease.
func (c *cycle) trusting() map[string]bool {
	trusting := make(map[string]bool, len(c.workers))
	for id, w := range c.workers {
		trusting[id] = w.trust.lasts()
	}
	return trusting
}

func (c *cycle) list() (lease.Listing, error) {
	ctx, cancel := c.requestContext(c.ctx)
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

func (c *cycle) partitions() ([]feed.Partition, error) {
	ctx, cancel := c.requestContext(c.ctx)
	defer cancel()
	partitions, err := c.cfg.Source.Partitions(ctx)
	if err != nil {
		return nil, c.failed(&SourceError{Op: "list partitions", Err: err})
	}
	return partitions, nil
}

func (c *cycle) createMarker() error {
	const op = "mark the leases as initialised"
	err := c.insist(op, func(ctx context.Context) error { return c.store.SetInitialized(ctx, true) })
	if err != nil {
		return c.failed(&LeaseStoreError{Op: op, Err: err})
	}
	return nil
}

// insist repeats a write while the store throttles it, for at most an acquire interval.
// Then it returns the error, and the next cycle tries again. Ending the cycle at once
// would cost another listing, which is dearer than the write. Then no write might ever
// succeed.
func (c *cycle) insist(op string, write func(ctx context.Context) error) error {
	pause := backoff{jitter: newJitter(c.seed, op)}
	for {
		ctx, cancel := c.requestContext(c.base)
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

// checkModes returns an error if a lease has another mode than the processor, because a
// position of one mode is meaningless in the other.
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

// failed notifies the user of err, unless the end of Run caused it. Before the first
// successful cycle, an error that waiting cannot heal ends Run instead.
func (c *cycle) failed(err error) error {
	switch {
	case c.ctx.Err() != nil:
	case c.first && errors.Is(err, feed.ErrMisconfigured):
		c.out.fatal = err
	case c.out.fatal != nil: // Run ends with it and retries nothing
		c.host.report("", err)
	default:
		c.fail("", err)
	}
	return err
}

// balance carries out the moves of the plan. After balance.MaxConflicts conflicts it
// stops, because the listing is too old.
func (c *cycle) balance(plan *balance.Plan) {
	for c.out.Conflicts < balance.MaxConflicts && c.ctx.Err() == nil && c.out.fatal == nil {
		move := plan.Decide()
		switch move.Kind {
		case balance.MoveAcquire, balance.MoveSteal:
			c.acquire(plan, move)
		case balance.MoveWant:
			c.want(plan, move.Lease)
		case balance.MoveNone:
			return
		}
	}
}

// acquire acquires a free lease, or steals one from a foreign host. If the outcome of an
// attempt is unknown, it writes again while the trust that the attempt would have begun
// lasts. A conflict may show that the attempt was applied. Then acquire writes the
// document once more, because trust must begin with a write that was answered.
func (c *cycle) acquire(plan *balance.Plan, m balance.Move) {
	l := m.Lease
	// inDoubt reports whether an attempt of unknown outcome may have been applied.
	take, began, inDoubt := protocol.Acquired(l, c.owner), c.clock(), false
	first, pause := began.Mono, c.writeBackoff(l, "acquire")
	for {
		attempt := c.clock()
		take.Timestamp = attempt.Wall.UTC()
		got, err := c.update(take)
		switch o, current := protocol.Judge(err, c.owner, l.Continuation, l.Continuation); o {
		case protocol.Applied:
			c.took(plan, acquisition{lease: got, attempt: attempt, stolen: m.Kind == balance.MoveSteal, until: m.Until, takeover: c.journal.takes(l, c.owner, m.Kind == balance.MoveSteal), unsure: l.Owner != "" || c.foreign})
			return
		case protocol.Mine:
			if !inDoubt {
				c.conflict(plan, err)
				return
			}
			take = current
			continue
		case protocol.Moved, protocol.Lost:
			c.conflict(plan, err)
			return
		case protocol.Absent:
			plan.Remove(l.ID)
			return
		case protocol.Refused:
			if !inDoubt {
				began = attempt
			}
		case protocol.Unknown:
			inDoubt = true
		}
		err = c.failed(&LeaseStoreError{Op: m.Kind.String() + " " + l.Token, Err: err})
		if c.out.fatal != nil {
			return
		}
		running := sleep(c.ctx, pause.after(err))
		now := c.clock()
		// The other leases of the plan wait for this one. After an acquire interval of
		// throttling, leave it to the next cycle.
		throttled := !inDoubt && now.Mono-first > c.cfg.AcquireInterval
		if !running || throttled || !c.terms.Trusted(began, now) {
			plan.Skip(l.ID)
			return
		}
	}
}

// took updates the plan with an acquired lease and reports it to the supervisor.
func (c *cycle) took(plan *balance.Plan, a acquisition) {
	c.out.Acquired++
	plan.Amend(a.lease)
	c.acquired(a)
}

// conflict counts a conflict. It replaces the lease in the plan by the stored document,
// which err contains.
func (c *cycle) conflict(plan *balance.Plan, err error) {
	c.out.Conflicts++
	if conflict, ok := errors.AsType[*lease.ConflictError](err); ok {
		plan.Amend(conflict.Current)
	}
}

// want writes that this host wants a lease, so that its owner hands it over. If the outcome
// is unknown, the plan counts the lease as wanted until the next listing shows the outcome.
// Otherwise a host that loses its answers would want one lease after the other until it wanted
// all of their owner's.
func (c *cycle) want(plan *balance.Plan, l lease.Lease) {
	wanted := protocol.Wanted(l, c.owner)
	wanted.Timestamp = c.clock().Wall.UTC()
	op := "want " + l.Token
	var stored lease.Lease
	err := c.insist(op, func(ctx context.Context) (err error) {
		stored, err = c.store.Update(ctx, wanted)
		return err
	})
	switch o, _ := protocol.Judge(err, c.owner, "", ""); o {
	case protocol.Applied:
		c.journal.wants(l)
		c.out.Wanted++
		plan.Amend(stored)
	case protocol.Unknown:
		_ = c.failed(&LeaseStoreError{Op: op, Err: err})
		c.out.Wanted++
		plan.Amend(wanted)
	case protocol.Mine, protocol.Moved, protocol.Lost:
		c.conflict(plan, err)
	case protocol.Absent:
		plan.Remove(l.ID)
	case protocol.Refused:
		_ = c.failed(&LeaseStoreError{Op: op, Err: err})
		c.out.Wanted++ // so that the next cycle comes soon
		plan.Skip(l.ID)
	}
}

func (c *cycle) update(l lease.Lease) (lease.Lease, error) {
	ctx, cancel := c.requestContext(c.base)
	defer cancel()
	return c.store.Update(ctx, l)
}

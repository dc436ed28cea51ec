package leases

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/balance"
	"github.com/changefeed-go/changefeed/lease"
)

// Moves is how far a plan moves positions, in transactions as [estimator.Lag] counts them.
// The numbers are upper limits, because all leases of a partition count its transactions.
type Moves struct {
	// Skipped counts the unread transactions that the plan skips, and Again those that
	// it delivers again.
	Skipped, Again int64
	// Anew counts the unread transactions if the plan deletes all leases. Where hosts then
	// start depends on their configuration.
	Anew int64
	// Healed is the time at which hosts start the leases that the plan deletes, or zero if it
	// leaves no hole.
	Healed time.Time
	// Unknown is the number of leases whose move cannot be measured. Err is the reason. It
	// is nil if they have no position yet.
	// Back is the number of those that move back to the beginning, so that they skip
	// nothing.
	Unknown, Back int
	Err           error
}

// move is a lease that a plan changes, and the leases that have its keys afterwards.
type move struct {
	from lease.Lease
	to   []Step
	// anew reports whether hosts start the keys at their configured start afterwards.
	anew bool
}

// Moves measures how far a plan moves the positions of a processor's leases, with one read
// for each lease before the plan and after it.
func (c *Container) Moves(ctx context.Context, s Survey, plan []Step) (Moves, error) {
	var sum Moves
	afterwards, err := s.afterwards(plan)
	if err != nil {
		return sum, err
	}
	var all []move
	var before, after []lease.Lease
	for _, step := range plan {
		if step.Before == nil {
			continue
		}
		for _, i := range s.Items {
			if i.Document.ID != step.Before.ID || i.Key != step.Before.Key {
				continue
			}
			m := move{from: i.Lease}
			switch step.Op {
			case Replace:
				m.to = []Step{step}
			case Delete:
				if _, waits := s.ancestor(i.Lease); !waits { // its parent's owner creates it again, where the parent ended
					m.to = over(afterwards, i.Range)
				}
			case Create, Unlock, Mark, Unmark:
			}
			for _, o := range m.to {
				if !o.Now {
					after = append(after, o.After)
				}
				switch {
				case !o.healed:
				case o.Now:
					m.anew = m.from.Mode != feed.AllVersionsAndDeletes // that mode has no beginning
				default:
					sum.Healed = o.After.Start(feed.Now()).Time()
				}
			}
			all, before = append(all, m), append(before, i.Lease)
		}
	}
	unread, err := c.unread(ctx, s, before)
	left, err2 := c.unread(ctx, s, after)
	for _, m := range all {
		sum.add(m, unread, left)
	}
	if sum.Err = err; err == nil {
		sum.Err = err2
	}
	return sum, nil
}

// marked returns the marker as a plan leaves it, or nil.
func (s Survey) marked(plan []Step) *Document {
	if slices.ContainsFunc(plan, func(step Step) bool { return step.Op == Unmark }) {
		return nil
	}
	return s.Marker
}

// afterwards returns the leases that exist once a plan was carried out, each as the step that
// writes it. Hosts fill the holes as package balance does: at the marker's time, but in all
// versions and deletes mode, or without a marker, at now, unless they are configured otherwise.
func (s Survey) afterwards(plan []Step) ([]Step, error) {
	var steps []Step
	for _, step := range plan {
		if step.Op == Create || step.Op == Replace {
			steps = append(steps, step)
		}
	}
	for _, i := range s.Items {
		if !slices.ContainsFunc(plan, func(step Step) bool {
			return step.Before != nil && step.Before.ID == i.Document.ID && step.Before.Key == i.Key
		}) {
			steps = append(steps, Step{After: i.Lease})
		}
	}
	host := balance.Host{Dialect: s.Codec.Dialect()}
	if len(s.Items) > 0 {
		host.Mode = s.Items[0].Mode
	}
	marker := s.marked(plan)
	now := marker == nil || host.Mode == feed.AllVersionsAndDeletes
	if !now {
		host.Start = feed.At(marker.Modified.Add(-time.Second))
	}
	var there []lease.Lease
	for _, step := range steps {
		there = append(there, step.After)
	}
	for _, l := range host.Missing(there, s.Partitions) {
		l, err := s.Codec.New(l)
		if err != nil {
			return nil, err
		}
		steps = append(steps, Step{After: l, Now: now, healed: true})
	}
	return steps, nil
}

// over returns the steps whose leases have keys of r.
func over(steps []Step, r feed.Range) []Step {
	return slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return !s.After.Range.Overlaps(r) })
}

// add adds a move to the sums. unread and left contain the unread transactions by token,
// before the plan and after it.
func (sum *Moves) add(m move, unread, left map[string]int64) {
	was, known := unread[m.from.Token]
	var skipped, again int64
	for _, step := range m.to {
		is, ok := left[step.After.Token]
		known = known && (ok || step.Now)
		skipped, again = max(skipped, was-is), max(again, is-was)
	}
	switch {
	case !known && m.back():
		sum.Back++
	case !known:
		sum.Unknown++
	case m.anew:
		sum.Anew += skipped
	default:
		sum.Skipped += skipped
		sum.Again += again
	}
}

// back reports whether a move goes back to the beginning.
func (m move) back() bool {
	return len(m.to) > 0 && !slices.ContainsFunc(m.to, func(s Step) bool {
		return s.Now || s.After.Start(feed.Now()).Kind() != feed.StartBeginning
	})
}

// unread returns the number of unread transactions of leases, by token. It omits those for
// which the number is unknown, and returns the error of one of them.
func (c *Container) unread(ctx context.Context, s Survey, leases []lease.Lease) (map[string]int64, error) {
	if len(leases) == 0 {
		return nil, nil
	}
	d := s.Codec.Dialect()
	e, err := estimator.New(estimator.Config{Processor: s.Processor, Source: c.source(d), Leases: listed{dialect: d, now: s, leases: leases}})
	if err != nil {
		return nil, err
	}
	r, err := e.Report(ctx)
	known := map[string]int64{}
	for i := range r.Lags {
		if l := &r.Lags[i]; l.Known() {
			known[l.LeaseToken] = l.LSNs
		} else if l.Err != nil {
			err = l.Err
		}
	}
	return known, err
}

// listed is a lease container for an estimator, whose leases may exist only in a plan.
type listed struct {
	lease.Store
	dialect lease.Dialect
	now     Survey
	leases  []lease.Lease
}

func (l listed) Dialect() lease.Dialect                               { return l.dialect }
func (l listed) Open(context.Context, lease.Key) (lease.Store, error) { return l, nil }

func (l listed) List(context.Context) (lease.Listing, error) {
	return lease.Listing{Leases: l.leases, Now: l.now.Now}, nil
}

// Text describes the moves, as the last line of a plan.
func (sum Moves) Text() string {
	transactions := func(n int64) string {
		return "the changes of at most " + view.Thousands(n) + map[bool]string{true: " transaction", false: " transactions"}[n == 1]
	}
	var parts []string
	if !sum.Healed.IsZero() {
		parts = append(parts, "hosts fill the hole from "+sum.Healed.Format(time.RFC3339)+" on (the marker's time), unless they are configured with another start than now")
	}
	if sum.Skipped > 0 {
		parts = append(parts, "it skips "+transactions(sum.Skipped))
	}
	if sum.Again > 0 {
		parts = append(parts, "it delivers "+transactions(sum.Again)+" again")
	}
	if sum.Anew > 0 {
		parts = append(parts, "hosts that start at now (the default) skip "+transactions(sum.Anew)+", and hosts that start at the beginning deliver all changes again")
	}
	why := "there is no position yet, or the partition was split or merged"
	if sum.Err != nil {
		why = connect.Text(sum.Err)
	}
	if sum.Unknown > 0 {
		parts = append(parts, fmt.Sprintf("what %s is unknown: %s", view.Plural(sum.Unknown, "lease skips", "leases skip"), why))
	}
	if sum.Skipped+sum.Anew == 0 && sum.Again == 0 && sum.Unknown == 0 {
		parts = append(parts, "it skips no changes")
	}
	if sum.Back > 0 {
		parts = append(parts, fmt.Sprintf("what %s again is unknown: %s", view.Plural(sum.Back, "lease delivers", "leases deliver"), why))
	}
	return strings.Join(parts, "; ")
}

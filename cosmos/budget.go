package cosmos

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Budget caps the request units per second that feed reads and leases spend together,
// so that a processor leaves to the application what a container has provisioned. Any
// number of Sources and Leases share one, also of different accounts. It is
// safe for concurrent use.
//
// The cost of a request is known only from its answer. So a request is let through while the
// budget isn't overdrawn, counted at what others of its kind cost lately, and corrected by its
// answer: over any time the charges stay within the rate, save for a second's worth and
// the requests that were under way. A request that would have to wait beyond its context's
// deadline is refused with *feed.ThrottledError instead, and not sent.
//
// Leases come before reads: a read that was dear holds up other reads, and no renewal. Only
// leases themselves, when they need more than nine tenths of the rate, wait for each other; the
// last tenth is left to reads, so that a rate which is too small shows as lag and not as
// a standstill.
type Budget struct {
	rate float64

	mu sync.Mutex // guards what follows; held for arithmetic only
	// all is what reads wait for, leases what leases wait for. A lease request is
	// taken from both, a read from all alone.
	all, leases bucket
	// typical is what a request of each kind costs, by those that were answered.
	typical [kinds]float64
	usage   Usage
}

// Usage is what a Budget's requests have cost since it was made. Request units are those that the
// service told; a request whose answer never came counts nothing.
type Usage struct {
	// FeedRequests and LeaseRequests count the requests that were let through,
	// FeedRU and LeaseRU are their request units.
	FeedRequests, LeaseRequests int64
	FeedRU, LeaseRU             float64
	// Refused counts the requests that were not sent, because they would have waited
	// longer than their contexts lasted.
	Refused int64
}

// requestKind is what a request is to a budget: kinds cost differently.
type requestKind int

const (
	kindFeed requestKind = iota
	kindLeaseWrite
	kindLeaseRead
	kindLeaseList
	kinds
)

// leaseShare is the part of the rate that leases may use up.
const leaseShare = 0.9

// longestWait keeps a wait from overflowing; nobody waits so long.
const longestWait = 24 * time.Hour

// smallestRate is below what a single lease needs: a renewal is about 10 RU every 13 s.
const smallestRate = 1

// NewBudget returns a budget of that many request units per second. It is at least 1; an account refuses
// options with a smaller one.
func NewBudget(ruPerSecond float64) *Budget {
	b := &Budget{rate: ruPerSecond}
	now := time.Now()
	b.all = bucket{rate: ruPerSecond, level: ruPerSecond, at: now}
	b.leases = bucket{rate: ruPerSecond * leaseShare, level: ruPerSecond * leaseShare, at: now}
	// Of a first request nothing is known: an empty read is 1 to 2 RU, a write of a lease about 10.
	b.typical = [kinds]float64{kindFeed: 2, kindLeaseWrite: 10, kindLeaseRead: 1, kindLeaseList: 5}
	return b
}

// validate says what is wrong with a budget; there may be none.
func (b *Budget) validate() error {
	if b != nil && (!(b.rate >= smallestRate) || math.IsInf(b.rate, 1)) { // nor is it NaN
		return fmt.Errorf("a budget of %v RU/s can't be kept: it is at least %d; to spend without bounds leave it out", b.rate, smallestRate)
	}
	return nil
}

// Usage returns what was spent so far.
func (b *Budget) Usage() Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.usage
}

// bucket holds at most a second's worth of request units, and fills up with time. Below zero it
// is overdrawn.
type bucket struct {
	rate, level float64
	at          time.Time
}

// take takes ru from the bucket, or gives some back, and returns how long the bucket was overdrawn
// before that.
func (k *bucket) take(ru float64, now time.Time) time.Duration {
	if passed := now.Sub(k.at); passed > 0 {
		k.level = min(k.level+k.rate*passed.Seconds(), k.rate)
		k.at = now
	}
	overdrawn := max(-k.level, 0) / k.rate
	k.level = min(k.level-ru, k.rate)
	return time.Duration(min(overdrawn, longestWait.Seconds()) * float64(time.Second))
}

// ticket is a request that was let through, and has to be settled. The zero ticket
// is one of no budget.
type ticket struct {
	budget *Budget
	kind   requestKind
	ru     float64 // what was counted
}

// admit waits until a request of that kind may be sent. A nil budget lets everything through. The error
// is *feed.ThrottledError, or ctx's.
func (b *Budget) admit(ctx context.Context, kind requestKind) (ticket, error) {
	if b == nil {
		return ticket{}, ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return ticket{}, err
	}
	now := time.Now()
	b.mu.Lock()
	t := ticket{budget: b, kind: kind, ru: b.typical[kind]}
	wait := b.take(t.kind, t.ru, now)
	if deadline, bounded := ctx.Deadline(); bounded && wait > 0 && now.Add(wait).After(deadline) {
		b.take(t.kind, -t.ru, now)
		b.usage.Refused++
		b.mu.Unlock()
		return ticket{}, fmt.Errorf("the budget of %v RU/s is spent: %w", b.rate, &feed.ThrottledError{RetryAfter: wait})
	}
	b.mu.Unlock()
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			b.mu.Lock()
			b.take(t.kind, -t.ru, time.Now())
			b.mu.Unlock()
			return ticket{}, ctx.Err()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if kind == kindFeed {
		b.usage.FeedRequests++
	} else {
		b.usage.LeaseRequests++
	}
	return t, nil
}

// take takes ru from the buckets of a kind, and returns how long to wait for it. The caller holds the lock.
func (b *Budget) take(kind requestKind, ru float64, now time.Time) time.Duration {
	wait := b.all.take(ru, now)
	if kind != kindFeed {
		wait = b.leases.take(ru, now)
	}
	return wait
}

// settle corrects what was counted for a request by its charge, which is zero when it
// isn't known.
func (t ticket) settle(charge float64) {
	b := t.budget
	if b == nil || !(charge >= 0) || math.IsInf(charge, 1) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.take(t.kind, charge-t.ru, time.Now())
	if t.kind == kindFeed {
		b.usage.FeedRU += charge
	} else {
		b.usage.LeaseRU += charge
	}
	if charge > 0 {
		// Half of each: costs change between idle and busy within a few requests.
		b.typical[t.kind] += (charge - b.typical[t.kind]) / 2
	}
}

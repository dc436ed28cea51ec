package cosmos

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Budget limits the request units per second that feed reads, leases and letters spend
// together. Reach for it when the processor must leave throughput to the application. Several
// Sources, Leases and Letters may share a Budget, also across accounts. It is safe for
// concurrent use.
//
// A request is sent if the budget is not overdrawn. Since its charge is known only from
// the response, it counts like recent requests of its kind until then, or for good if
// there is no response. So over any time the charges stay within the rate, plus one
// second's worth and the outstanding requests. A request that would have to wait past its
// context's deadline is not sent, but fails with a [*feed.ThrottledError].
//
// Leases have priority over reads and letters: an expensive read delays other reads, but no
// renewal. Lease requests wait for each other only if they need more than nine tenths of the rate;
// the last tenth is for reads, so that a rate that is too small causes lag but no
// standstill.
type Budget struct {
	rate float64

	mu sync.Mutex // guards the fields below; held for arithmetic only
	// all limits all requests together, and leases limits lease requests. A read or a
	// letter takes its charge from all. A lease request takes its charge from both, but waits for
	// leases only.
	all, leases bucket
	// typical is the expected charge of a request of each kind, from recent responses.
	typical [kinds]float64
	usage   Usage
}

// Usage is what a [Budget] has seen spent so far. Request units are those that the
// service reported, so that a request without a response counts none.
type Usage struct {
	// FeedRequests, LeaseRequests and LetterRequests count the requests that were sent, and
	// FeedRU, LeaseRU and LetterRU their request units.
	FeedRequests, LeaseRequests, LetterRequests int64
	FeedRU, LeaseRU, LetterRU                   float64
	// Refused counts the requests that were not sent, because their wait would have
	// exceeded the deadline of their context.
	Refused int64
}

// requestKind is the kind of a request in a budget. Kinds have different charges.
type requestKind int

const (
	kindFeed requestKind = iota
	kindLetterWrite
	kindLetterRead
	kindLetterList
	kindLeaseWrite
	kindLeaseRead
	kindLeaseList
	kinds
)

// ofLeases reports whether the kind is one of the requests for leases, which come before all
// others.
func (k requestKind) ofLeases() bool { return k >= kindLeaseWrite }

// leaseShare is the share of the rate that leases may use.
const leaseShare = 0.9

// longestWait limits the computed wait, so that it cannot overflow.
const longestWait = 24 * time.Hour

// smallestRate is the minimum rate of a budget. The renewals of one lease alone cost
// about 10 RU every 13 s.
const smallestRate = 1

// NewBudget returns a budget with a rate in request units per second, at least 1. An
// account refuses options with a smaller one.
func NewBudget(ruPerSecond float64) *Budget {
	b := &Budget{rate: ruPerSecond}
	now := time.Now()
	b.all = bucket{rate: ruPerSecond, level: ruPerSecond, at: now}
	b.leases = bucket{rate: ruPerSecond * leaseShare, level: ruPerSecond * leaseShare, at: now}
	// These are the assumed charges before the first response. An empty read costs 1 to 2
	// RU, a write of a lease or of a letter about 10.
	b.typical = [kinds]float64{
		kindFeed: 2, kindLeaseWrite: 10, kindLeaseRead: 1, kindLeaseList: 5, kindLetterWrite: 10, kindLetterRead: 1, kindLetterList: 5,
	}
	return b
}

// validate returns an error if the rate is not valid. b may be nil.
func (b *Budget) validate() error {
	if b != nil && (!(b.rate >= smallestRate) || math.IsInf(b.rate, 1)) { // the negation also refuses NaN
		return fmt.Errorf("a budget of %v RU/s is not valid; the minimum is %d, and no budget means no limit", b.rate, smallestRate)
	}
	return nil
}

// Usage returns the requests and request units since [NewBudget].
func (b *Budget) Usage() Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.usage
}

// bucket holds request units. It refills at rate, up to one second's worth. A level below
// zero means that it is overdrawn.
type bucket struct {
	rate, level float64
	at          time.Time
}

// take takes ru request units from the bucket, or returns them if ru is negative. It
// returns the time until the overdraft from before the call is repaid.
func (k *bucket) take(ru float64, now time.Time) time.Duration {
	if passed := now.Sub(k.at); passed > 0 {
		k.level = min(k.level+k.rate*passed.Seconds(), k.rate)
		k.at = now
	}
	overdrawn := max(-k.level, 0) / k.rate
	k.level = min(k.level-ru, k.rate)
	return time.Duration(min(overdrawn, longestWait.Seconds()) * float64(time.Second))
}

// ticket is a request that the budget has admitted. The caller must settle or cancel it. The
// zero ticket belongs to no budget.
type ticket struct {
	budget *Budget
	kind   requestKind
	ru     float64 // the charge that was taken in advance
}

// admit waits until a request of that kind may be sent. A nil budget admits every
// request. It returns a *feed.ThrottledError or ctx's error.
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
			t.cancel()
			return ticket{}, ctx.Err()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case kind == kindFeed:
		b.usage.FeedRequests++
	case kind.ofLeases():
		b.usage.LeaseRequests++
	default:
		b.usage.LetterRequests++
	}
	return t, nil
}

// take takes ru request units from the buckets of the kind. It returns the time that the
// request must wait. The caller holds the lock.
func (b *Budget) take(kind requestKind, ru float64, now time.Time) time.Duration {
	wait := b.all.take(ru, now)
	if kind.ofLeases() {
		wait = b.leases.take(ru, now)
	}
	return wait
}

// cancel gives the assumed charge of a request back that was not sent.
func (t ticket) cancel() {
	if b := t.budget; b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.take(t.kind, -t.ru, time.Now())
	}
}

// settle corrects the budget by the real charge of a request. If charge is zero, it is
// unknown, and the assumed one remains: a service at its limit executes and charges requests
// whose answers come too late.
func (t ticket) settle(charge float64) {
	b := t.budget
	if b == nil || !(charge > 0) || math.IsInf(charge, 1) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.take(t.kind, charge-t.ru, time.Now())
	switch {
	case t.kind == kindFeed:
		b.usage.FeedRU += charge
	case t.kind.ofLeases():
		b.usage.LeaseRU += charge
	default:
		b.usage.LetterRU += charge
	}
	// Give the last charge and the earlier average equal weight, because charges change
	// between idle and busy within a few requests.
	b.typical[t.kind] += (charge - b.typical[t.kind]) / 2
}

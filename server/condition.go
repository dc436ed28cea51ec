package server

import (
	"net/http"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/internal/query"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// Conditions of patches run outside the store's sequencer, so no other write waits for one.
// Their time is limited all the same, because they take a processor each.
const (
	// maxCondition limits one evaluation.
	maxCondition = time.Second
	// maxRequestConditions limits all evaluations of a request together.
	maxRequestConditions = 2 * time.Second
	// maxSignerConditions is how much time the conditions of one key, or of the resource
	// tokens of one permission, may take at once. A signer gets time back at half the speed
	// of the clock.
	maxSignerConditions = 5 * time.Second
)

// signer identifies the credential that signed a request. The zero value stands for all AAD
// tokens.
type signer struct {
	// key is the number of an account key, from 1; 0 for tokens.
	key int
	// database, user and permission identify the permission of a resource token.
	database         string
	user, permission uint32
}

// conditionTimes limits the time of conditions by signer. It is safe for concurrent use.
type conditionTimes struct {
	mu sync.Mutex // guards the rest
	// free is when a signer has all of its time again.
	free map[signer]time.Time
}

// maxConditionSigners is how many signers are kept before those with all of their time are
// dropped.
const maxConditionSigners = 10_000

// wait returns how long a signer has to wait until it has time again, or 0.
func (t *conditionTimes) wait(s signer) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(max(time.Until(t.free[s]), 0)-2*maxSignerConditions, 0)
}

// spend takes time from a signer. It may take more than the signer has left.
func (t *conditionTimes) spend(s signer, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if len(t.free) >= maxConditionSigners {
		for other, at := range t.free {
			if !at.After(now) {
				delete(t.free, other)
			}
		}
	}
	if t.free == nil {
		t.free = map[signer]time.Time{}
	}
	at := t.free[s]
	if at.Before(now) {
		at = now
	}
	t.free[s] = at.Add(2 * took)
}

// requestConditions is the time that the conditions of one request have taken.
type requestConditions struct {
	mu    sync.Mutex // held while a condition of the request is evaluated
	spent time.Duration
}

// holds evaluates the condition of a patch. The conditions of one request are evaluated one
// after the other. Errors are answers to the operation: 400 if the condition cannot be
// evaluated or takes more than [maxCondition], 429 if the request or its signer has no time
// left.
func (x *exchange) holds(condition *query.Filter, document []byte) (bool, error) {
	x.conditions.mu.Lock()
	defer x.conditions.mu.Unlock()
	limit := min(maxCondition, maxRequestConditions-x.conditions.spent)
	if limit <= 0 {
		return false, errSlowConditions
	}
	// Conditions that share a processor would slow each other down, and signers would pay for it.
	turns := x.s.conditionTurns
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-x.r.Context().Done():
		return false, x.r.Context().Err()
	}
	if wait := x.s.conditions.wait(x.signer); wait > 0 {
		return false, &statusError{
			status: http.StatusTooManyRequests, substatus: wire.SubNone, retryAfter: wait,
			message: "Request rate is large. The conditions of patches that were sent with this key or resource token take too much time; " +
				"try again after the time in x-ms-retry-after-ms, with simpler conditions.",
		}
	}
	began := time.Now()
	if x.s.judging != nil {
		x.s.judging()
	}
	ok, err := condition.Match(x.r.Context(), document, limit)
	took := time.Since(began)
	x.conditions.spent += took
	x.s.conditions.spend(x.signer, took)
	switch {
	case err == nil:
		return ok, nil
	case x.r.Context().Err() != nil:
		return false, x.r.Context().Err()
	case limit < maxCondition && took >= limit:
		return false, errSlowConditions
	}
	return false, badRequest("the condition of the patch can't be judged: %v", err)
}

// errSlowConditions is the answer to a patch of a request that has no time left.
var errSlowConditions = &statusError{
	status: http.StatusTooManyRequests, substatus: wire.SubNone, retryAfter: maxCondition,
	message: "not done, because the conditions of the patches in this request take more than " + maxRequestConditions.String() +
		" together: send fewer such patches in one request",
}

package server

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/patch"
	"github.com/changefeed-go/changefeed/internal/query"
	"github.com/changefeed-go/changefeed/internal/querypage"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// PATCH docs/<id>: change a document in place.
//
// Supported: add, set, replace, remove, incr and move, at most ten of them, on members and on
// elements of arrays; a condition (status 412 if it is not true); If-Match; the body with or
// without {"operations":...} around it. No other write to the document comes between the condition
// and the change. The ID, the partition key and system properties cannot be patched.
//
// A small patch without a condition runs in the sequencer of the store. Every other patch is
// prepared outside of it, on the last version, and written if that still is the last one. If other
// writes come first three times, the answer is 449 (RetryWith), as in the service.

// maxInlinePatch is the size, in bytes, of the largest patch that runs in the sequencer: its body and the document together.
const maxInlinePatch = 64 << 10

// maxPatchAttempts is how often a patch is prepared before the answer is 449.
const maxPatchAttempts = 3

func (s *Server) patchDocument(x *request) error {
	c, key, err := x.documentKey()
	if err != nil {
		return err
	}
	body, err := x.body(maxDocumentBody)
	if err != nil {
		return err
	}
	if err := x.acquireSlot(readSlots); err != nil { // its answer may be much longer than its body
		return err
	}
	p, err := parsePatch(body, unpatchable(c))
	if err != nil {
		return err
	}
	x.conditions = &requestConditions{}
	o := x.writeOptions()
	r, err := x.onDocument(c, key, func(key feed.PartitionKey, id string) (engine.Result, error) {
		return x.patchItem(c, key, id, p, o)
	})
	return x.sendWritten(r, err)
}

// errCondition is the answer to a patch whose condition is not true.
var errCondition = failure(http.StatusPreconditionFailed, 0, "the condition of the patch is not true of the item")

// errContended is the answer to a patch that other writes came before each time.
var errContended = failure(statusRetryWith, 0, "other writes changed the item %d times while the patch was prepared; send it again", maxPatchAttempts)

// errNotInline is the error of a patch that is too large for the sequencer.
var errNotInline = errors.New("the patch is too large to be applied while other writes wait")

// itemPatch is a patch that was read from a request.
type itemPatch struct {
	patch.Patch
	// condition is nil if there is none.
	condition *query.Filter
	// size is the length of the patch's body.
	size int
}

// parsePatch reads the body of a patch.
func parsePatch(body []byte, unpatchable [][]string) (*itemPatch, error) {
	p, err := patch.Parse(body)
	if err == nil {
		err = p.Check(unpatchable...)
	}
	if err != nil {
		return nil, patchFailure(err)
	}
	parsed := &itemPatch{Patch: p, size: len(body)}
	if p.Condition != "" {
		if parsed.condition, err = query.Condition(p.Condition); err != nil {
			return nil, querypage.Refused(err)
		}
	}
	return parsed, nil
}

// inline applies a patch without a condition in the sequencer. It returns errNotInline if that would take long.
func (p *itemPatch) inline(old []byte) ([]byte, error) {
	if len(old)+p.size > maxInlinePatch {
		return nil, errNotInline
	}
	after, err := p.Apply(old)
	return after, patchFailure(err)
}

// patchItem patches an item.
func (x *request) patchItem(c *engine.Container, key feed.PartitionKey, id string, p *itemPatch, o engine.WriteOptions) (engine.Result, error) {
	if p.condition == nil {
		r, err := c.Change(x.r.Context(), key, id, p.inline, o)
		if !errors.Is(err, errNotInline) {
			return r, err
		}
	}
	charge := 0.0
	for range maxPatchAttempts {
		r, again, err := x.attemptPatch(c, key, id, p, o)
		charge += r.Charge
		r.Charge = charge
		if !again {
			return r, err
		}
	}
	return engine.Result{Charge: charge}, errContended
}

// patchCopies is how many times its size a patch of an item takes: as it was, as it is, and as the store writes it.
const patchCopies = 3

// attemptPatch prepares a patch on the last version of an item, and writes it. again is true if another write came first.
func (x *request) attemptPatch(c *engine.Container, key feed.PartitionKey, id string, p *itemPatch, o engine.WriteOptions) (r engine.Result, again bool, err error) {
	held := patchCopies * engine.MaxDocumentSize
	if err := x.items.take(held); err != nil {
		return r, false, err
	}
	defer func() { x.items.give(held) }()
	item, err := c.Read(x.r.Context(), key, id, engine.ReadOptions{IfMatch: o.IfMatch})
	if err != nil {
		return item, false, err
	}
	if most := min(patchCopies*(len(item.Body)+p.size), held); most < held {
		x.items.give(held - most)
		held = most
	}
	if o.IfNoneMatch == "*" || o.IfNoneMatch == item.ETag {
		return item, false, fmt.Errorf("%w: item %q exists", engine.ErrPreconditionFailed, id)
	}
	after, err := x.patched(p, item.Body)
	if err != nil {
		return item, false, err
	}
	r, err = c.Replace(x.r.Context(), key, id, after, engine.WriteOptions{IfMatch: item.ETag, NoBody: o.NoBody})
	r.Charge += item.Charge
	return r, errors.Is(err, engine.ErrPreconditionFailed), err
}

// patched evaluates the condition of a patch and returns the document after the patch.
func (x *request) patched(p *itemPatch, old []byte) ([]byte, error) {
	if p.condition != nil {
		holds, err := x.holds(p.condition, old)
		if err != nil {
			return nil, err
		}
		if !holds {
			return nil, errCondition
		}
	}
	after, err := p.Apply(old)
	return after, patchFailure(err)
}

// unpatchable returns the paths that no patch may change.
func unpatchable(c *engine.Container) [][]string {
	return append(slices.Clone(c.KeyPaths()), []string{"id"}, []string{"_rid"}, []string{"_self"}, []string{"_etag"},
		[]string{"_attachments"}, []string{"_ts"}, []string{"_lsn"})
}

// patchFailure returns the answer to an error of a patch.
func patchFailure(err error) error {
	if p := (*patch.Error)(nil); errors.As(err, &p) {
		return badRequest("%s", p.Error())
	}
	return err
}

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
	database         [4]byte
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
func (x *request) holds(condition *query.Filter, document []byte) (bool, error) {
	x.conditions.mu.Lock()
	defer x.conditions.mu.Unlock()
	limit := min(maxCondition, maxRequestConditions-x.conditions.spent)
	if limit <= 0 {
		return false, errSlowConditions
	}
	// Conditions that share a processor would slow each other down, and signers would pay for it.
	turns := x.s.conditionSlots
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
	if x.s.onCondition != nil {
		x.s.onCondition()
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

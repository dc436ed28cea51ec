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

// This file serves PATCH docs/<id>, which changes a part of a document.
//
// Supported: add, set, replace, remove, incr and move, at most ten of them, on members
// and on elements of arrays. A patch may have a condition (status 412 if it is false) and
// If-Match. Its body may have {"operations":...} around the operations. No other write to
// the document happens between the evaluation of the condition and the change. The ID,
// the partition key and system properties cannot be patched.
//
// A small patch without a condition runs in the sequencer of the store. Every other patch
// is prepared outside the sequencer, on the last version. It is written if that version
// is still the last. If other writes come first three times, the answer is 449
// (RetryWith), as in the service.

// maxInlinePatch limits the patches that run in the sequencer, in bytes. It limits the
// sum of the sizes of the patch and the document.
const maxInlinePatch = 64 << 10

// maxPatchAttempts is the number of attempts to write a patch before the answer is 449.
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

// errCondition is the answer to a patch whose condition is false.
var errCondition = failure(http.StatusPreconditionFailed, 0, "the condition of the patch is false for the item")

// errContended is the answer to a patch if another write came first in every attempt.
var errContended = failure(statusRetryWith, 0, "other writes changed the item %d times while the patch was prepared; send it again", maxPatchAttempts)

// errNotInline reports a patch that is too large for the sequencer.
var errNotInline = errors.New("the patch is too large to be applied while other writes wait")

// itemPatch is a parsed patch.
type itemPatch struct {
	patch.Patch
	// condition is nil if the patch has none.
	condition *query.Filter
	// size is the length of the patch in bytes.
	size int
}

// parsePatch parses the body of a patch.
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

// inline applies a patch without a condition in the sequencer. It returns errNotInline if
// the patch would take too long.
func (p *itemPatch) inline(old []byte) ([]byte, error) {
	if len(old)+p.size > maxInlinePatch {
		return nil, errNotInline
	}
	after, err := p.Apply(old)
	return after, patchFailure(err)
}

// patchItem patches an item. It runs a small patch without a condition in the sequencer,
// and any other patch with attemptPatch.
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

// patchCopies is the number of copies of an item that a patch holds in memory: the old
// item, the new item, and the copy that the store writes.
const patchCopies = 3

// attemptPatch prepares a patch on the last version of an item and writes it. again
// reports whether another write came first.
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

// patched evaluates the condition of a patch and returns the patched document.
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

// Conditions of patches run outside the store's sequencer, so other writes do not wait
// for them. Their time is limited because each occupies a processor.
const (
	// maxCondition limits one evaluation.
	maxCondition = time.Second
	// maxRequestConditions limits all evaluations of a request together.
	maxRequestConditions = 2 * time.Second
	// maxSignerConditions limits the time that the conditions of one key, or of the
	// resource tokens of one permission, may take in a burst. A signer regains time at
	// half the speed of the clock.
	maxSignerConditions = 5 * time.Second
)

// signer identifies the credential that signed a request. The zero value represents all
// AAD tokens.
type signer struct {
	// key is the number of an account key, from 1. It is 0 for tokens.
	key int
	// database, user and permission identify the permission of a resource token.
	database         [4]byte
	user, permission uint32
}

// conditionTimes limits the time of conditions by signer. It is safe for concurrent use.
type conditionTimes struct {
	mu sync.Mutex // guards the rest
	// free is the time at which a signer has its full allowance again.
	free map[signer]time.Time
}

// maxConditionSigners is the number of signers at which those with their full allowance
// are dropped.
const maxConditionSigners = 10_000

// wait returns how long a signer must wait until it has time again. It returns 0 if the
// signer has time now.
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

// holds reports whether the condition of a patch is true for a document. The conditions
// of one request are evaluated one after the other. An error is the answer to the
// operation. It is 400 if the condition cannot be evaluated or takes more than
// [maxCondition]. It is 429 if the request or its signer has no time left.
func (x *request) holds(condition *query.Filter, document []byte) (bool, error) {
	x.conditions.mu.Lock()
	defer x.conditions.mu.Unlock()
	limit := min(maxCondition, maxRequestConditions-x.conditions.spent)
	if limit <= 0 {
		return false, errSlowConditions
	}
	// Conditions that share a processor would slow each other down, and their signers
	// would be charged for that time.
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
	return false, badRequest("cannot evaluate the condition of the patch: %v", err)
}

// errSlowConditions is the answer to a patch if the conditions of its request have used
// up their time.
var errSlowConditions = &statusError{
	status: http.StatusTooManyRequests, substatus: wire.SubNone, retryAfter: maxCondition,
	message: "not done, because the conditions of the patches in this request take more than " + maxRequestConditions.String() +
		" together; send fewer such patches in one request",
}

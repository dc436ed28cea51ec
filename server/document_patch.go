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
	"github.com/changefeed-go/changefeed/storetype"
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

// maxInlinePatch is the largest sum of the sizes of a patch and its document, in bytes,
// for which the patch runs in the sequencer.
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
	if err := x.acquireSlot(readSlots); err != nil { // the request is small, but the item in its answer may be large
		return err
	}
	p, err := parsePatch(body, unpatchable(c))
	if err != nil {
		return x.setFailure(c.RefuseWrite(x.r.Context(), key), err)
	}
	x.conditions = &requestConditions{}
	o := x.writeOptions()
	r, err := x.onDocument(c, key, func(key feed.PartitionKey, id string) (storetype.Result, error) {
		return x.patchItem(c, key, id, p, o)
	})
	return x.sendWritten(r, err)
}

// errCondition is the error of a patch whose condition is false for the item. The answer is
// that of a failed If-Match.
var errCondition = fmt.Errorf("the condition of the patch is false for the item: %w", storetype.ErrPreconditionFailed)

// errContended is the answer to a patch if other writes changed the item during each of
// maxPatchAttempts attempts.
var errContended = refuse(byBackend, wire.StatusRetryWith, wire.SubNone,
	fmt.Sprintf("other writes changed the item %d times while the patch was prepared; send it again", maxPatchAttempts))

// errNotInline is returned by inline if the patch and the document are too large for the
// sequencer.
var errNotInline = errors.New("the patch is too large to be applied while other writes wait")

// itemPatch is a parsed patch of an item.
type itemPatch struct {
	patch.Patch
	// condition is the condition of the patch, or nil if there is none.
	condition *query.Filter
	// size is the length of the patch's JSON in bytes.
	size int
}

// parsePatch parses the body of a patch. It returns an error if the patch changes one of
// the unpatchable paths.
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
			return nil, conditionFailure(err)
		}
	}
	return parsed, nil
}

// inline applies a patch without a condition to the document old and returns the new
// document. The store calls it in the sequencer. It returns errNotInline if the patch and
// the document are too large.
func (p *itemPatch) inline(old []byte) ([]byte, error) {
	if len(old)+p.size > maxInlinePatch {
		return nil, errNotInline
	}
	after, err := p.Apply(old)
	return after, patchFailure(err)
}

// patchItem patches an item. A small patch without a condition runs in the store's
// sequencer. Any other patch is prepared outside the sequencer by attemptPatch, up to
// maxPatchAttempts times.
func (x *request) patchItem(c *engine.Container, key feed.PartitionKey, id string, p *itemPatch, o storetype.WriteOptions) (storetype.Result, error) {
	if p.condition == nil {
		r, err := c.Change(x.r.Context(), key, id, p.inline, o)
		if !errors.Is(err, errNotInline) {
			return r, err
		}
	}
	var r storetype.Result
	for range maxPatchAttempts {
		var again bool
		var err error
		_ = c.Settle(r.Charge, 0) // an attempt that must be repeated costs nothing
		r, again, err = x.attemptPatch(c, key, id, p, o)
		if errors.As(err, new(*feed.ThrottledError)) {
			r.Charge = c.Throttled(key, storetype.Operation{Kind: storetype.OpChange, ID: id})
		}
		if !again {
			return r, err
		}
	}
	return r, errContended
}

// patchCopies is the number of copies of an item that a patch holds in memory: the old
// item, the new item, and the copy that the store writes.
const patchCopies = 3

// readForPatch reads an item to patch it outside the sequencer. The read costs nothing,
// because the charge of a patch is that of its write, wherever it runs.
func (x *request) readForPatch(c *engine.Container, key feed.PartitionKey, id string, o storetype.ReadOptions) (storetype.Result, error) {
	item, err := c.Read(x.r.Context(), key, id, o)
	if item.Partition != "" { // otherwise nothing was spent
		_ = c.Settle(item.Charge, 0)
		item.Charge = 0
	}
	return item, err
}

// attemptPatch applies a patch to the current version of an item and writes the result.
// again reports that another request wrote the item in between, so nothing was written.
func (x *request) attemptPatch(c *engine.Container, key feed.PartitionKey, id string, p *itemPatch, o storetype.WriteOptions) (r storetype.Result, again bool, err error) {
	held := patchCopies * storetype.MaxDocumentSize
	if err := x.items.take(held); err != nil {
		return r, false, err
	}
	defer func() { x.items.give(held) }()
	item, err := x.readForPatch(c, key, id, storetype.ReadOptions{IfMatch: o.IfMatch})
	refused := func(err error) (storetype.Result, bool, error) {
		if item.Partition != "" {
			_ = c.Settle(0, engine.FailedCharge) // the patch is refused in any case
			item.Charge = engine.FailedCharge
		}
		return item, false, err
	}
	if err != nil {
		return refused(err)
	}
	if most := min(patchCopies*(len(item.Body)+p.size), held); most < held {
		x.items.give(held - most)
		held = most
	}
	if o.IfNoneMatch == "*" || o.IfNoneMatch == item.ETag {
		return refused(fmt.Errorf("%w: item %q exists", storetype.ErrPreconditionFailed, id))
	}
	after, err := x.patched(p, item.Body)
	if err != nil {
		return refused(err)
	}
	r, err = c.Replace(x.r.Context(), key, id, after, storetype.WriteOptions{IfMatch: item.ETag, NoBody: o.NoBody, ExactCharge: true})
	return r, errors.Is(err, storetype.ErrPreconditionFailed), err
}

// patched returns the document old with the patch applied. It returns errCondition if the
// condition is false.
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

// unpatchable returns the paths that no patch may change: the ID, the partition key and
// the system properties.
func unpatchable(c *engine.Container) [][]string {
	return append(slices.Clone(c.KeyPaths()), []string{"id"}, []string{"_rid"}, []string{"_self"}, []string{"_etag"},
		[]string{"_attachments"}, []string{"_ts"})
}

// patchFailure converts an error of a patch to the answer.
func patchFailure(err error) error {
	if p := (*patch.Error)(nil); errors.As(err, &p) {
		return refuse(byBackend, http.StatusBadRequest, wire.SubNone, p.Error())
	}
	return err
}

// conditionFailure converts an error of a condition that cannot be compiled to the answer. A
// replica compiles it, because the gateway does not read the bodies of patches.
func conditionFailure(err error) error {
	wrong := (*querypage.Error)(nil)
	if err = querypage.Refused(err); !errors.As(err, &wrong) {
		return err
	}
	by := byBackend
	if wrong.Compiled() {
		by = byEvaluator
	}
	return refuse(by, http.StatusBadRequest, wire.SubNone, wrong.Error())
}

// These limits apply to the conditions of patches. Conditions run outside the store's
// sequencer, so other writes do not wait for them. Their time is limited because each
// occupies a processor.
const (
	// maxCondition limits the time of one evaluation of a condition.
	maxCondition = time.Second
	// maxRequestConditions limits the total time of all evaluations for one request.
	maxRequestConditions = 2 * time.Second
	// maxSignerConditions is the evaluation time that one signer can use at once. A
	// signer is an account key, or a permission with all of its resource tokens. Used
	// time is restored at half the speed of the clock.
	maxSignerConditions = 5 * time.Second
)

// signer identifies the account key or the permission whose time a condition uses. All
// AAD tokens together are one signer, which is the zero value.
type signer struct {
	// key is the number of an account key, counted from 1. It is 0 for tokens.
	key int
	// database, user and permission identify the permission of a resource token. They are
	// zero for other credentials.
	database         [4]byte
	user, permission uint32
}

// conditionTimes holds the evaluation time that each signer has used recently. It is safe
// for concurrent use.
type conditionTimes struct {
	mu sync.Mutex // guards the rest
	// free is the time at which all used time of a signer is restored.
	free map[signer]time.Time
}

// maxConditionSigners is the size of conditionTimes.free at which signers whose time is
// fully restored are deleted from it.
const maxConditionSigners = 10_000

// wait returns how long a signer must wait before it may evaluate another condition. It
// returns 0 if the signer has time left.
func (t *conditionTimes) wait(s signer) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(max(time.Until(t.free[s]), 0)-2*maxSignerConditions, 0)
}

// spend records that a condition of the signer s took the time took. That may be more
// than the signer had left.
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

// requestConditions holds the total time of the conditions of one request.
type requestConditions struct {
	mu    sync.Mutex // held while a condition of the request is evaluated
	spent time.Duration
}

// holds reports whether the condition of a patch is true for a document. The conditions
// of one request run one after the other. If holds returns an error, it is the answer to
// the operation. The status is 400 if the condition cannot be evaluated or takes more
// than [maxCondition]. It is 429 if the request or its signer has no time left.
func (x *request) holds(condition *query.Filter, document []byte) (bool, error) {
	x.conditions.mu.Lock()
	defer x.conditions.mu.Unlock()
	limit := min(maxCondition, maxRequestConditions-x.conditions.spent)
	if limit <= 0 {
		return false, errSlowConditions
	}
	// The number of conditions that run at once is limited. Otherwise conditions would
	// slow each other down, and their signers would be charged for the longer time.
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
	return false, refuse(byBackend, http.StatusBadRequest, wire.SubNone, fmt.Sprintf("cannot evaluate the condition of the patch: %v", err))
}

// errSlowConditions is the answer to a patch if the conditions of its request took longer
// than maxRequestConditions together.
var errSlowConditions = &statusError{
	status: http.StatusTooManyRequests, substatus: wire.SubNone, retryAfter: maxCondition,
	message: "not done, because the conditions of the patches in this request take more than " + maxRequestConditions.String() +
		" together; send fewer such patches in one request",
}

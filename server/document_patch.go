package server

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/patch"
	"github.com/changefeed-go/changefeed/internal/query"
)

// PATCH docs/<id>: a document is changed in place.
//
// Supported: add, set, replace, remove, incr and move, at most ten of them, on members and on elements of arrays; a condition
// (status 412 if it is not true); If-Match; the body with or without {"operations":...} around it. No other write to the
// document comes between the condition and the change. The id, the partition key and system properties cannot be patched.
//
// A small patch without a condition runs in the store's sequencer. Every other patch is prepared outside it, on the version
// that is the last one then, and written if that still is the last one. If other writes come first three times, the answer is
// 449 (RetryWith), as in the service.

// maxInlinePatch is the size, in bytes, of the largest patch that runs in the sequencer: its body and the document together.
const maxInlinePatch = 64 << 10

// maxPatchAttempts is how often a patch is prepared before the answer is 449.
const maxPatchAttempts = 3

func (s *Server) patchDocument(x *exchange) error {
	c, key, err := x.documentKey()
	if err != nil {
		return err
	}
	body, err := x.body(maxDocumentBody)
	if err != nil {
		return err
	}
	if err := x.enter(forReads); err != nil { // its answer may be much longer than its body
		return err
	}
	paths, err := unpatchable(x, c)
	if err != nil {
		return err
	}
	p, err := parsePatch(body, paths)
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
			return nil, queryFailure(err)
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
func (x *exchange) patchItem(c *engine.Container, key feed.PartitionKey, id string, p *itemPatch, o engine.WriteOptions) (engine.Result, error) {
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
func (x *exchange) attemptPatch(c *engine.Container, key feed.PartitionKey, id string, p *itemPatch, o engine.WriteOptions) (r engine.Result, again bool, err error) {
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
func (x *exchange) patched(p *itemPatch, old []byte) ([]byte, error) {
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

// unpatchable returns the paths that no patch may touch.
func unpatchable(x *exchange, c *engine.Container) ([][]string, error) {
	p, err := c.Properties(x.r.Context())
	if err != nil {
		return nil, above(err)
	}
	return append(pathNames(p.KeyPaths), []string{"id"}, []string{"_rid"}, []string{"_self"}, []string{"_etag"},
		[]string{"_attachments"}, []string{"_ts"}, []string{"_lsn"}), nil
}

// patchFailure returns the answer to an error of a patch.
func patchFailure(err error) error {
	if p := (*patch.Error)(nil); errors.As(err, &p) {
		return badRequest("%s", p.Error())
	}
	return err
}

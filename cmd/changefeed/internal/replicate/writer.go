package replicate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
)

// bulk reads and writes a container with bulk requests. *cosmos.Bulk implements it.
type bulk interface {
	Do(ctx context.Context, operations []cosmos.BulkOperation) ([]cosmos.BulkResult, error)
}

// finder looks up documents of the target by their ids.
type finder interface {
	find(ctx context.Context, ids []string) ([]found, error)
}

// found is a document that the target has: its id, its keys and its etag, without its
// body.
type found struct {
	document
	etag string
}

// writer carries out plans on the target. It is safe for concurrent use.
type writer struct {
	source, target bulk
	finder         finder
	aside          *aside // nil if a refused document ends the run

	// copied counts written documents. moved counts documents that were deleted under an
	// old target key. deleted counts documents deleted from the target. unsure counts
	// changes whose document may still have an old copy.
	copied, moved, deleted, unsure atomic.Int64
}

// CollisionError reports two documents of the source that would be one in the target: they have
// the same ID and the same new key.
type CollisionError struct {
	ID  string
	Key string
	// First is the source key of the document that the target has. Second is the source
	// key of the document that was to be written.
	First, Second string
}

func (e *CollisionError) Error() string {
	return fmt.Sprintf("two documents of the source would become one: id %q of key %s and id %q of key %s both have the new key %s; "+
		"choose another key, or change one of the two, and run again", e.ID, e.First, e.ID, e.Second, e.Key)
}

// refusedError reports a document that the target permanently rejects.
type refusedError struct {
	document string
	status   int
	message  string
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("the target rejects the document with %s: status %d %s %s", e.document, e.status, http.StatusText(e.status), e.message)
}

// fatal reports whether a retry cannot fix err, so that the run must end.
func fatal(err error) bool {
	var (
		collision *CollisionError
		refused   *refusedError
		broken    *documentError
		unwritten *asideError
		lost      *lostError
	)
	return errors.As(err, &unwritten) || errors.As(err, &collision) || errors.As(err, &lost) || errors.As(err, &refused) || errors.As(err, &broken) || errors.Is(err, feed.ErrNotFound)
}

// documentError reports a change whose document cannot be parsed.
type documentError struct{ err error }

func (e *documentError) Error() string { return e.err.Error() }

// Unwrap returns the error underneath.
func (e *documentError) Unwrap() error { return e.err }

// handle makes plans from a batch under rules r, and carries them out.
func (w *writer) handle(ctx context.Context, r rules, b *changefeed.Batch) error {
	plans, unsure, err := r.collapse(b.Range, b.Changes)
	if err != nil {
		return &documentError{err}
	}
	if !r.rekeyed {
		err = w.same(ctx, plans)
	} else {
		err = w.rekey(ctx, r, plans)
	}
	if err != nil {
		return err
	}
	w.unsure.Add(int64(unsure))
	for _, p := range plans {
		switch {
		case p.aside:
		case p.gone:
			w.deleted.Add(1)
		default:
			w.copied.Add(1)
		}
	}
	return nil
}

// same carries out plans if the target has the logical partitions of the source.
func (w *writer) same(ctx context.Context, plans []*plan) error {
	ops := make([]cosmos.BulkOperation, 0, len(plans))
	for _, p := range plans {
		if p.gone {
			ops = append(ops, cosmos.BulkOperation{Kind: cosmos.BulkDelete, Key: p.target.PartitionKey, ID: p.id})
		} else {
			ops = append(ops, cosmos.BulkOperation{Kind: cosmos.BulkUpsert, Key: p.target.PartitionKey, Body: p.body})
		}
	}
	results, err := w.target.Do(ctx, ops)
	if err != nil {
		return err
	}
	for i, r := range results {
		if !r.Done() && !(plans[i].gone && r.Status == http.StatusNotFound) {
			if err := w.refused(plans[i], r); err != nil {
				return err
			}
		}
	}
	return nil
}

// refused sets a document aside that the target refused, or returns the error that ends
// the run.
func (w *writer) refused(p *plan, r cosmos.BulkResult) error {
	return w.aside.take(p, &refusedError{document: p.name(), status: r.Status, message: r.Message})
}

// write is a document to write to the target.
type write struct {
	*plan
	// etag is the etag of the document to replace. If empty, the document is created.
	etag string
	// look reports whether the target's document under this key must be read first.
	// missing reports whether it was read, and the target had none.
	look, missing bool
	// conflicts is the number of conflicts without such a document. A unique key of the
	// target causes them.
	conflicts int
}

// erase is the deletion of an old copy of a document under another target key.
type erase struct {
	*plan
	key  key
	etag string
}

// rekey carries out plans if the target has other logical partitions than the source. It
// first writes the documents under their new keys, so that each document always exists.
// Then it deletes the old copies.
func (w *writer) rekey(ctx context.Context, r rules, plans []*plan) error {
	writes, erases, err := w.locate(ctx, plans)
	if err != nil {
		return err
	}
	if err := w.put(ctx, r, writes); err != nil {
		return err
	}
	return w.clear(ctx, r, erases)
}

// locate returns the writes and the deletions that plans need. It looks up old copies of
// the documents whose plans demand it.
func (w *writer) locate(ctx context.Context, plans []*plan) (writes []write, erases []erase, err error) {
	var ids []string
	for _, p := range plans {
		if p.search {
			ids = append(ids, p.id)
		}
	}
	where := map[string][]found{}
	if len(ids) > 0 {
		all, err := w.finder.find(ctx, ids)
		if err != nil {
			return nil, nil, fmt.Errorf("look up documents of the target by their ids: %w", err)
		}
		for _, f := range all {
			name := f.source.name + "\x00" + f.id
			where[name] = append(where[name], f)
		}
	}
	for _, p := range plans {
		next := write{plan: p, look: p.there}
		if p.search {
			next.look = false
			for _, f := range where[p.source.name+"\x00"+p.id] {
				at := f.target.name
				if !p.gone && at == p.target.name {
					next.etag = f.etag
					continue
				}
				delete(p.left, at)
				erases = append(erases, erase{plan: p, key: f.target, etag: f.etag})
			}
		}
		for _, left := range p.left {
			erases = append(erases, erase{plan: p, key: left})
		}
		if !p.gone {
			writes = append(writes, next)
		}
	}
	return writes, erases, nil
}

// maxAttempts is the number of attempts to write a document that other clients change at
// the same time. After that, the whole batch is retried.
const maxAttempts = 10

// maxConflicts is the number of conflicts with no document after which a document counts
// as refused. It is more than one, because another client may create the document after it
// was looked up, and delete it before it is looked up again.
const maxConflicts = 3

// errContended reports that other clients keep changing the same documents of the target.
var errContended = errors.New("documents of the target change while they are written; do other clients write to it?")

// put writes documents to the target. It replaces a document only if it has read it and
// found it to be the same document of the source.
func (w *writer) put(ctx context.Context, r rules, writes []write) error {
	for range maxAttempts {
		var err error
		if writes, err = w.inspect(ctx, r, writes); err != nil {
			return err
		}
		if len(writes) == 0 {
			return nil
		}
		ops := make([]cosmos.BulkOperation, 0, len(writes))
		for _, x := range writes {
			o := cosmos.BulkOperation{Kind: cosmos.BulkCreate, Key: x.target.PartitionKey, Body: x.body}
			if x.etag != "" {
				o.Kind, o.ID, o.IfMatch = cosmos.BulkReplace, x.id, x.etag
			}
			ops = append(ops, o)
		}
		results, err := w.target.Do(ctx, ops)
		if err != nil {
			return err
		}
		var again []write
		for i, result := range results {
			switch {
			case result.Done():
			case result.Status == http.StatusConflict && writes[i].conflicts >= maxConflicts:
				if err := w.refused(writes[i].plan, result); err != nil {
					return err
				}
			case result.Status == http.StatusConflict, result.Status == http.StatusPreconditionFailed, result.Status == http.StatusNotFound:
				next := write{plan: writes[i].plan, look: true}
				if result.Status == http.StatusConflict && writes[i].missing {
					next.conflicts = writes[i].conflicts + 1
				}
				again = append(again, next)
			default:
				if err := w.refused(writes[i].plan, result); err != nil {
					return err
				}
			}
		}
		writes = again
		if len(writes) == 0 {
			return nil
		}
	}
	return errContended
}

// inspect reads the documents of the target that writes may replace. It returns the
// writes to carry out, with the etags of these documents.
func (w *writer) inspect(ctx context.Context, r rules, writes []write) ([]write, error) {
	var ops []cosmos.BulkOperation
	var at []int
	for i, x := range writes {
		if x.look {
			at = append(at, i)
			ops = append(ops, cosmos.BulkOperation{Kind: cosmos.BulkRead, Key: x.target.PartitionKey, ID: x.id})
		}
	}
	if len(ops) == 0 {
		return writes, nil
	}
	results, err := w.target.Do(ctx, ops)
	if err != nil {
		return nil, err
	}
	skip := map[int]bool{}
	for n, result := range results {
		x := &writes[at[n]]
		x.look, x.etag = false, ""
		if x.missing = result.Status == http.StatusNotFound; x.missing {
			continue
		}
		if !result.Done() {
			if err := w.refused(x.plan, result); err != nil {
				return nil, err
			}
			skip[at[n]] = true
			continue
		}
		there, err := r.parse(result.Body)
		if err != nil {
			return nil, &documentError{fmt.Errorf("document %q of key %s in the target: %w", x.id, x.target, err)}
		}
		x.etag = result.ETag
		if there.source.name == x.source.name {
			continue
		}
		write, err := w.resolve(ctx, r, x.plan, there)
		if err := w.aside.take(x.plan, err); err != nil {
			return nil, err
		}
		skip[at[n]] = !write
	}
	left := make([]write, 0, len(writes))
	for i, x := range writes {
		if !skip[i] {
			left = append(left, x)
		}
	}
	return left, nil
}

// resolve decides between two documents of the source that claim one key of the target.
// The copy of one of them may be old. write reports whether the new one is written. If
// not, it has moved or was deleted meanwhile, and a later change follows. resolve returns
// a *[CollisionError] if both still claim the key.
func (w *writer) resolve(ctx context.Context, r rules, p *plan, there document) (write bool, err error) {
	results, err := w.source.Do(ctx, []cosmos.BulkOperation{
		{Kind: cosmos.BulkRead, Key: p.source.PartitionKey, ID: p.id},
		{Kind: cosmos.BulkRead, Key: there.source.PartitionKey, ID: there.id},
	})
	if err != nil {
		return false, fmt.Errorf("read documents of the source: %w", err)
	}
	var still [2]bool
	for i, result := range results {
		if result.Status == http.StatusNotFound {
			continue
		}
		if !result.Done() {
			return false, fmt.Errorf("read documents of the source: status %d %s", result.Status, result.Message)
		}
		d, err := r.parse(result.Body)
		if err != nil {
			return false, &documentError{err}
		}
		still[i] = d.target.name == p.target.name
	}
	if still[0] && still[1] {
		return false, &CollisionError{ID: p.id, Key: p.target.String(), First: there.source.String(), Second: p.source.String()}
	}
	return still[0] || !still[1], nil
}

// clear deletes old copies of documents. It keeps a copy that another document has
// replaced meanwhile, and the copies of a document that was set aside.
func (w *writer) clear(ctx context.Context, r rules, erases []erase) error {
	erases = slices.DeleteFunc(erases, func(x erase) bool { return x.aside })
	for range maxAttempts {
		if len(erases) == 0 {
			return nil
		}
		ops := make([]cosmos.BulkOperation, 0, len(erases))
		for _, x := range erases {
			kind := cosmos.BulkRead
			if x.etag != "" {
				kind = cosmos.BulkDelete
			}
			ops = append(ops, cosmos.BulkOperation{Kind: kind, Key: x.key.PartitionKey, ID: x.id, IfMatch: x.etag})
		}
		results, err := w.target.Do(ctx, ops)
		if err != nil {
			return err
		}
		var again []erase
		for i, result := range results {
			x := erases[i]
			switch {
			case result.Status == http.StatusNotFound:
			case result.Status == http.StatusPreconditionFailed:
				again = append(again, erase{plan: x.plan, key: x.key})
			case !result.Done():
				if err := w.refused(x.plan, result); err != nil {
					return err
				}
			case x.etag != "":
				if !x.gone {
					w.moved.Add(1)
				}
			default:
				there, err := r.parse(result.Body)
				if err != nil {
					return &documentError{fmt.Errorf("document %q of key %s in the target: %w", x.id, x.key, err)}
				}
				if there.source.name == x.source.name {
					again = append(again, erase{plan: x.plan, key: x.key, etag: result.ETag})
				}
			}
		}
		erases = again
	}
	if len(erases) > 0 {
		return errContended
	}
	return nil
}

// parseFound parses one result of a look-up.
func (s shape) parseFound(row json.RawMessage) (found, error) {
	var meta struct {
		ETag string `json:"_etag"`
	}
	if err := json.Unmarshal(row, &meta); err != nil {
		return found{}, err
	}
	d, err := s.parse(row)
	d.body = nil
	return found{document: d, etag: meta.ETag}, err
}

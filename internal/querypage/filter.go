package querypage

import (
	"context"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/query"
)

// This file selects the documents that a query reads. The engine has an index of
// partition keys and IDs, and no other. Documents that the condition excludes by
// partition key or ID are neither read nor decoded.
//
// Supported for full partition keys: =, IN, and ARRAY_CONTAINS of a constant list.
// Supported for IDs: the same, <, <=, >, >=, BETWEEN and STARTSWITH. AND and OR may join
// them. IDs without a key are searched in the whole index, where an entry takes some 100
// bytes. If such a condition is the whole condition, COUNT reads no document.
//
// The engine evaluates any other part of the condition, in the order in which documents
// are read fastest. It passes on the documents that match in the order of the rows. If
// the first row needs all documents, they come in any order.

// ConditionKey returns the full partition key that the condition of a query requires. It
// returns nil if the condition requires none, or if no document can have the key.
func ConditionKey(c *engine.Container, b *query.Bound) feed.PartitionKey {
	key, ok := b.KeyFilter(c.KeyPaths())
	if !ok || pointOf(c, key) == "" {
		return nil
	}
	return key
}

// pointOf returns the effective partition key of a full partition key. It returns "" if
// no document can have the key.
func pointOf(c *engine.Container, key []any) string {
	r, err := c.KeyRange(key)
	if err != nil {
		return ""
	}
	return r.Min
}

// Plan returns the plan by which a client queries the partitions of a container. key is
// the partition key of the request, or nil. It returns an *[Error] if the query has no
// plan.
func Plan(c *engine.Container, b *query.Bound, key feed.PartitionKey) (query.Plan, error) {
	keys := query.Keys{Paths: c.KeyPaths(), EPK: func(key []any) (string, error) { return pointOf(c, key), nil }}
	if len(key) == len(keys.Paths) {
		r, err := c.KeyRange(key)
		if err != nil {
			return query.Plan{}, err
		}
		keys.Point = r.Min
	}
	plan, err := b.Plan(keys)
	return plan, Refused(err)
}

// lsnMember is the member that the store adds to documents and that queries must not see.
const lsnMember = "_lsn"

// selectItems limits the documents that the page reads, by the partition keys and IDs in
// the query's condition.
func (p *Page) selectItems(ctx context.Context) {
	sets, exact, ok := p.query.Among(p.c.KeyPaths())
	if ok {
		p.items.Sets = make([]engine.ItemSet, 0, len(sets))
		for _, s := range sets {
			if s.Key != nil && p.c.SharesPartition(s.Key) {
				exact = false // documents of other keys are in the set, too
			}
			if s.Key == nil || pointOf(p.c, s.Key) != "" {
				p.items.Sets = append(p.items.Sets, engine.ItemSet{Key: s.Key, From: s.From, To: s.To})
			}
		}
	}
	if !exact {
		where, end := p.query.Where(), time.Now().Add(p.time)
		if where.Random() {
			return
		}
		p.items.Filter = &engine.ItemFilter{
			New:      func() func(doc []byte) (bool, error) { return p.filter(ctx, where, end) },
			AsStored: !where.Sees(lsnMember),
		}
		return
	}
	if b, ok := p.query.Uniform(); ok {
		p.query, p.eval, p.items.IndexOnly = b, b.Rows(), true
	}
}

// The time of a page divided by filterShare is the longest time that the filter spends on
// one document. So even a batch of slow documents takes only a part of the page's time.
const filterShare = 1000

// filter returns the WHERE filter of the engine. A page in the order of the documents may
// end early. So the filter passes some documents without a result, and the page evaluates
// them when it visits them. These are slow documents, documents after end, and documents
// for which the condition fails. The engine filters a batch in the order of the log, so
// the page drops the results for documents after its end. They are few.
func (p *Page) filter(ctx context.Context, where *query.Where, end time.Time) func(doc []byte) (bool, error) {
	if Sorts(p.shape) {
		return where.Filter(ctx.Err)
	}
	var slow time.Time // when the document becomes slow; zero before the first check
	match := where.Filter(func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		now := time.Now()
		if slow.IsZero() {
			slow = now.Add(p.time / filterShare)
		}
		if !now.Before(end) || !now.Before(slow) {
			return errPageTime
		}
		return nil
	})
	return func(doc []byte) (bool, error) {
		slow = time.Time{}
		ok, err := match(doc)
		if err != nil && ctx.Err() == nil {
			return true, nil // the page may end before the document
		}
		return ok, err
	}
}

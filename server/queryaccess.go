package server

import (
	"context"
	"time"

	"github.com/changefeed-go/changefeed/internal/engine"
)

// Which documents a query reads. What its condition says of partition keys and ids is told to the store, which has an index of both and
// no other: documents that it rules out are neither read nor decoded.
//
// Supported: full partition keys by = and IN, and ARRAY_CONTAINS of a constant list; ids by these, <, <=, >, >=, BETWEEN and STARTSWITH;
// joined by AND and OR. Ids without a key are looked for in the whole index, of which an entry has some 100 bytes. COUNT of all that such a
// condition leaves reads no document at all.
//
// Where a condition says more than that, the store asks it of the documents in the order that they are read fastest in, and shows those of
// which it is true in the order that rows have. Where all documents are needed for the first row, they come in any order.

// narrow has the store read what the condition can be true of. ctx is the request's.
func (r *queryRun) narrow(ctx context.Context, paths []string) {
	sets, exact, ok := r.b.Among(pathNames(paths))
	if ok {
		r.request.Sets = make([]engine.ItemSet, 0, len(sets))
		for _, s := range sets {
			if s.Key != nil {
				if _, err := r.c.KeyRange(s.Key); err != nil {
					continue // no document can have such a key
				}
			}
			r.request.Sets = append(r.request.Sets, engine.ItemSet{Key: s.Key, From: s.From, To: s.To})
		}
	}
	if !exact {
		where, end := r.b.Where(), time.Now().Add(r.time)
		if where.Random() {
			return
		}
		r.request.Filter = &engine.ItemFilter{
			New:      func() func(doc []byte) (bool, error) { return r.judge(ctx, where, end) },
			AsStored: !where.Sees(lsnMember),
		}
		return
	}
	if b, ok := r.b.Uniform(); ok {
		r.b, r.rows, r.request.IndexOnly = b, b.Rows(), true
	}
}

// lsnMember is the one member that documents have as they are stored, and queries don't see.
const lsnMember = "_lsn"

// anyDocument stands for each document where a query makes the same of all.
var anyDocument = []byte(`{}`)

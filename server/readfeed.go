package server

import (
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/store"
)

// GET docs without A-IM: the read feed, all documents of a container.
//
// Supported: the same scopes as for a change feed (container, partition, range of effective partition keys, logical key or a prefix
// of one), in any combination; x-ms-max-item-count; x-ms-continuation, which stays valid over splits and merges. The order is that of
// effective partition key and id. A document that is there all the while is read exactly once.

func (s *Server) readDocuments(x *exchange) error {
	c, err := x.owner()
	if err != nil {
		return err
	}
	sc, err := x.scope(c)
	if err != nil {
		return err
	}
	r := store.ItemsRequest{Key: sc.key, Range: sc.keys, Partition: sc.partition, Continuation: x.header(wire.HeaderContinuation)}
	if r.MaxItems, err = x.maxItems(); err != nil {
		return err
	}
	page, err := c.Items(x.r.Context(), r)
	if err != nil {
		return above(err)
	}
	x.charge, x.continuation = page.Charge, page.Continuation
	x.servedBy(page.Served)
	return x.sendPage(len(page.Items), func(emit func([]byte)) {
		for i := range page.Items {
			if i > 0 {
				emit(comma)
			}
			emit(page.Items[i].Body)
		}
	})
}

package server

import (
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/querypage"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// This file serves GET docs without the header A-IM: the read feed, which returns all
// documents of a container.
//
// Supported: x-ms-max-item-count; x-ms-continuation, which remains valid after splits and
// merges, for its selection or a part of it as in a query; and a selection of documents. A
// selection may name a partition, a range of effective partition keys, and a logical key or a
// prefix of one, in any combination. Documents come in the order of [storetype.ItemsPage], which
// is that of their first write within a physical partition, and no page spans two partitions. A
// document that exists throughout the reading is returned exactly once.

func (s *Server) readDocuments(x *request) error {
	c, err := x.owner()
	if err != nil {
		return err
	}
	sc, err := x.selection(c)
	if err != nil {
		return err
	}
	r := engine.ItemsRequest{ItemsRequest: storetype.ItemsRequest{Key: sc.key, Range: sc.keys, Partition: sc.partition}}
	tokens, err := querypage.NewReadFeed(x.r.Context(), c, &r, x.header(wire.HeaderContinuation))
	if err != nil {
		return err
	}
	if r.MaxItems, err = x.pageItems(); err != nil {
		return err
	}
	if err := x.acquireSlot(readSlots); err != nil {
		return err
	}
	page, err := c.Items(x.r.Context(), r)
	if err != nil {
		return ownerError(err)
	}
	x.charge = page.Charge
	if x.continuation, err = tokens.Next(&page); err != nil {
		return err
	}
	x.setPage(page.Of, page.Served)
	if err := x.checkSession(page.Served...); err != nil {
		return err
	}
	return x.sendPage(len(page.Items), func(emit func([]byte)) {
		for i := range page.Items {
			if i > 0 {
				emit(comma)
			}
			emit(page.Items[i].Body)
		}
	})
}

package server

import (
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/querypage"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// This file serves GET docs without the header A-IM: the read feed, which returns all
// documents of a container.
//
// Supported: x-ms-max-item-count; x-ms-continuation, which remains valid after splits and
// merges; and a selection of documents. A selection may name a partition, a range of
// effective partition keys, and a logical key or a prefix of one, in any combination.
// Documents come in the order of [engine.ItemsPage], which is that of their first write
// within a physical partition, and no page spans two partitions. A document that exists
// throughout the reading is returned exactly once.

func (s *Server) readDocuments(x *request) error {
	c, err := x.owner()
	if err != nil {
		return err
	}
	sc, err := x.selection(c)
	if err != nil {
		return err
	}
	rid := c.Identity().ContainerRID
	r := engine.ItemsRequest{Key: sc.key, Range: sc.keys, Partition: sc.partition}
	if r.Continuation, err = readToken(x.header(wire.HeaderContinuation), rid); err != nil {
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
	if page.Continuation != "" {
		x.continuation = querypage.JoinToken(tokenRead, rid, page.Continuation)
	}
	x.setPartitions(page.Served)
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

// tokenRead marks a continuation of the read feed. The continuation is r~<rid of the
// container>~<position>~<checksum>. It does not contain the selection, because SDKs send
// the continuation of a range for each of its parts after a split.
const tokenRead = "r"

// readToken parses a continuation of the read feed and returns the position in it. It
// returns "" for an empty text, which means the first page.
func readToken(text, rid string) (position string, err error) {
	if text == "" {
		return "", nil
	}
	parts := querypage.SplitToken(text)
	if len(parts) != 3 || parts[0] != tokenRead || parts[1] != rid || parts[2] == "" {
		return "", badRequest("the header x-ms-continuation is %.60q, which is not a continuation of the documents of this container; "+
			"send the continuation of an earlier page of the same container, or none", text)
	}
	return parts[2], nil
}

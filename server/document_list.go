package server

import (
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/querypage"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// GET docs without A-IM: the read feed, all documents of a container.
//
// Supported: the selections of a change feed (container, partition, range of effective partition
// keys, logical key or a prefix of one), in any combination; x-ms-max-item-count;
// x-ms-continuation, which remains valid over splits and merges. The order is that of effective
// partition key and ID. A document that exists all the time is read exactly once.

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
	if r.MaxItems, err = x.maxItems(); err != nil {
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
	return x.sendPage(len(page.Items), func(emit func([]byte)) {
		for i := range page.Items {
			if i > 0 {
				emit(comma)
			}
			emit(page.Items[i].Body)
		}
	})
}

// tokenRead begins a continuation of the read feed: r~<rid of the container>~<position>~<checksum>.
// It does not have the selection: SDKs send the continuation of a range for the ranges that a split
// made of it.
const tokenRead = "r"

// readToken returns the position of a continuation of the read feed; empty for the first page.
func readToken(text, rid string) (position string, err error) {
	if text == "" {
		return "", nil
	}
	parts := querypage.SplitToken(text)
	if len(parts) != 3 || parts[0] != tokenRead || parts[1] != rid || parts[2] == "" {
		return "", badRequest("the header x-ms-continuation is %.60q, which is no continuation of reading the documents of this container: "+
			"send what an earlier page was answered with, or nothing", text)
	}
	return parts[2], nil
}

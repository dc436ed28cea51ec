package server

import (
	"net/http"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// scope is the part of a container that a feed or a query is asked of. What is empty doesn't narrow it, and
// what is given does so together: a partition and a key are that key's documents in that partition.
type scope struct {
	// partition is the ID of a physical partition.
	partition string
	// keys is a range of effective partition keys.
	keys feed.Range
	// key is a logical partition key, or a prefix of a hierarchical one.
	key feed.PartitionKey
}

// scope reads the headers that narrow a request.
func (x *exchange) scope(c *engine.Container) (scope, error) {
	var (
		s   scope
		err error
	)
	if s.partition, err = x.partitionID(c); err != nil {
		return s, err
	}
	if s.key, err = x.partitionKey(); err != nil {
		return s, err
	}
	s.keys, err = x.keyRange()
	return s, err
}

// partitionID is the partition that the request names, as <id> or <rid of the container>,<id>; empty:
// none. Whoever names one with another rid has taken it from a container that was deleted.
func (x *exchange) partitionID(c *engine.Container) (string, error) {
	text := x.header(wire.HeaderPartitionID)
	comma := strings.LastIndexByte(text, ',')
	if comma < 0 {
		return text, nil
	}
	id := c.Identity()
	if rid := text[:comma]; rid != id.ContainerRID {
		return "", failure(http.StatusGone, wire.SubNameCacheStale, "container %s has the rid %s now, not %.40q: it was deleted and made anew",
			id.Container, id.ContainerRID, rid)
	}
	return text[comma+1:], nil
}

// keyRange is the range of effective partition keys that the request narrows to; the zero Range: none. The header
// that says what kind of keys they are differs between SDKs, and isn't looked at.
func (x *exchange) keyRange() (feed.Range, error) {
	lower, upper := x.header(wire.HeaderStartEPK), x.header(wire.HeaderEndEPK)
	if lower == "" && upper == "" {
		return feed.Range{}, nil
	}
	r := feed.Range{Min: strings.ToUpper(lower), Max: strings.ToUpper(upper)}
	if r.Max == "" {
		r.Max = feed.MaxEPK
	}
	if r.IsEmpty() {
		return r, badRequest("no key lies between x-ms-start-epk %.80q and x-ms-end-epk %.80q", lower, upper)
	}
	return r, nil
}

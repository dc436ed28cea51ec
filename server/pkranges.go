package server

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// This file serves GET pkranges, which lists the live partitions of a container. SDKs
// send requests to partitions according to this list, and read it again after a 410. The
// path has the name or the rid of the container.
//
// Supported: the whole list, always in one page; and the incremental form. With the etag
// of an earlier list in If-None-Match, the answer has only the partitions created since,
// or is a 304. Not supported: pages (x-ms-max-item-count is ignored, as in the service).
//
// This list and a 410 for a missing partition are computed from the same view of the
// store. So a client that gets a 410 finds the partition's successors in the list at
// once. SDKs that read the list and retry without a delay rely on that.

// keyRange is the JSON of one partition in the list.
type keyRange struct {
	RID          string   `json:"_rid"`
	ID           string   `json:"id"`
	ETag         string   `json:"_etag"`
	MinInclusive string   `json:"minInclusive"`
	MaxExclusive string   `json:"maxExclusive"`
	RIDPrefix    int      `json:"ridPrefix"`
	Self         string   `json:"_self"`
	Fraction     float64  `json:"throughputFraction"`
	Status       string   `json:"status"`
	Parents      []string `json:"parents"`
	Archived     []string `json:"ownedArchivalPKRangeIds"`
	Timestamp    int64    `json:"_ts"`
	LSN          int64    `json:"lsn"`
}

type keyRanges struct {
	RID    string     `json:"_rid"`
	Ranges []keyRange `json:"PartitionKeyRanges"`
	Count  int        `json:"_count"`
}

func (s *Server) readKeyRanges(x *request) error {
	c, err := x.owner()
	if err != nil {
		return err
	}
	props, err := c.Properties(x.r.Context())
	if err != nil {
		return errNotFound
	}
	live, err := c.Partitions(x.r.Context())
	if err != nil {
		return errNotFound
	}
	ends, err := c.Ends(x.r.Context())
	if err != nil {
		return errNotFound
	}
	numbers, next := make([]uint32, len(live)), uint32(0)
	for i, p := range live {
		n, err := strconv.ParseUint(p.ID, 10, 32)
		if err != nil {
			return fmt.Errorf("the id of partition %q is not a number: %w", p.ID, err)
		}
		numbers[i] = uint32(n)
		next = max(next, numbers[i]+1)
	}
	if x.header(wire.HeaderAIM) != "" || x.header("If-None-Match") != "" {
		x.etag = keyRangesTag(next, props.RID) // the service sends none to a client that reads the list once
	}
	since := keyRangesSince(x.header("If-None-Match"), next, props.RID)
	if since == next {
		return x.sendNoPage()
	}
	answer := keyRanges{RID: props.RID, Ranges: []keyRange{}}
	for i, p := range live {
		if numbers[i] < since {
			continue
		}
		r, err := newKeyRange(p, numbers[i], c.Identity())
		if err != nil {
			return err
		}
		r.Fraction, r.Timestamp = 1/float64(len(live)), props.Modified.Unix()
		for _, end := range ends { // a split since the list was read leaves 0
			if end.ID == p.ID {
				r.LSN = end.End
			}
		}
		answer.Ranges = append(answer.Ranges, r)
	}
	answer.Count = len(answer.Ranges)
	x.count = answer.Count
	return x.sendJSON(http.StatusOK, answer)
}

func newKeyRange(p feed.Partition, number uint32, id feed.Identity) (keyRange, error) {
	rid, err := keyRangeRID(id.ContainerRID, number)
	return keyRange{
		RID: rid, ID: p.ID, ETag: fmt.Sprintf(`"%08x-0000-0000-0000-000000000000"`, number+1),
		MinInclusive: p.Range.Min, MaxExclusive: p.Range.Max, RIDPrefix: int(number),
		Self:   fmt.Sprintf("dbs/%s/colls/%s/pkranges/%s/", id.DatabaseRID, id.ContainerRID, rid),
		Status: "online", Parents: append([]string{}, p.Parents...), Archived: []string{},
	}, err
}

// keyRangesTag returns the etag of the list. It contains next, the number that the next
// new partition will get. Every split and merge creates partitions, so the number changes
// with the list, and only then. If it changed more often, azcosmos for Go and .NET would
// read the list forever. The etag also contains the container's rid, so it never matches
// a new container of the same name.
func keyRangesTag(next uint32, rid string) string { return fmt.Sprintf(`"%d.%s"`, next, rid) }

// keyRangesSince returns the number of the first partition that was created after the
// list with the etag tag. It returns 0, which means all partitions, if the etag is of
// another container.
func keyRangesSince(tag string, next uint32, rid string) uint32 {
	digits, owner, _ := strings.Cut(strings.Trim(tag, `"`), ".")
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || owner != rid || uint32(n) > next {
		return 0
	}
	return uint32(n)
}

// The rid of a partition consists of the 8 bytes of its container's rid, the partition's
// number, and a byte that marks a partition. .NET and Java parse these rids.
const (
	keyRangeMark = 0x50
	// firstKeyRange is the number in the rid of partition 0. SDKs do not accept a rid
	// with the number 0.
	firstKeyRange = 2
)

func keyRangeRID(container string, number uint32) (string, error) {
	b, err := layout.RIDEncoding.DecodeString(container)
	if err != nil {
		return "", fmt.Errorf("the rid %q of the container: %w", container, err)
	}
	b = binary.LittleEndian.AppendUint32(b, number+firstKeyRange)
	return layout.RIDEncoding.EncodeToString(append(b, 0, 0, 0, keyRangeMark)), nil
}

package engine

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
)

// span is what a read of a feed looks at: one partition, or neighbours that are read as one. Since one
// LSN counter serves a container, their segments merge into one feed in the order of LSNs, as those of
// merged partitions do. It is of one view.
type span struct {
	// part is the partition, or one made up for the read, which lists the segments of all.
	part *partition
	// end is the highest last LSN of the partitions.
	end int64
	// members are the partitions, and ends their last LSNs.
	members []*partition
	ends    []int64
	// changed wakes when there may be something behind the LSN known.
	changed *signal
	known   int64
}

// spanIn finds what a scope lies in, or the partition that id names. *feed.GoneError: there is none of
// that ID; or the scope lies in more than one, and spans is false.
func (sc *scope) spanIn(s *state, id string, spans bool) (span, error) {
	if !spans {
		place, err := sc.partitionIn(s.meta, id)
		if err != nil {
			return span{}, err
		}
		return s.spanOf(place, place), nil
	}
	first, last, err := sc.partitionsIn(s.meta, id)
	if err != nil {
		return span{}, err
	}
	return s.spanOf(first, last), nil
}

// partitionsIn finds the neighbours, by their places from first to last, that the scope lies in, or the partition that
// id names. *feed.GoneError: there is none of that ID.
func (sc *scope) partitionsIn(m *meta, id string) (first, last int, err error) {
	if id != "" || sc.point != nil || sc.keys.IsEmpty() {
		first, err = sc.partitionIn(m, id)
		return first, first, err
	}
	first = m.find(sc.lower)
	last = first
	for last+1 < len(m.partitions) && bytes.Compare(sc.upper, m.partitions[last].upper) > 0 {
		last++
	}
	return first, last, nil
}

// spanOf makes a span of the partitions from first to last, by their places.
func (s *state) spanOf(first, last int) span {
	members, ends := s.meta.partitions[first:last+1], s.ends[first:last+1]
	if first == last {
		return span{part: members[0], end: ends[0], members: members, ends: ends, changed: members[0].changed, known: ends[0]}
	}
	return span{
		part: s.meta.joined(members), end: slices.Max(ends), members: members, ends: ends,
		changed: &s.c.changed, known: slices.Max(s.ends),
	}
}

// joined makes up a partition of neighbours, for a read.
func (m *meta) joined(parts []*partition) *partition {
	first, last := parts[0], parts[len(parts)-1]
	p := &partition{
		keys:  feed.Range{Min: first.keys.Min, Max: last.keys.Max},
		lower: first.lower, upper: last.upper,
	}
	seen := make(map[uint32]bool, 2*len(parts))
	for _, part := range parts {
		p.losses = append(p.losses, part.losses...)
		for _, n := range part.segments {
			if !seen[n] {
				seen[n] = true
				p.segments = append(p.segments, n)
			}
		}
	}
	m.sortSegments(p.segments)
	return p
}

// behind is the span's partition without the segments of its members in which there is nothing
// behind an LSN: of many partitions, few have changed since the last read of all.
func (sp *span) behind(lsn int64) *partition {
	if len(sp.members) == 1 {
		return sp.part
	}
	idle := make(map[uint32]bool, len(sp.members))
	for i, p := range sp.members {
		if sp.ends[i] <= lsn {
			idle[p.number] = true
		}
	}
	p := *sp.part
	p.segments = slices.DeleteFunc(slices.Clone(p.segments), func(n uint32) bool { return idle[n] })
	return &p
}

// page is an empty page of the span's feed.
func (sp *span) page(lsn int64) feed.Page {
	var token strings.Builder
	for i, p := range sp.members {
		if i > 0 {
			token.WriteByte(',')
		}
		token.WriteString(p.id)
		token.WriteString(":-1#")
		token.WriteString(strconv.FormatInt(sp.ends[i], 10))
	}
	return feed.Page{Continuation: continuation(lsn), LSN: lsn, End: sp.end, SessionToken: token.String()}
}

// served are the partitions from first to last, by their places, for callers.
func (s *state) served(first, last int) []PartitionEnd {
	return served(s.meta.partitions[first:last+1], s.ends[first:last+1])
}

func served(parts []*partition, ends []int64) []PartitionEnd {
	all := make([]PartitionEnd, len(parts))
	for i, p := range parts {
		all[i] = PartitionEnd{ID: p.id, End: ends[i]}
	}
	return all
}

package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// A restored copy of a store lacks the last transactions of the lost one. If it went on
// counting, a reader would skip its first transactions, because the reader's position has
// their LSNs. So [Restore] continues each partition above a hole, which is wider than any
// log can have grown since the copy. A position in a hole can only be of the lost log. It
// is refused, as one after the end of the log is.
//
// A copy may be restored more than once, and what was written after the first restore is lost
// by the second. So the end of a hole depends on the clock and not on the copy alone:
// otherwise both would use the same LSNs.

const (
	// holeWidth is the least number of LSNs in a hole.
	holeWidth = 1 << 32
	// restoreRate is the number of LSNs for each millisecond of the clock. A store that
	// writes less than two million transactions a second has used none of the LSNs at which
	// a later restore goes on. Until the year 2109, the LSNs are exact as float64s, which
	// some SDKs read.
	restoreRate = 1 << 11
)

// holeEnd returns the end of the hole that a restore at the time now makes after an LSN.
func holeEnd(last int64, now time.Time) int64 {
	return max(last+holeWidth, now.UnixMilli()*restoreRate)
}

// hole is a range of LSNs that no transaction of a range of keys has, because a restore
// left them out: From < LSN <= To. The position To is valid: a read across the hole
// returns it if nothing was written since.
type hole struct {
	Min  string `json:"min"`
	Max  string `json:"max"`
	From int64  `json:"from"`
	To   int64  `json:"to"`
}

func (h hole) keys() feed.Range { return feed.Range{Min: h.Min, Max: h.Max} }

// holds reports whether a position lies in the hole.
func (h hole) holds(lsn int64) bool { return h.From < lsn && lsn < h.To }

// addHole adds a hole to holes. It extends the last one if both are neighbours with the
// same LSNs.
func addHole(holes []hole, h hole) []hole {
	if n := len(holes); n > 0 {
		if last := &holes[n-1]; last.Max == h.Min && last.From == h.From && last.To == h.To {
			last.Max = h.Max
			return holes
		}
	}
	return append(holes, h)
}

// outside returns pieces whose positions lie in no hole of their keys. A piece in a hole is
// divided at the borders of the hole's keys, and there its position moves back to the
// beginning of the hole.
//
// Without this, a read of a merged partition could return a position that lies in a hole
// of one parent, because the other parent has transactions with these LSNs.
func (m *meta) outside(pieces []piece) []piece {
	if len(m.holes) == 0 {
		return pieces
	}
	var all []piece
	for _, p := range pieces {
		if p.keys.IsEmpty() {
			all = append(all, p)
			continue
		}
		var ranges []feed.Range
		for _, h := range m.holes {
			if h.holds(p.lsn) {
				ranges = append(ranges, h.keys())
			}
		}
		cuts := borders(p.keys, ranges)
		for i := range cuts[:len(cuts)-1] {
			part := p
			part.keys = feed.Range{Min: cuts[i], Max: cuts[i+1]}
			for _, h := range m.holes {
				if h.holds(p.lsn) && h.keys().Holds(part.keys.Min) {
					part.lsn = h.From
				}
			}
			all = append(all, part)
		}
	}
	return all
}

// joined reverts what outside did to the pieces of a partition. A piece at the beginning of
// a hole may as well begin anywhere in it, so it joins a neighbour that does. One piece
// returns the changes of a partition in the order of their LSNs, and two do not.
func (m *meta) joined(pieces []piece) []piece {
	if len(m.holes) == 0 || len(pieces) < 2 {
		return pieces
	}
	top := map[*partition]int64{}
	for _, p := range pieces {
		top[p.part] = max(top[p.part], p.lsn)
	}
	var all []piece
	for _, p := range pieces {
		for _, h := range m.holes {
			if h.keys().Contains(p.keys) && h.From <= p.lsn && top[p.part] <= h.To {
				p.lsn = max(p.lsn, top[p.part])
			}
		}
		if n := len(all); n > 0 && all[n-1].part == p.part && all[n-1].lsn == p.lsn {
			all[n-1].keys.Max = p.keys.Max
			continue
		}
		all = append(all, p)
	}
	return all
}

// checkHistory returns a *feed.HistoryLostError if the log does not have the position of a
// piece: it lies after the end of its partition, or in a hole. The error's Oldest is the
// last position before that. The changes that follow it are all those that were written
// since the restore.
func (m *meta) checkHistory(pieces []piece) error {
	reason := ""
	kept := slices.Clone(pieces)
	for i := range kept {
		p := &kept[i]
		if p.keys.IsEmpty() {
			continue
		}
		if p.lsn > p.end {
			reason = fmt.Sprintf("the log of partition %s ends at LSN %d, before the position %d, as after the restore of an older copy", p.part.id, p.end, p.lsn)
			p.lsn = p.end
		}
		for _, h := range m.holes {
			if h.holds(p.lsn) && h.keys().Overlaps(p.keys) {
				reason = fmt.Sprintf("an older copy of the store was restored: the log of partition %s ended at LSN %d, before the position %d, and went on at LSN %d",
					p.part.id, h.From, p.lsn, h.To+1)
			}
		}
	}
	if reason == "" {
		return nil
	}
	return &feed.HistoryLostError{Reason: reason, Ended: true, Oldest: m.positionOf(kept).continuation()}
}

// holeFaults describes the holes that no restore makes. ends are the last LSNs of the
// partitions.
func (m *meta) holeFaults(ends []int64) (faults []string) {
	for i, h := range m.holes {
		if h.keys().IsEmpty() || h.From < 0 || h.To-h.From < holeWidth {
			faults = append(faults, fmt.Sprintf("it has the hole %+v", h))
		}
		for _, before := range m.holes[:i] {
			if before.keys().Overlaps(h.keys()) && before.To > h.From {
				faults = append(faults, fmt.Sprintf("it has the hole %+v and then %+v", before, h))
			}
		}
		for j, p := range m.partitions {
			if p.keys.Overlaps(h.keys()) && ends[j] < h.To {
				faults = append(faults, fmt.Sprintf("partition %s ends at LSN %d, below the hole %+v", p.id, ends[j], h))
			}
		}
	}
	return faults
}

// unused returns the number of LSNs above from that no transaction of the given keys has,
// because they lie in holes.
func (m *meta) unused(keys feed.Range, from int64) (n int64) {
	var holes []hole
	var ends []int64
	for _, h := range m.holes {
		if h.To > from && h.keys().Overlaps(keys) {
			holes = append(holes, h)
			ends = append(ends, max(h.From, from), h.To)
		}
	}
	slices.Sort(ends)
	for i := range max(len(ends)-1, 0) {
		// The LSNs from ends[i] to ends[i+1] are unused if the holes cover all keys there.
		next := keys.Min
		for again := true; again && next < keys.Max; {
			again = false
			for _, h := range holes {
				if h.From <= ends[i] && ends[i+1] <= h.To && h.keys().Holds(next) {
					next, again = h.Max, true
				}
			}
		}
		if next >= keys.Max {
			n += ends[i+1] - ends[i]
		}
	}
	return n
}

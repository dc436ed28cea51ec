package engine

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// The order of the log. Comparing the entries of a batch with each other took a tenth of a scan, so large batches are sorted by their
// digits: an LSN has few that differ within a container.

const (
	// digitBits is the size of a digit, and fewPlaces how many places are sorted by comparing them.
	digitBits = 11
	fewPlaces = 512
)

// logPlace is where the document of an item of a batch is in the log.
type logPlace struct {
	lsn     int64
	segment uint32
	ordinal uint16
	at      uint32 // in the batch
}

// compare orders places as they are in the log.
func (p *logPlace) compare(q *logPlace) int {
	return cmp.Or(cmp.Compare(p.segment, q.segment), cmp.Compare(p.lsn, q.lsn), cmp.Compare(p.ordinal, q.ordinal))
}

// compareKey compares a place with a key of the container's log, by all that is before the point: no two entries share it.
func (p *logPlace) compareKey(key []byte) int {
	if len(key) < logKeySize {
		return 1
	}
	k := logPlace{lsn: logLSN(key), segment: binary.BigEndian.Uint32(key[containerKeySize:]), ordinal: logOrdinal(key)}
	return p.compare(&k)
}

// sortPlaces puts places into the order of the log. It returns them, and memory for the next time: spare's, or theirs.
func sortPlaces(places, spare []logPlace) (sorted, rest []logPlace) {
	if len(places) <= fewPlaces {
		slices.SortFunc(places, func(p, q logPlace) int { return p.compare(&q) })
		return places, spare
	}
	spare = slices.Grow(spare[:0], len(places))[:len(places)]
	var lsns int64
	var segments, ordinals uint64 // the bits in which any two differ
	for i := range places {
		p := &places[i]
		lsns |= p.lsn ^ places[0].lsn
		segments |= uint64(p.segment ^ places[0].segment)
		ordinals |= uint64(p.ordinal ^ places[0].ordinal)
	}
	// From the last digit to the first, each time keeping the order that there is.
	by := func(differ uint64, number func(*logPlace) uint64) {
		for shift := 0; differ>>shift != 0; shift += digitBits {
			if differ>>shift&(1<<digitBits-1) == 0 {
				continue
			}
			var ends [1 << digitBits]int
			for i := range places {
				ends[number(&places[i])>>shift&(1<<digitBits-1)]++
			}
			sum := 0
			for d := range ends {
				sum, ends[d] = sum+ends[d], sum
			}
			for i := range places {
				d := number(&places[i]) >> shift & (1<<digitBits - 1)
				spare[ends[d]] = places[i]
				ends[d]++
			}
			places, spare = spare, places
		}
	}
	by(ordinals, func(p *logPlace) uint64 { return uint64(p.ordinal) })
	by(uint64(lsns), func(p *logPlace) uint64 { return uint64(p.lsn) }) //nolint:gosec // LSNs are positive
	by(segments, func(p *logPlace) uint64 { return uint64(p.segment) })
	return places, spare
}

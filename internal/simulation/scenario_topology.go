package simulation

import (
	"time"
)

// This file draws when partitions split and merge, beyond the few splits and merges of
// every seed.

// addChange adds a change of the partitions at a moment.
func (s *scenario) addChange(d *draw, at time.Duration, c change) {
	s.events = append(s.events, event{at: at, kind: eventChange, n: int(d.next() >> 33), d: time.Duration(c)})
}

// drawStartMoves makes several hosts start at the same time, while changes are written.
func (s *scenario) drawStartMoves(d *draw) {
	first := d.span(0, s.active/50)
	for range d.between(1, 3) {
		s.events = append(s.events, event{at: first + d.span(0, 30*time.Millisecond), kind: eventJoin, n: int(d.next() >> 33)})
	}
	for range 20 {
		s.events = append(s.events, event{at: first + d.span(0, 200*time.Millisecond), kind: eventWrite})
	}
}

// drawChains draws changes of one part of the keys in quick succession. A partition
// splits, and its child splits or merges before a host has handled the first split, or
// while it does.
func (s *scenario) drawChains(d *draw) {
	for range d.between(1, 4) {
		at := d.span(s.active/50, s.active*9/10)
		longest := []time.Duration{10 * time.Millisecond, time.Second, 2 * s.times.acquire}[d.intn(3)]
		s.addChange(d, at, changeSplit)
		for range d.between(1, 4) {
			at += d.span(time.Microsecond, longest)
			s.addChange(d, min(at, s.active*95/100), change(d.between(int(changeSplitAgain), int(changeMergeBeyond))))
		}
	}
}

// drawMergedRanges draws a merge, and later changes of the same keys. Hosts handle some
// of the changes one by one. So leases of ranges split and merge.
func (s *scenario) drawMergedRanges(d *draw) {
	at := d.span(s.active/50, s.active/4)
	s.addChange(d, at, changeMerge)
	for range d.between(3, 6) {
		at += d.span(time.Millisecond, []time.Duration{20 * time.Millisecond, 3 * s.times.acquire}[d.intn(2)])
		s.addChange(d, min(at, s.active*95/100), change(d.between(int(changeSplitAgain), int(changeMergeBeyond))))
	}
}

// drawUnattended draws a time in which no host runs. The partitions change, and then a
// host joins.
func (s *scenario) drawUnattended(d *draw) {
	from := d.span(s.active/20, s.active*6/10)
	away := d.span(s.times.expiration/4, 2*s.times.expiration)
	s.events = append(s.events, event{at: from, kind: eventAbsence, n: int(d.next() >> 33), d: away})
	// Hosts that were stopped release their leases first.
	at := from + d.span(0, away/2)
	s.addChange(d, at, changeSplit)
	for range d.between(1, 4) {
		at += d.span(0, away/8)
		s.addChange(d, at, change(d.between(int(changeMerge), int(changeMergeBeyond))))
	}
}

// drawRefusedMoves draws a start time up to 40 s after the start of the run. Until some
// time after it, hosts join and end, and partitions change. So the leases get other owners
// and children while their positions are before the start time.
func (s *scenario) drawRefusedMoves(d *draw) {
	s.startAfter = d.span(5*time.Second, 40*time.Second)
	end := float64(s.startAfter+20*time.Second) / float64(s.active)
	s.add(d, d.between(1, 3), eventJoin, 0, end)
	s.add(d, d.between(1, 3), eventLeave, 0, end)
	s.add(d, d.between(1, 3), eventSplit, 0, end)
	s.add(d, d.between(0, 2), eventMerge, 0, end)
	s.add(d, 60, eventWrite, 0, end)
	if s.faultLevel != calm {
		s.add(d, d.between(0, 2), eventCrash, 0, end)
		s.add(d, d.between(0, 2), eventCrashWrite, 0, end)
	}
}

package simulation

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// This file draws how the partitions of a run change, and changes them: splits, merges, and
// chains of them.

// change is one change of the partitions.
type change int

const (
	changeSplit change = iota
	changeMerge
	// The following changes concern the keys of the run's last split or merge that was not
	// one of them.
	changeSplitAgain
	changeMergeBack   // merges two partitions within those keys, if there are two
	changeMergeBeyond // merges a partition of those keys with the neighbour outside
)

// changePartitions makes one change of the partitions. n selects the partitions among
// those that are possible. A change that is impossible becomes a split.
func (r *run) changePartitions(ctx context.Context, c change, n int) {
	if r.world.start.Kind() == feed.StartContinuation && !r.initialised() {
		return // a continuation can start one lease only
	}
	e := r.world.engine
	parts := e.partitions()
	r.mu.Lock()
	recent := r.recent.OrFull()
	r.mu.Unlock()
	var again []int // indexes of the partitions that hold those keys
	for i, p := range parts {
		if p.Range.Overlaps(recent) {
			again = append(again, i)
		}
	}
	first, last := again[0], again[len(again)-1]
	var left []int // indexes of the partitions that may merge with their right neighbours
	switch c {
	case changeSplit, changeSplitAgain:
	case changeMerge:
		left = among(0, len(parts)-1)
	case changeMergeBack:
		left = among(first, last)
	case changeMergeBeyond:
		left = slices.DeleteFunc([]int{first - 1, last}, func(i int) bool { return i < 0 || i+1 >= len(parts) })
	}
	switch {
	case len(left) > 0 && r.mayMerge():
		i := left[n%len(left)]
		if c == changeMerge {
			recent = feed.Range{Min: parts[i].Range.Min, Max: parts[i+1].Range.Max}
		}
		r.changed(e.merge(ctx, parts[i].ID, parts[i+1].ID), recent)
	case c == changeMerge:
	case c == changeSplit:
		p := parts[n%len(parts)]
		r.split(ctx, p, n, p.Range)
	default:
		r.split(ctx, parts[again[n%len(again)]], n, recent)
	}
}

// mayMerge reports whether two partitions may merge now. Merges do not happen in four
// cases, which docs/simulation.md lists: the dialect of the leases supports none, deletes of
// leases are refused, the first start is not over, or an operator has deleted a lease that
// does not exist again.
func (r *run) mayMerge() bool {
	return r.scenario.dialect != lease.JavaHandleChanges && !r.scenario.has(refusedDeletes) && (len(r.world.everyHost()) == 0 || r.settled())
}

// settled reports whether the first start is over, and the leases cover all keys. The
// first start is over when the marker exists, all hosts that joined before it have seen
// it, no create is in progress, and no lease shadows another.
func (r *run) settled() bool {
	w := r.world
	docs := w.documents()
	leases := usable(docs)
	w.present.mu.Lock()
	creates, marked := w.present.creates, w.present.marked
	w.present.mu.Unlock()
	if _, gap := uncovered(w.keys.OrFull(), leases); gap || marked.IsZero() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started.Equal(marked) {
		return true
	}
	if creates == 0 && len(leases) == len(docs) &&
		!slices.ContainsFunc(w.everyHost(), func(h *host) bool { return h.joined.Before(marked) && h.works() && h.starting() }) {
		r.started = marked
	}
	return r.started.Equal(marked)
}

// initialised reports whether the marker exists.
func (r *run) initialised() bool {
	r.world.present.mu.Lock()
	defer r.world.present.mu.Unlock()
	return !r.world.present.marked.IsZero()
}

// among returns the numbers from first to before end.
func among(first, end int) []int {
	var all []int
	for i := first; i < end; i++ {
		all = append(all, i)
	}
	return all
}

// changed records a change of the partitions. Later changes concern the keys of a range.
func (r *run) changed(err error, keys feed.Range) {
	if err != nil {
		r.world.fails("split or merge: %v", err)
		return
	}
	r.mu.Lock()
	r.topology++
	r.recent = keys
	r.mu.Unlock()
	r.world.changesPartitions()
	r.world.trace.add("operator", "topology", strconv.Itoa(len(r.world.engine.partitions())), keys.String(), 0)
	if !slices.ContainsFunc(r.world.everyHost(), (*host).works) {
		r.world.occurs(unattendedMoves)
	}
}

// works reports whether the host's processor runs. A host that was stopped still works
// until its Run returns.
func (h *host) works() bool {
	select {
	case <-h.done:
		return false
	case <-h.dead:
		return false
	default:
		return true
	}
}

// A host's start is the time in which it lists the partitions, creates the leases and
// the marker, and acquires its first leases.
const (
	startCalls  = 14 // calls of one host
	startLength = 5 * time.Second
	startShare  = 0.15 // share of those calls at which the partitions change
	startMost   = 3    // changes in one host's start
)

// startMoves changes the partitions at some calls of a host's start, a few milliseconds
// after the call has arrived.
func (r *run) startMoves(c call) {
	h := c.host
	if time.Since(h.joined) > startLength || time.Until(r.calmAt) < startLength || c.op == opRead {
		return
	}
	n := h.count("start", "")
	d := newDraw(r.scenario.seed, uint64(n), "start move", h.id)
	if n > startCalls || !d.chance(startShare) || h.count("start move", "") > startMost {
		return
	}
	kind, pick := change(d.intn(int(changeMergeBeyond)+1)), d.intn(1<<20)
	r.world.later(h.party, fmt.Sprintf("start move %d", n), d.span(0, 8*time.Millisecond), func() {
		r.world.occurs(startMoves)
		r.changePartitions(context.Background(), kind, pick)
	})
}

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

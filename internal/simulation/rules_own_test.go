package simulation

import (
	"errors"
	"slices"

	"github.com/changefeed-go/changefeed/lease"
)

// allRules are the rules that judge the seeds of this package's tests.
var allRules = slices.Concat(rules, ownRules)

// ownRules are those for features that only these seeds have.
var ownRules = []rule{{
	name: "letters", judges: all{ends(judgeLetter), begins(judgeMailed)}, mutant: "1181-one-attempt-too-few",
	text: "A letter is about a change of the container, and a host writes it only after its handler has failed with that change, or its transaction, as often as Config.Failure.Attempts says, or because an earlier letter parks it. A host deletes a letter only when its handler has handled it.",
	exempt: []string{
		"The letter is written again, because the answer to the first write was lost.",
		"The letter was on its way when its host lost the lease.",
	},
}, {
	name: "parked", judges: all{uses(judgeParked), atRest(judgeRedriven, restHandled)}, mutant: "1270-parked-change-overtakes",
	text: "No change overtakes a letter of its key or, with ParkItem, of its item. A dead letter is not handed out until an operator redrives it, and a redriven one is handed out in the order of its key.",
	exempt: []string{
		"The letter was on its way when its host lost the lease, so that no other host may know of it.",
	},
}, {
	name: "limits", judges: all{sends(judgeLimits), atRest(judgeShort, restShort)}, mutant: "340-left-over-beyond-the-maximum",
	text: "A host acquires no more leases than Config.MaxLeases allows, and no lease stays without an owner unless every host has that many.",
	exempt: []string{
		"A .NET or Java host has replaced or deleted a lease that the host still counts as its own.",
		"A lease that the host has stolen and not used yet was deleted, so the host will not put it back.",
		"Another lease shadows the lease that the host holds.",
	},
}, {
	name: "checkpoints", judges: all{ends(judgeCheckpoints)}, mutant: "336-checkpoint-after-the-hand-over-succeeds",
	text: "Batch.Checkpoint returns nil only if the position is stored, and lease.ErrLost only if the host has lost the lease or stops.",
	exempt: []string{
		"The host's trust had ended by its wall clock, which was set back later.",
		"A .NET or Java host has replaced the lease's document.",
		"The lease's partition is gone, or its children exist already.",
		"The host has lost the lease and acquired it again since the worker began.",
	},
}, {
	name: "bounds", judges: all{applied(judgeBounds)}, mutant: "355-release-without-the-bound",
	text: "If the source refuses the start time, each stored position has that time as a bound.",
}, {
	name: "estimates", judges: all{ends(judgeEstimates)}, mutant: "34-filter-stalls-checkpoints",
	text: "The lag that an estimator measures is never less than how many transactions are unread, exact by the estimator's formula, and known at rest.",
	exempt: []string{
		"The source has lost the changes after a position that the user has not checkpointed, or refuses its start time.",
		"The estimator's page is empty and does not show how far the feed goes, so that only a lower bound is known.",
		"The lease begins at a time on a merged partition, where older changes may follow, so that only a lower bound is known.",
		"The lease store has no clock, so that the age may be too low.",
	},
}, {
	name: "readers", judges: all{begins(judgeReaderPage), begins(judgeReaderEnds)}, mutant: "379-key-of-a-reader-is-dropped",
	text: "A feed.Reader returns every change in its range in order and without gaps, also over splits and merges and after it resumes.",
}, {
	name: "discards", judges: all{begins(judgeUnmark), sends(judgeDiscard), applied(judgeDiscarded), judgeStart}, mutant: "342-discard-under-a-live-owner",
	text:   "A host with Config.DiscardLeases deletes the marker, and then every lease that existed. It deletes no lease that has a live owner.",
	exempt: []string{"A listing of the host showed the lease as expired, and the store's clock was set back since."},
}, {
	name: "time-to-live", judges: all{begins(judgePurge), begins(judgeServed), applied(judgePassed), begins(judgeExpired)},
	mutant: "381-expired-change-is-dropped-before-delivery",
	text:   "No page contains an expired item. A change that was read before its item expired is acknowledged before the position passes it. The next purge deletes an expired item, and nothing else.",
	exempt: []string{"The filter hides the change, or it was acknowledged before the lease was discarded."},
}}

func judgeCheckpoints(v *view, c *checkpoint, breach report) {
	w, h := v.workers[c.worker], v.hostOf(c.host)
	switch {
	case h.crashed:
	case c.err == nil:
		breach(w.stored < c.lsn, "the checkpoint at %d returned nil, but the stored position is %d", c.lsn, w.stored)
	case !errors.Is(c.err, lease.ErrLost) || v.called[c] >= c.lsn:
		breach(true, "the checkpoint at %d returned %v; the last that returned nil was at %d", c.lsn, c.err, v.called[c])
	default:
		breach(v.keeps(c.worker), "the checkpoint at %d returned %v, but the host holds the lease", c.lsn, c.err)
	}
}

func judgeBounds(v *view, a *application, s *sending, breach report) {
	moves := a.op != opDelete && a.doc.Continuation != s.before.Continuation
	breach(v.refuses && moves && a.doc.Properties[lease.PropertyBound] != v.start.String(), "the bound is not the start %s", v.start)
}

func judgeLimits(v *view, w *leaseWrite, breach report) {
	n := 0
	for _, t := range v.tenures {
		// A host does not put back a lease that it has stolen and not used yet.
		_, stored := v.docs[t.lease.Token]
		counts := t.host == w.host && t.lease.Token != w.lease.Token && (stored || t.previousWrite < 0)
		if counts && v.holds(t) && !v.overwritten(t) && !v.shadowed(t.lease) {
			n++
		}
	}
	breach(v.sent[w].acquires && w.host.settings.isFull(n), "the host holds %d other leases", n)
}

func judgeShort(v *view, _ *rest, breach report) {
	have := map[*host]int{} // the leases without a live owner are those of nil
	for _, l := range v.usable() {
		h := v.ownerOf(l)
		if v.age(l) >= v.times.takeover() {
			h = nil
		}
		have[h]++
	}
	for _, h := range v.alive() {
		breach(have[nil] > 0 && !h.settings.isFull(have[h]), "%s owns %d leases, but %d leases have no owner", h.id, have[h], have[nil])
	}
}

package simulation

import (
	"fmt"
	"slices"
	"time"
)

// rule is one guarantee of the processor that every run is judged by.
//
// A rule is a pure function of the ledger up to an entry: it gets the view before that
// entry, and reports what is wrong with it. It has no state, and no rule knows of another.
// Where even a correct host cannot keep a guarantee, the ledger contains a fact that says
// why, and the rule asks for it. exempt lists these facts.
type rule struct {
	name   string
	text   string   // one sentence, in the words of docs/guarantees.md
	exempt []string // the facts that exempt
	judges all
	mutant string // the planted bug that proves the rule
}

type (
	all []judge
	// judge judges an entry. It ignores facts of other kinds than its own.
	judge func(v *view, e entry, breach report)
	// report reports a breach if something is wrong. The message begins with the fact.
	report func(wrong bool, format string, args ...any)
)

// on judges the facts of one kind when they begin, or when they end.
func on[F any](end bool, judge func(v *view, fact F, breach report)) judge {
	return func(v *view, e entry, breach report) {
		if f, ok := e.fact.(F); ok && e.ends == end {
			judge(v, f, breach)
		}
	}
}

func begins[F any](judge func(v *view, fact F, breach report)) judge { return on(false, judge) }

func ends[F any](judge func(v *view, fact F, breach report)) judge { return on(true, judge) }

// sends judges the writes that our hosts send, and applied those that the store applies.
func sends(judge func(v *view, w *leaseWrite, breach report)) judge {
	return begins(func(v *view, w *leaseWrite, breach report) {
		if w.ours() && !v.hostOf(w.host).crashed {
			judge(v, w, breach)
		}
	})
}

func applied(judge func(v *view, a *application, s *sending, breach report)) judge {
	return begins(func(v *view, a *application, breach report) {
		if a.ours() {
			judge(v, a, v.sent[a.leaseWrite], breach)
		}
	})
}

// uses judges the uses of leases by hosts that have not crashed, with the host's tenure.
func uses(judge func(v *view, u *use, t *tenure, breach report)) judge {
	return begins(func(v *view, u *use, breach report) {
		if !v.hostOf(u.host).crashed {
			judge(v, u, v.tenures[u.key()], breach)
		}
	})
}

// atRest judges what is observed at rest, of some kinds.
func atRest(judge func(v *view, r *rest, breach report), kinds ...string) judge {
	return begins(func(v *view, r *rest, breach report) {
		if slices.Contains(kinds, r.what) {
			judge(v, r, breach)
		}
	})
}

// String returns what the messages of rules begin with: who does what with which lease.
func (w *worker) String() string { return w.host.id + ": the worker of lease " + w.lease.Token }

func (u *use) String() string {
	return fmt.Sprintf("%s: a %s of lease %s (%s)", u.host.id, u.what, u.token, u.keys)
}

func (r *read) String() string {
	return fmt.Sprintf("%s: the read of lease %s from %s", r.host.id, r.token, r.req.From)
}

func (r *rest) String() string { return "at rest, " + r.what }

func (w *leaseWrite) String() string {
	l := w.lease
	return fmt.Sprintf("%s: the %s of lease %s to %q of %q, with %v", w.host.id, w.op, l.Token, l.Continuation, l.Owner, l.Properties)
}

// rules is the table of the rules that judge every run. The tests of this package have more
// rules, for features that only their seeds have.
var rules = []rule{{
	name: "exclusive-use", judges: all{uses(judgeExclusiveUse)}, mutant: "14-healing-at-once",
	text: "Two hosts never use overlapping key ranges at the same time, and no host begins to use keys while another host trusts a lease for them.",
	exempt: []string{
		"The use's context has ended. User code may continue after that, but an answer is ignored.",
		"The host that trusts a lease does not use it, and its partition is gone.",
		"A .NET or Java host uses one of the leases.",
		"A .NET or Java host has replaced or deleted the lease since the version that our host knows.",
		"The store's clock has jumped, so another host could acquire or discard the lease while its owner trusted it.",
		"The use is a read, and its host has been suspended since it began, or trust has ended and its host has been suspended since it renewed the lease, so that its timer is late. The host ignores the answer.",
		"The processor called the user's code while the host trusted its lease, and the host was suspended or its wall clock set back before that code began.",
		"An operator has deleted a lease for these keys in a first start, during a create, or before another deleted one was mended. This and the next four facts exempt for twice the expiration and four acquire intervals.",
		"A host in its first start has created a lease for these keys that an operator had deleted.",
		"A host has put back a lease for these keys that a .NET or Java host had replaced or deleted, or that another host had acquired after the store's clock jumped.",
		"A lease for these keys was created late, after its host had given up and the partition was gone.",
		"A .NET or Java host has created a child for these keys late, or above other leases, or has deleted a lease for them that was not gone.",
		"Two leases for these keys overlap in part, and a .NET or Java host, or an operator, has created one.",
	},
}, {
	name: "nothing-skipped", judges: all{begins(judgePosition), begins(judgeNothingSkipped), begins(judgeSkip), ends(judgeDropped)}, mutant: "31-checkpoint-before-delivery",
	text: "Every change up to a lease's position has been acknowledged by a handler.",
	exempt: []string{
		"The change feed does not contain the change any more, because a later version has replaced it or its item has expired.",
		"The source has dropped the change, and Config.OnHistoryLost has allowed to skip it.",
		"In all versions and deletes mode with a start from now, the change is older than a lease that has replaced a lost one. The lost one was deleted by an operator or by a .NET or Java host before its partition was gone, or the marker was created late, without it.",
		"The filter hides the change, or it is older than a start time that the source refuses, or that Java's leases hold beside their positions.",
		"Another lease shadows the lease, so that no host uses its position.",
	},
}, {
	name: "everything-delivered", judges: all{atRest(judgeEverythingDelivered, restHandled, restParents)}, mutant: "32-failed-batch-is-done",
	text: "Every change that is written after the first start is handled before the run ends.",
	exempt: []string{
		"The same facts exempt as for nothing-skipped.",
		"The user's checkpoint was called while the handler ran, which failed later.",
		"Deletes are refused, and the parent of the change's lease still exists.",
	},
}, {
	name: "order", judges: all{uses(judgeOrder), begins(judgeOpened), ends(judgeClosed)}, mutant: "19-release-under-the-handler",
	text: "A worker receives the changes that follow its position, in order, without gaps, and with whole transactions, but after a failure only the changes that failed.",
	exempt: []string{
		"A missing change is one that the change feed does not contain any more, that the filter hides, or that is older than the start time.",
		"On a merged partition, the first page after a start time may also contain older changes.",
	},
}, {
	name: "forward", judges: all{applied(judgeForward)}, mutant: "335-older-checkpoint-moves-the-position-back",
	text: "Our hosts never move a lease's position back.",
	exempt: []string{
		"The lease had no position yet, but a start time, whose LSN grows with each change until it is reached.",
		"The owner puts the lease back after a delete by hand, but may not know the last position, because the answer was lost.",
	},
}, {
	name: "owners", judges: all{sends(judgePutBack), applied(judgeOwners)}, mutant: "20-want-without-condition",
	text: "A host that does not own a lease changes nothing in it, except to acquire the lease when it is free or expired, or to write that it wants it. The owner changes nothing but the position, and whether the lease is stopped.",
	exempt: []string{
		"A listing of the host showed the lease as expired, and the store's clock was set back since.",
		"The owner is a .NET or Java host, from which our hosts steal.",
		"A host discards the leases, or it deletes a free lease, or it writes a free child of its gone lease with the child's own position.",
		"A host that acquires a lease, or writes that it wants it, adds the bound for a start time that the source refuses.",
	},
}, {
	name: "trust", judges: all{uses(judgeTrust), sends(judgeSending)}, mutant: "02-trust-from-the-answer",
	text: "A host uses a lease, releases it, or replaces it only while it trusts the lease, and stops using it before it sends the release or the delete.",
	exempt: []string{
		"The processor called the user's code while the host trusted its lease, and the host was suspended or its wall clock set back before that code began.",
		"The lease still names the host as its owner, but has expired, and the host deletes it as a leftover.",
		"The write is the first one after a conflict that told the host that its acquire had been applied, and may be late.",
		"The release or delete was sent while the host trusted the lease, and is repeated until it is answered.",
	},
}, {
	name: "hand-over", judges: all{uses(judgeHandOver)}, mutant: "36-new-batch-though-wanted",
	text: "A host hands out no new batch after it has seen that another host wants its lease.",
	exempt: []string{
		"The batch has failed before, so it is not a new one.",
		"The changes of each key have an order of their own, and the batch has changes of a page from which others were handed out before, or the filter may have hidden these.",
	},
}, {
	name: "children", judges: all{sends(judgeChild), applied(judgeChildren)}, mutant: "11-delete-before-all-children",
	text: "A lease whose partition is gone is deleted only when its children exist. A host that trusts the lease creates them at its position, with its start, its bound and its stop.",
	exempt: []string{
		"A .NET or Java host has replaced the parent's document, which is not the one that the host knows.",
		"The host owns no lease around the new one, so that this is no child: it creates what has no lease.",
		"The marker does not exist yet, so the first leases are created.",
		"The lease is for a range rather than a partition. When several partitions lie in it, its host cuts it into children.",
	},
}, {
	name: "shadowed-leases", judges: all{applied(judgeShadowedLeases), atRest(judgeShadowedAtRest, restParents)}, mutant: "10-child-beside-its-ancestor",
	text:   "A host does not acquire a lease if its listings show one of the lease's ancestors.",
	exempt: []string{"One of the last eight listings showed the lease without an ancestor, since a cycle may act on its listing while a worker receives others."},
}, {
	name: "one-write", judges: all{sends(judgeOneWrite)}, mutant: "460-slow-write-is-repeated",
	text: "A host never has two writes of one of its leases in progress.",
	exempt: []string{
		"The write replaces a gone lease, or creates one without an owner, for which the host need not own the lease.",
	},
}, {
	name: "moves", judges: all{applied(judgeMoves), atRest(judgePlanned, restPlanned)}, mutant: "33-release-without-position",
	text: "A planned move redelivers nothing, and an expired lease is acquired within a fixed time.",
	exempt: []string{
		"No host has run since the owner's last write and may acquire any number of leases.",
		"There were faults, foreign hosts or manual checkpoints, so that a move may redeliver. With faults other than crashes, or foreign hosts, an acquire may also take longer.",
	},
}, {
	name: "prompt-reads", judges: all{begins(judgePromptReads)}, mutant: "371-empty-page-is-the-end",
	text:   "After a page that more changes may follow, a worker sends the next read at once.",
	exempt: []string{"The host is configured to read less ahead, so the next read waits for the handler."},
}, {
	name: "drain", judges: all{begins(judgeDrain)}, mutant: "332-drain-without-limit",
	text: "A handler's context ends when a stop's drain timeout is over, and at no other time while the host keeps the lease.",
	exempt: []string{
		"One of the host's clocks has fallen behind since the stop, so the host counts the timeout longer.",
		"The facts that exempt for checkpoints from keeping the lease.",
	},
}, {
	name: "coverage", judges: all{applied(judgeFeedRange), atRest(judgeCoverage, restCovered, restRead, restParents)},
	mutant: "351-a-split-has-three-children-at-most",
	text:   "At rest the leases cover all keys without overlap, none of them is gone, and a live host owns and reads each of them.",
	exempt: []string{"A .NET or Java host, or an operator, has created a lease for these keys that overlaps another one in part."},
}, {
	name: "balance", judges: all{atRest(judgeStable, restStable), atRest(judgeBalance, restBalanced)}, mutant: "356-ten-hosts-at-most",
	text: "At rest no lease gets another owner, and every host owns its share of the leases.",
}, {
	name: "cost", judges: all{atRest(judgeCost, restCost)}, mutant: "461-renewals-come-twice-as-often",
	text: "At rest a checkpoint and a renewal cost one write each, a host lists the leases once per acquire interval, and there is no other request to the lease store.",
}, {
	name: "end", judges: all{begins(judgeFailure), begins(judgeReturned), atRest(judgeFree, restFree)}, mutant: "462-stop-releases-nothing",
	text: "Run returns nil when the host is stopped, and at no other time. Then no lease has an owner.",
	exempt: []string{
		"The host was stopped before it had listed the leases once, so Run may say so.",
		"User code outlasts the stop because it ignores its context, so Run names its lease.",
		"Another lease shadows the lease that keeps its owner.",
		"A discard was refused, so Run says why.",
	},
}, {
	name: "stops", judges: all{uses(judgeStopped), sends(judgeStopKept)}, mutant: "1060-stop-is-not-stored",
	text: "After the handler has stopped a lease, no host hands out any of its changes until an operator resumes it. The owner's writes store the stop.",
}}

// violation is the breach of a rule.
type violation struct {
	rule string
	at   time.Duration
	text string
}

func (v violation) String() string {
	return fmt.Sprintf("rule %s at %.6f s: %s", v.rule, v.at.Seconds(), v.text)
}

// judge judges a run by the rules of its plan. It returns the first breaches, and the view of the end.
func (w *world) judge() (found []violation, v *view) {
	const most = 20
	v = newView(w)
	reports := make([]report, len(w.rules))
	for i, r := range w.rules {
		reports[i] = func(wrong bool, format string, args ...any) {
			if wrong && len(found) < most {
				text := fmt.Sprintf("%v: "+format, append([]any{v.entries[v.n].fact}, args...)...)
				found = append(found, violation{r.name, v.now, text})
			}
		}
	}
	for v.advance() {
		for i, r := range w.rules {
			for _, judge := range r.judges {
				judge(v, v.entries[v.n], reports[i])
			}
		}
		v.step()
	}
	return found, v
}

package simulation

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/lease"
)

// This file records facts in the ledger. It also keeps what the simulation itself must know
// while it runs, such as the present documents in the lease store.

// present is the present state of the containers.
type present struct {
	mu      sync.Mutex // guards the fields below
	changes *journal   // of the monitored container, without the state of delivery
	leases  map[string]storedLease
	moved   map[string]chan struct{} // closed when a lease gets another owner, by token
	creates int                      // number of creates that are in progress
	marked  time.Time                // when the marker was created; zero if it does not exist
	uses    []openUse
}

// storedLease is a lease document with the time of its last write.
type storedLease struct {
	lease.Lease
	at time.Time
}

// openUse is a use that has not ended, with its context.
type openUse struct {
	*use
	ctx context.Context //nolint:containedctx // only its end is observed
}

func newPresent(c worldConfig) *present {
	return &present{changes: newJournal(c), leases: map[string]storedLease{}, moved: map[string]chan struct{}{}}
}

// since returns the time since the start of the run.
func (w *world) since() time.Duration { return time.Since(w.ledger.origin) }

// fails records the failure of an operation that must not fail.
func (w *world) fails(format string, args ...any) { w.ledger.add(newFailure(format, args...)) }

// commits records a transaction.
func (w *world) commits(c *commit) {
	w.present.mu.Lock()
	w.present.changes.wrote(c)
	w.present.mu.Unlock()
	w.ledger.add(c)
}

// changesPartitions records the live partitions.
func (w *world) changesPartitions() { w.ledger.add(&topology{w.engine.partitions()}) }

// begins records that a use of a lease begins.
func (w *world) begins(ctx context.Context, u *use) *use {
	w.cuts()
	w.ledger.add(u)
	w.present.mu.Lock()
	defer w.present.mu.Unlock()
	w.present.uses = append(w.present.uses, openUse{u, ctx})
	return u
}

// cuts records which uses have lost their context. It is called before facts that rules
// compare with the uses.
func (w *world) cuts() {
	w.present.mu.Lock()
	defer w.present.mu.Unlock()
	w.present.uses = slices.DeleteFunc(w.present.uses, func(u openUse) bool {
		if u.ctx.Err() == nil {
			return false
		}
		w.ledger.add(&cut{u.use})
		return true
	})
}

// ends records that a use has ended. It ignores nil.
func (w *world) ends(u *use) {
	if u == nil {
		return
	}
	w.present.mu.Lock()
	w.present.uses = slices.DeleteFunc(w.present.uses, func(o openUse) bool { return o.use == u })
	w.present.mu.Unlock()
	w.ledger.end(u, nil)
}

// sends records that a write of a lease leaves its host.
func (w *world) sends(h *host, op string, l lease.Lease) *leaseWrite {
	w.cuts()
	if op == opCreate {
		w.inProgress(op, 1)
	}
	write := &leaseWrite{host: h, op: op, lease: l}
	w.ledger.add(write)
	return write
}

// inProgress adds n to the number of creates in progress, if op is a create.
func (w *world) inProgress(op string, n int) {
	if op == opCreate {
		w.present.mu.Lock()
		w.present.creates += n
		w.present.mu.Unlock()
	}
}

// answers records that the host receives the answer to a write, or gives up waiting for it.
func (w *world) answers(write *leaseWrite, answer lease.Lease, err error) {
	w.inProgress(write.op, -1)
	w.ledger.end(write, func() { write.answer, write.err = answer, err })
}

// applies records that the lease store applies a write.
func (w *world) applies(write *leaseWrite, doc lease.Lease) {
	token := write.lease.Token
	if write.host != nil && !write.host.foreign {
		write.host.learn(doc)
	}
	w.present.mu.Lock()
	before := w.present.leases[token]
	if write.op == opDelete {
		delete(w.present.leases, token)
	} else {
		w.present.leases[token] = storedLease{doc, time.Now()}
	}
	if moved := w.present.moved[token]; moved != nil && doc.Owner != "" && doc.Owner != before.Owner {
		close(moved)
		delete(w.present.moved, token)
	}
	w.present.mu.Unlock()
	w.ledger.add(&application{leaseWrite: write, doc: doc})
}

// operates records that an operator or another tool has written a lease. doc is the document
// after the write.
func (w *world) operates(op string, l, doc lease.Lease) {
	write := &leaseWrite{op: op, lease: l}
	w.ledger.add(write)
	w.applies(write, doc)
	w.ledger.end(write, nil)
}

// marks records that the marker was created or deleted.
func (w *world) marks(m *mark) {
	w.present.mu.Lock()
	switch {
	case !m.exists:
		w.present.marked = time.Time{}
	case w.present.marked.IsZero():
		w.present.marked = time.Now()
	}
	w.present.mu.Unlock()
	w.ledger.add(&markApplied{m, w.engine.counters()})
}

// rests records an observation at rest.
func (w *world) rests(what string, since time.Time) {
	w.cuts()
	w.ledger.add(&rest{what: what, since: since.Sub(w.ledger.origin)})
}

// documents returns the lease documents in the store, sorted by token.
func (w *world) documents() []lease.Lease {
	w.present.mu.Lock()
	defer w.present.mu.Unlock()
	var all []lease.Lease
	for _, l := range w.present.leases {
		all = append(all, l.Lease)
	}
	slices.SortFunc(all, func(a, b lease.Lease) int { return strings.Compare(a.Token, b.Token) })
	return all
}

// usable returns the leases that no other lease shadows.
func usable(leases []lease.Lease) []lease.Lease {
	return slices.DeleteFunc(slices.Clone(leases), func(l lease.Lease) bool {
		return slices.ContainsFunc(leases, func(a lease.Lease) bool { return ancestor(a, l) })
	})
}

// stored returns a lease document with the time of its last write.
func (w *world) stored(token string) storedLease {
	w.present.mu.Lock()
	defer w.present.mu.Unlock()
	return w.present.leases[token]
}

// moves returns a channel that is closed when a lease next gets another owner.
func (w *world) moves(token string) <-chan struct{} {
	w.present.mu.Lock()
	defer w.present.mu.Unlock()
	if w.present.moved[token] == nil {
		w.present.moved[token] = make(chan struct{})
	}
	return w.present.moved[token]
}

// exists reports whether an item exists and has not expired.
func (w *world) exists(i itemWrite) bool {
	w.present.mu.Lock()
	defer w.present.mu.Unlock()
	return w.present.changes.exists(i)
}

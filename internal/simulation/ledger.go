package simulation

import (
	"fmt"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/letters"
)

// ledger is the record of a run: what was observed, in the order in which it was observed.
// It has no opinion and stores nothing that follows from other facts. What follows is
// computed by a [view], and whether it is right is judged by the table of rules.
//
// Entries are only appended. A fact that lasts has two entries, one for its begin and one
// for its end. Fields that describe the end of a fact are set with its second entry, so a
// reader must not use them before.
type ledger struct {
	origin time.Time
	clock  func() time.Time // the service's

	mu      sync.Mutex // guards the field below, and the facts in it while the run lasts
	entries []entry
}

// entry is the begin or the end of a fact. A fact of one moment has one entry.
type entry struct {
	at    time.Duration // since the start of the run
	store time.Time     // by the service's clock
	fact  any
	ends  bool
}

// add appends the begin of a fact, or a fact of one moment.
func (l *ledger) add(fact any) {
	now := l.clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, entry{at: time.Since(l.origin), store: now, fact: fact})
}

// end appends the end of a fact, whose last fields set sets. set may be nil.
func (l *ledger) end(fact any, set func()) {
	now := l.clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if set != nil {
		set()
	}
	l.entries = append(l.entries, entry{at: time.Since(l.origin), store: now, fact: fact, ends: true})
}

// These are the facts of the monitored container.
type (
	// commit is a transaction. purge reports whether the store itself wrote it, to delete
	// an expired item.
	commit struct {
		lsn    int64
		at     time.Time // its _ts
		epk    string
		writes []itemWrite
		purge  bool
	}
	// topology is the list of live partitions, at the start and after a split or a merge.
	topology struct{ live []feed.Partition }
)

// These are the facts of hosts. Those of pauses and suspensions last.
type (
	join     struct{ host *host }
	crash    struct{ host *host }
	leave    struct{ host *host }
	pause    struct{ host *host }
	suspend  struct{ host *host }
	returned struct {
		host   *host
		err    error
		waited bool // a handler waited for a checkpoint and ignored its context
	}
	// wallStep is a step of a host's wall clock, and storeStep one of the service's clock.
	wallStep struct {
		host *host
		by   time.Duration
	}
	storeStep struct{ by time.Duration }
)

// These are the facts of the lease store.
type (
	// listing lasts from a host's request for the leases to the answer.
	listing struct {
		host *host
		got  lease.Listing
		err  error
	}
	// leaseWrite lasts from the moment at which a host sends a write of a lease until it
	// gets the answer or gives up. An operator's write has no host.
	leaseWrite struct {
		host   *host
		op     string
		lease  lease.Lease
		answer lease.Lease
		err    error
	}
	// application is the moment at which the store applies a write.
	application struct {
		*leaseWrite
		doc lease.Lease // the document after the write; zero after a delete
	}
	// straggler is a write that is on its way though its host has given up. It lasts until
	// the write arrives.
	straggler struct{ op string }
	// mark is a write of the marker, as leaseWrite is one of a lease.
	mark struct {
		host   *host
		exists bool
		err    error
	}
	markApplied struct {
		*mark
		counters []counter // of the monitored container
	}
	// lists is the moment at which a host lists the partitions.
	lists struct{ host *host }
)

// These are the facts of reads.
type (
	// read lasts from a worker's request for a page to the answer.
	read struct {
		host   *host
		token  string
		req    feed.Request
		answer feed.Page
		err    error
	}
	// served is the moment at which the source serves a read of a worker.
	served struct {
		*read
		page feed.Page
	}
	// skip is the decision to skip the changes that the source has dropped.
	skip struct {
		host   *host
		token  string
		oldest feed.Continuation
	}
)

// These are the facts of the user's code.
type (
	// worker is one run of one lease on one host. It is made when the processor creates
	// the observer, and it lasts until Close.
	worker struct {
		host  *host
		lease lease.Lease
		run   int
	}
	// use lasts while a worker uses its lease: reads, opens its observer, or handles a
	// batch. Foreign hosts handle pages.
	use struct {
		host  *host
		token string
		keys  feed.Range
		what  string
		batch *batch        // nil if no batch is handled
		asked time.Duration // when the processor asked for it; a frozen host begins it later
	}
	// cut is the end of the context of a use that still lasts.
	cut struct{ *use }
	// opened is the moment at which an observer has been opened, for the lease with token.
	opened struct {
		*worker
		token string
	}
	// batch lasts from the moment at which the processor hands a batch out until the
	// handler has returned. A host that is frozen in between handles it only later.
	batch struct {
		*worker
		changes []feed.Change
		epk     string // of the one key of all changes, if several calls are made at a time
		mixed   bool   // there are changes of other keys
		err     error  // of the handler, or of the host
	}
	// letter lasts from the moment at which a host sends the letter of a change until it is
	// stored. token is that of its lease. exists reports whether there was one before, which
	// stays as it is.
	letter struct {
		host   *host
		token  string
		mail   mail
		exists bool
	}
	// mail is a change as a letter: its key, its name and its state.
	mail struct {
		epk   string
		name  changeName
		state letters.State
	}
	// lettersRead is the moment at which a host's read of letters is served.
	lettersRead struct {
		host *host
		keys feed.Range
	}
	// mailed is the moment at which a letter is updated or deleted, by a host or, without one, by
	// an operator.
	mailed struct {
		host    *host
		token   string
		mail    mail
		deleted bool
	}
	// wait is the moment at which a handler has waited for its context or its work.
	wait struct {
		*worker
		ended bool // the context has ended, with a cause
		cause error
	}
	// verdict says what the user's code has done with the changes of batches: handled
	// them, acknowledged them, or called the checkpoint while their handler ran.
	verdict struct {
		*worker
		batches []*batch
		delivery
	}
	// checkpoint lasts while the user's code calls Batch.Checkpoint.
	checkpoint struct {
		*worker
		lsn int64
		err error
	}
)

// These are the facts of the end of a run, when there are no faults any more.
type (
	// rest is an observation at rest, which a rule judges. since is when the observation
	// began.
	rest struct {
		what  string
		since time.Duration
	}
	// count is the begin of the time in which requests are counted.
	count struct{}
)

// These constants are what a rest observes, each by one rule.
const (
	restCovered  = "covered"
	restRead     = "read since"
	restStable   = "stable since"
	restBalanced = "balanced"
	restShort    = "short of hosts"
	restParents  = "parents stay"
	restCost     = "cost"
	restHandled  = "handled"
	restPlanned  = "only planned moves"
	restFree     = "free"
)

// These constants are the kinds of uses.
const (
	useRead  = "read"
	useOpen  = "open"
	useBatch = "batch"
	usePage  = "page" // by a foreign host
)

// failure is an error of an operation that must not fail, such as a write of the run.
type failure struct{ text string }

func newFailure(format string, args ...any) *failure { return &failure{fmt.Sprintf(format, args...)} }

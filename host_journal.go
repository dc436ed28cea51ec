package changefeed

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// journal keeps the log short: one cause makes one line. Without it, an outage of the
// source or of the lease store would write a line for each lease and each attempt. It logs
// the beginning of an outage, a line with counts once a minute, and the end. Notify and the
// metrics still get every failure.
//
// An outage begins when a request fails. It is over once every lease whose request failed
// has had one that succeeded. The line that says so waits until the last failure is a while
// ago, because leases notice the end of an outage one after the other, and the last ones may
// still fail.
//
// If an outage of the lease store lasts longer than the leases, they are lost and acquired
// again, or go to other hosts. The lines about the outage count them.
type journal struct {
	// failing is the number of outages. It makes a success without an outage cheap.
	failing atomic.Int32

	mu      sync.Mutex // guards the fields below
	outages [2]*outage
	// reported contains, by its text, when a problem that is no outage was last logged.
	reported map[string]time.Duration
	// wanted contains, by the lease's ID, the owner from whom the host wants it.
	wanted map[string]string
}

// party is what an outage concerns. It is an index of journal.outages.
type party int

const (
	atSource party = iota
	atLeases
)

func (p party) String() string {
	if p == atLeases {
		return "lease store"
	}
	return "source"
}

type outage struct {
	began, failed, logged time.Duration
	// healed is when the last lease was served again, or zero while leases are not.
	healed   time.Duration
	failures int
	// leases are those whose last request failed. The token "" stands for the requests
	// that concern no lease, which any success ends.
	leases map[string]bool
	// lost are those that the host lost in the outage and has not acquired again. losses
	// counts all that it lost, and regained those that it acquired again.
	lost             map[string]bool
	losses, regained int
	// throttled reports whether all failures were throttling, which is logged at the level
	// debug while it is short.
	throttled bool
}

const (
	// outageInterval is the time between two lines about an outage that lasts.
	outageInterval = time.Minute
	// outageSettled is the time since the last failure after which the end of an outage is
	// logged, and the time that lost leases have to be acquired again before.
	outageSettled = 15 * time.Second
)

// partyOf returns what an error concerns. ok is false if it is neither of the two.
func partyOf(err error) (p party, ok bool) {
	if _, is := errors.AsType[*SourceError](err); is {
		return atSource, true
	}
	_, is := errors.AsType[*LeaseStoreError](err)
	return atLeases, is
}

// failed logs a failed request, or a failed call of the handler, that is retried.
func (j *journal) failed(log *slog.Logger, now time.Duration, token string, err error) {
	p, ok := partyOf(err)
	if !ok {
		message := "problem found"
		if _, is := errors.AsType[*HandlerError](err); is {
			message = "handler failed; retrying"
		}
		j.report(log, now, message, err)
		return
	}
	_, throttled := errors.AsType[*feed.ThrottledError](err)
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.outages[p]
	first := o == nil
	if first {
		o = &outage{began: now, logged: now, leases: map[string]bool{}, lost: map[string]bool{}, throttled: true}
		j.outages[p] = o
		j.failing.Add(1)
	}
	o.failed, o.healed, o.leases[token] = now, 0, true
	o.failures++
	switch {
	case o.throttled && !throttled: // an outage begins within throttling
		o.throttled, o.logged = false, now
		log.Warn("requests to the "+p.String()+" fail; retrying", "error", err)
	case now-o.logged >= outageInterval:
		message := " still fail; retrying"
		if o.throttled { // nothing was logged yet
			message = " fail; retrying"
		}
		o.throttled, o.logged = false, now
		o.log(log).Warn("requests to the "+p.String()+message, "for", (now - o.began).Round(time.Second), "leases", o.concerned(), "error", err)
	default:
		log.Debug("request to the "+p.String()+" failed; retrying", "error", err)
	}
}

// worked records that a request to p succeeded. token names its lease, or is empty.
func (j *journal) worked(log *slog.Logger, now time.Duration, p party, token string) {
	if j.failing.Load() == 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.outages[p]
	if o == nil {
		return
	}
	delete(o.leases, "")
	if delete(o.leases, token); len(o.leases) > 0 {
		return
	}
	if o.healed == 0 {
		o.healed = now
	}
	if now-o.failed < outageSettled || len(o.lost) > 0 && now-o.healed < outageSettled {
		return
	}
	j.outages[p] = nil
	j.failing.Add(-1)
	write := o.log(log).Info
	if o.throttled {
		write = log.Debug
	}
	write("requests to the "+p.String()+" succeed again", "after", (o.healed - o.began).Round(time.Second))
}

// concerned returns the number of leases whose last request failed or that the host lost in
// the outage and has not acquired again.
func (o *outage) concerned() int {
	n := len(o.lost)
	for token := range o.leases {
		if token != "" && !o.lost[token] {
			n++
		}
	}
	return n
}

// log adds the counts of an outage to a logger.
func (o *outage) log(log *slog.Logger) *slog.Logger {
	log = log.With("failures", o.failures)
	if o.losses > 0 {
		log = log.With("lost", o.losses, "regained", o.regained)
	}
	return log
}

// lost records that a lease was lost, and reports whether an outage is the reason.
func (j *journal) lost(token string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.outages[atLeases]
	if o == nil || o.throttled {
		return false
	}
	o.lost[token] = true
	o.losses++
	return true
}

// regains records that a lease was acquired, and reports whether it is one that was lost
// in the outage.
func (j *journal) regains(token string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.outages[atLeases]
	if o == nil || !o.lost[token] {
		return false
	}
	delete(o.lost, token)
	o.regained++
	return true
}

// forget removes a lease from the outages, because the host no longer has it.
func (j *journal) forget(token string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, o := range j.outages {
		if o != nil {
			delete(o.leases, token)
		}
	}
}

// report logs a problem that is no outage, once a minute while it lasts.
func (j *journal) report(log *slog.Logger, now time.Duration, message string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	text := err.Error()
	if last, known := j.reported[text]; known && now-last < outageInterval {
		log.Debug(message, "error", err)
		return
	}
	if j.reported == nil || len(j.reported) > 1000 {
		j.reported = map[string]time.Duration{}
	}
	j.reported[text] = now
	log.Warn(message, "error", err)
}

// wants records that the host wants a lease of its owner.
func (j *journal) wants(l lease.Lease) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.wanted == nil {
		j.wanted = map[string]string{}
	}
	j.wanted[l.ID] = l.Owner
}

// takes returns how a lease came to this host, and from whom. l is the lease before that.
func (j *journal) takes(l lease.Lease, me string, stolen bool) takeover {
	j.mu.Lock()
	defer j.mu.Unlock()
	owner := j.wanted[l.ID]
	delete(j.wanted, l.ID)
	switch {
	case stolen:
		return takeover{"stolen", protocol.Instance(l.Owner)}
	case l.Owner != "":
		return takeover{"expired", protocol.Instance(l.Owner)}
	case l.Wanted() == me:
		return takeover{"handed over", protocol.Instance(owner)}
	}
	return takeover{"free", ""}
}

// takeover is the state of a lease before the host acquired it, and its owner at that time.
type takeover struct{ was, from string }

// log adds it to a logger.
func (o takeover) log(log *slog.Logger) *slog.Logger {
	if o.was != "" {
		log = log.With("was", o.was)
	}
	if o.from != "" {
		log = log.With("from", o.from)
	}
	return log
}

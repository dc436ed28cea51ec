package changefeed

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/outage"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// journal keeps the log short: one cause makes one line. Without it, an outage of the
// source or of the lease store would write a line for each lease and each attempt. Notify
// and the metrics still get every failure.
//
// If an outage of the lease store lasts longer than the leases, they are lost and acquired
// again, or go to other hosts. The lines about the outage count them.
type journal struct {
	outages [2]outage.Log

	mu sync.Mutex // guards the fields below
	// reported contains, by its text, when a problem that is no outage was last logged.
	reported map[string]time.Duration
	// wanted contains, by the lease's ID, the owner from whom the host wants it.
	wanted map[string]string
}

func newJournal() *journal {
	return &journal{outages: [...]outage.Log{
		atSource: {Subject: "requests to the source", Members: "leases"},
		atLeases: {Subject: "requests to the lease store", Members: "leases"},
	}}
}

// party is what an outage concerns. It is an index of journal.outages.
type party int

const (
	atSource party = iota
	atLeases
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
	j.outages[p].Failed(log, now, token, err, throttled)
}

// forget removes a lease from the outages, because the host no longer has it.
func (j *journal) forget(token string) {
	for p := range j.outages {
		j.outages[p].Forget(token)
	}
}

// report logs a problem that is no outage, once a minute while it lasts.
func (j *journal) report(log *slog.Logger, now time.Duration, message string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	text := err.Error()
	if last, known := j.reported[text]; known && now-last < outage.Interval {
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

// Package outage keeps logs short: one outage makes one line when it begins, one with
// counts each minute while it lasts, and one when it ends.
//
// It knows no types of the other packages. Times are counted from any fixed moment.
package outage

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Log logs the outages of one thing to which several members send requests. For the
// processor a member is a lease. A Log is safe for concurrent use.
//
// An outage begins when a request fails. It is over once every member whose request failed
// has had one that succeeded. The line that says so waits until the last failure is a while
// ago, because members notice the end of an outage one after the other, and the last ones
// may still fail.
//
// If an outage lasts so long that members are lost, they are not logged one by one. The
// lines about the outage count them.
type Log struct {
	// Subject begins each line, for instance "requests to the source".
	Subject string
	// Members is the attribute with the number of members in a line, for instance "leases".
	// If it is empty, the lines have none.
	Members string

	// lasts makes a success without an outage cheap.
	lasts atomic.Bool
	mu    sync.Mutex // guards now, the present outage, or nil
	now   *outage
}

type outage struct {
	began, failed, logged time.Duration
	// healed is when the last member was served again, or zero while members are not.
	healed   time.Duration
	failures int
	err      error // the last one
	// members are those whose last request failed. The name "" stands for the requests that
	// concern no member, which any success ends.
	members map[string]bool
	// lost are the members that were lost in the outage and not regained. losses counts all
	// that were lost, and regained those that came back.
	lost             map[string]bool
	losses, regained int
	// throttled reports whether all failures were throttling, which is logged at the level
	// debug while it is short.
	throttled bool
}

const (
	// Interval is the time between two lines about an outage that lasts.
	Interval = time.Minute
	// Settled is the time since the last failure after which the end of an outage is
	// logged, and the time that lost members have to be regained before.
	Settled = 15 * time.Second
)

// Lasts reports whether an outage has begun whose end was not logged yet.
func (l *Log) Lasts() bool { return l.lasts.Load() }

// Failed logs a failed request that is retried. member may be empty. throttled reports
// whether the request was throttled, which is no outage unless it lasts.
func (l *Log) Failed(log *slog.Logger, now time.Duration, member string, err error, throttled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.now
	if o == nil {
		o = &outage{began: now, logged: now, members: map[string]bool{}, lost: map[string]bool{}, throttled: true}
		l.now = o
		l.lasts.Store(true)
	}
	o.failed, o.healed, o.err, o.members[member] = now, 0, err, true
	o.failures++
	switch {
	case o.throttled && !throttled: // an outage begins within throttling
		o.throttled, o.logged = false, now
		log.Warn(l.Subject+" fail; retrying", "error", err)
	case now-o.logged >= Interval:
		l.counts(log, o, now)
	default:
		log.Debug(l.Subject+" fail; retrying", "error", err)
	}
}

// counts logs a line with the counts of an outage.
func (l *Log) counts(log *slog.Logger, o *outage, now time.Duration) {
	message := " still fail; retrying"
	if o.throttled { // nothing was logged yet
		message = " fail; retrying"
	}
	o.throttled, o.logged = false, now
	log = o.log(log).With("for", (now - o.began).Round(time.Second))
	if l.Members != "" {
		log = log.With(l.Members, o.concerned())
	}
	log.Warn(l.Subject+message, "error", o.err)
}

// Worked records that a request succeeded. member may be empty.
func (l *Log) Worked(log *slog.Logger, now time.Duration, member string) {
	if !l.lasts.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.now
	if o == nil {
		return
	}
	delete(o.members, "")
	if delete(o.members, member); len(o.members) > 0 {
		return
	}
	if o.healed == 0 {
		o.healed = now
	}
	if now-o.failed < Settled || len(o.lost) > 0 && now-o.healed < Settled {
		return
	}
	l.now = nil
	l.lasts.Store(false)
	write := o.log(log).Info
	if o.throttled {
		write = log.Debug
	}
	write(l.Subject+" succeed again", "after", (o.healed - o.began).Round(time.Second))
}

// concerned returns the number of members whose last request failed or that were lost in
// the outage and not regained.
func (o *outage) concerned() int {
	n := len(o.lost)
	for member := range o.members {
		if member != "" && !o.lost[member] {
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

// Lost records that a member was lost, and reports whether an outage is the reason. If
// throttling is, it has lasted too long, and Lost logs it unless it was logged before.
func (l *Log) Lost(log *slog.Logger, now time.Duration, member string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.now
	if o == nil || o.throttled && !o.members[member] {
		return false
	}
	o.lost[member] = true
	o.losses++
	if o.throttled {
		l.counts(log, o, now)
	}
	return true
}

// Regained records that the member came back, and reports whether it was lost in the
// outage.
func (l *Log) Regained(member string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now == nil || !l.now.lost[member] {
		return false
	}
	delete(l.now.lost, member)
	l.now.regained++
	return true
}

// Forget removes a member that sends no more requests.
func (l *Log) Forget(member string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != nil {
		delete(l.now.members, member)
	}
}

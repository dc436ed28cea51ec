package feed

import "time"

// Continuation is a position in a feed: everything up to and including it was read. Store
// it and pass it back, but do not look inside or compare it other than as text. On Cosmos
// DB it is the ETag of the read that returned it, and the embedded store uses the same
// form, a decimal LSN in double quotes. The empty Continuation is not a position.
type Continuation string

// StartKind is the kind of a [Start], for a [Source] that has to tell them apart.
type StartKind int

// The kinds of Start.
const (
	StartNow StartKind = iota
	StartBeginning
	StartTime
	StartContinuation
)

// Start is where in a feed a read starts. Its zero value is [Now].
type Start struct {
	kind  StartKind
	at    time.Time
	after Continuation
}

// Now starts with the first change committed after the request was served.
func Now() Start { return Start{} }

// Beginning starts with the first change that the container still has.
func Beginning() Start { return Start{kind: StartBeginning} }

// At starts with the changes whose timestamp (_ts, in whole seconds) is at or after t's
// second. A time before the container was created means the beginning.
//
// A source may treat a future time as now, because a continuation cannot hold a time. A
// time whose year in UTC is not 0 to 9999 is replaced by the nearest time in those years,
// because RFC 3339 has no form for it.
func At(t time.Time) Start {
	t = t.UTC().Truncate(time.Second)
	if t.Before(earliest) {
		t = earliest
	} else if t.After(latest) {
		t = latest
	}
	return Start{kind: StartTime, at: t}
}

// These are the first and the last time that [At] uses: the limits of RFC 3339.
var (
	earliest = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// After starts with the first change after position c.
func After(c Continuation) Start { return Start{kind: StartContinuation, after: c} }

// AfterSince starts after c and also leaves out changes older than t's second, as [At]
// does. Engines use it when a feed that started at a time resumes after partitions were
// merged: since c may be newer than t on one side but older on the other, Cosmos DB needs
// both.
func AfterSince(c Continuation, t time.Time) Start {
	s := At(t)
	s.kind, s.after = StartContinuation, c
	return s
}

// Kind returns the start's kind.
func (s Start) Kind() StartKind { return s.kind }

// Time returns an [At] start's time, in UTC and whole seconds, and zero for others.
func (s Start) Time() time.Time {
	if s.kind != StartTime {
		return time.Time{}
	}
	return s.at
}

// Since returns an [AfterSince] start's time, in UTC and whole seconds, and zero for
// others.
func (s Start) Since() time.Time {
	if s.kind != StartContinuation {
		return time.Time{}
	}
	return s.at
}

// Continuation returns the position of an [After] or [AfterSince] start, and is empty for
// others.
func (s Start) Continuation() Continuation { return s.after }

// String describes the start for messages.
func (s Start) String() string {
	switch s.kind {
	case StartBeginning:
		return "beginning"
	case StartTime:
		return s.at.Format(time.RFC3339)
	case StartContinuation:
		return "continuation " + string(s.after)
	case StartNow:
	}
	return "now"
}

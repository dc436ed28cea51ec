package feed

import "time"

// Continuation is a position in a feed: everything up to and including it was
// read. It is opaque, and compared as text only. On Cosmos DB it is the ETag of
// the read that returned it; the embedded store writes the same form, a decimal
// LSN in double quotes. The empty Continuation is no position at all.
type Continuation string

// StartKind tells the kinds of [Start] apart.
type StartKind int

// The kinds of Start.
const (
	StartNow StartKind = iota
	StartBeginning
	StartTime
	StartContinuation
)

// Start is where to begin to read a feed. Its zero value is [Now].
type Start struct {
	kind  StartKind
	at    time.Time
	after Continuation
}

// Now starts with the first change committed after the request was served.
func Now() Start { return Start{} }

// Beginning starts with the first change that the container still has.
func Beginning() Start { return Start{kind: StartBeginning} }

// At starts with the changes whose timestamp (_ts, whole seconds) is at or after
// t's second. A time before the container was made is the beginning.
// A time in the future may be taken for now: a position can hold a place in the feed,
// and no time. A time that RFC 3339 can't write, because its year in UTC isn't 0 to
// 9999, is the nearest that it can.
func At(t time.Time) Start {
	t = t.UTC().Truncate(time.Second)
	if t.Before(earliest) {
		t = earliest
	} else if t.After(latest) {
		t = latest
	}
	return Start{kind: StartTime, at: t}
}

// The first and last time of [At], those that RFC 3339 can write.
var (
	earliest = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// After starts behind c.
func After(c Continuation) Start { return Start{kind: StartContinuation, after: c} }

// AfterSince starts behind c and leaves out, as [At] does, what is older than t's
// second. It is for a feed that began at a time and goes on after a merge of
// partitions, where what c stands for on one side may be newer than t and on the
// other isn't: Cosmos DB then wants to be told both. A source whose positions say
// it all takes it for [After].
func AfterSince(c Continuation, t time.Time) Start {
	s := At(t)
	s.kind, s.after = StartContinuation, c
	return s
}

// Kind tells which kind of start this is.
func (s Start) Kind() StartKind { return s.kind }

// Time is the time of an [At] start, in UTC and whole seconds.
func (s Start) Time() time.Time {
	if s.kind != StartTime {
		return time.Time{}
	}
	return s.at
}

// Since is the time that goes along with the position of an [AfterSince] start, in
// UTC and whole seconds; zero: there is none.
func (s Start) Since() time.Time {
	if s.kind != StartContinuation {
		return time.Time{}
	}
	return s.at
}

// Continuation is the position of an [After] or [AfterSince] start.
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

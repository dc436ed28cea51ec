package feed

import "time"

// Page is the answer to one read.
type Page struct {
	// Changes are in LSN order. A transaction is never cut, so there may be
	// more of them than were asked for.
	Changes []Change
	// Continuation is the position behind the page. It is never empty: not on
	// a page without changes, and not on the answer to a read from now.
	Continuation Continuation
	// Range is the part of the keys that the page is of, in a page from a
	// [Reader]. A [Source] leaves it zero.
	Range Range
	// LSN is what Continuation stands for, and End the last LSN of the
	// partition; -1 where the source can't tell.
	LSN, End int64
	// Bytes is the size of the page's buffer.
	Bytes int
	// Charge is what the read cost, in request units (RU).
	Charge float64
	// SessionToken is the session token of the answer, where there is one.
	SessionToken string
	// Diagnostics tells how the read went.
	Diagnostics Diagnostics
}

// Diagnostics tells how a request went, for logs and support cases.
type Diagnostics struct {
	// Elapsed is the time the request took, retries inside the source included.
	Elapsed time.Duration
	// ActivityID identifies the request to the service; empty where there is none.
	ActivityID string
}

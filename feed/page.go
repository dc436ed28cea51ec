package feed

import "time"

// Page is the result of one read.
type Page struct {
	// Changes of one partition key are in LSN order. So is a whole page, unless its reader
	// has reached different LSNs for different keys of a merged partition. A page contains
	// whole transactions, so it may have more changes than the request's MaxItems.
	Changes []Change
	// Continuation is the position after the page. It is never empty, even if the page
	// has no changes or the read started from now.
	Continuation Continuation
	// Range is the part of the key space that the page belongs to. A [Reader] sets it; a
	// [Source] leaves it zero.
	Range Range
	// LSN is the LSN of Continuation. End is the last LSN of the partition. Each is -1 if
	// the source cannot report it.
	LSN, End int64
	// Unused is the number of LSNs between those of the page's first change and of End
	// that no transaction has, because a restore of the source left them out. The lag
	// does not count them.
	Unused int64
	// Bytes is the size of the page's buffer in bytes.
	Bytes int
	// Charge is the cost of the read in request units (RU).
	Charge float64
	// SessionToken is the session token of the response. It is empty if there is none.
	SessionToken string
	// Diagnostics describes the request.
	Diagnostics Diagnostics
}

// Diagnostics describes a request for logs and support cases.
type Diagnostics struct {
	// Elapsed is the duration of the request, including retries inside the source.
	Elapsed time.Duration
	// ActivityID identifies the request to the service. It is empty if there is none.
	ActivityID string
}

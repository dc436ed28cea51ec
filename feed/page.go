package feed

import "time"

// Page is what one read returns.
type Page struct {
	// Changes with the same partition key are in LSN order. So is the whole page, unless its
	// reader has reached different LSNs for different keys in a merged partition. There may
	// be more changes than the request's MaxItems, because transactions are never cut.
	Changes []Change
	// Continuation is the position after the page. Even a page without changes, or one that
	// was read from now, has one.
	Continuation Continuation
	// Range is the part of the key space that the page covers. A [Reader] sets it; a
	// [Source] leaves it zero.
	Range Range
	// LSN is Continuation's LSN, and End the partition's last one. Each is -1 if the source
	// cannot report it.
	LSN, End int64
	// Unused counts the LSNs between the page's first change and End that no transaction
	// has, because a restore left them out. Without it, the lag would count them.
	Unused int64
	// Bytes is the size of the page's buffer.
	Bytes int
	// Charge is what the read cost in request units (RU).
	Charge float64
	// SessionToken is the response's session token, or empty. Pass it on to read at least
	// what the page has seen.
	SessionToken string
	// Diagnostics describes the request.
	Diagnostics Diagnostics
}

// Diagnostics describes a request for logs and support cases.
type Diagnostics struct {
	// Elapsed is how long the request took, including retries inside the source.
	Elapsed time.Duration
	// ActivityID identifies the request to the service, or is empty.
	ActivityID string
}

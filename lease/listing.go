package lease

import (
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Listing is everything in a Store at one moment.
type Listing struct {
	// Leases are all leases of the processor, without the marker.
	Leases []Lease
	// Unreadable are the lease documents of the processor that cannot be parsed. They do
	// not make List fail.
	Unreadable []Unreadable
	// Foreign are the same processor's leases in other dialects, which a host refuses when
	// it starts. Those whose id fits this dialect are in Unreadable as well.
	Foreign []Foreign
	// Initialized is the marker's time (_ts), or zero if there is no marker.
	Initialized time.Time
	// Now is the store's clock, which also stamps Modified, when the listing was made or
	// earlier. It is zero if the store has no clock.
	Now time.Time
}

// Unreadable is a lease document that cannot be parsed, because an operator edited it or
// another implementation wrote an unknown form. No host acquires, wants, counts or writes
// it, so its keys stay with its owner while the other leases are processed as usual.
// Because it may cover any range, no gap is healed and no marker is created while a
// listing has one.
type Unreadable struct {
	// ID is the document's id, and Token the lease token at its end.
	ID, Token string
	// Range is the range in the token, or zero if it is unknown.
	Range feed.Range
	// Err is the parser's error.
	Err error
}

// newUnreadable returns the Unreadable of a document that a [Codec] failed to read with
// err. prefix is the [Codec.LeasePrefix].
func newUnreadable(prefix, id string, err error) Unreadable {
	token := strings.TrimPrefix(id, prefix)
	return Unreadable{ID: id, Token: token, Range: tokenRange(token), Err: err}
}

// Foreign is a lease document that belongs to the same processor, but in another dialect
// than the store's.
type Foreign struct {
	ID      string
	Dialect Dialect
}

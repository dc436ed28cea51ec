package lease

import (
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Listing is what a Store holds at one moment.
type Listing struct {
	// Leases are all leases of the processor; the marker is none.
	Leases []Lease
	// Unreadable are lease documents of the processor that can't be understood. One
	// of them doesn't make List fail.
	Unreadable []Unreadable
	// Foreign are leases of the same processor in other dialects, which a start
	// refuses: [Listing.Refusal]. Those that have the ids of this dialect are among
	// Unreadable as well.
	Foreign []Foreign
	// Initialized is the marker's time (_ts); zero: there is no marker.
	Initialized time.Time
	// Now is the store's clock, the one that stamps Modified, when the listing was
	// made or before; zero: it has none.
	Now time.Time
}

// Unreadable is a lease document that can't be understood: somebody edited it, or
// an implementation wrote what this one doesn't know. It is no [Lease]: nobody
// acquires it, asks for it, counts it or writes it, and its keys are left to whoever
// owns it. The other leases go on, but no gap is closed and no marker made while
// there is one, because what it covers may not be known.
type Unreadable struct {
	// ID is the document's id, and Token the lease token that the id ends with.
	ID, Token string
	// Range is what the token says of the keys; zero: unknown.
	Range feed.Range
	// Err says what is wrong with the document.
	Err error
}

// newUnreadable describes the document of that id, which a [Codec] of that
// [Codec.LeasePrefix] failed to read with err.
func newUnreadable(prefix, id string, err error) Unreadable {
	token := strings.TrimPrefix(id, prefix)
	return Unreadable{ID: id, Token: token, Range: tokenRange(token), Err: err}
}

// Foreign is a lease document of the same processor in another dialect than the
// store's.
type Foreign struct {
	ID      string
	Dialect Dialect
}

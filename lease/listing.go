package lease

import (
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Listing is the content of a Store at one moment.
type Listing struct {
	// Leases are all leases of the processor, without the marker.
	Leases []Lease
	// Unreadable are the lease documents of the processor that cannot be parsed. They do
	// not make List fail.
	Unreadable []Unreadable
	// Foreign are leases of the same processor in other dialects. A host that starts
	// refuses them. Those with an id of this dialect are in
	// Unreadable as well.
	Foreign []Foreign
	// Initialized is the marker's time (_ts). It is zero if there is no marker.
	Initialized time.Time
	// Now is the store's clock, which also stamps Modified, at the time of the listing or
	// earlier. It is zero if the store has no clock.
	Now time.Time
}

// Unreadable is a lease document that cannot be parsed. An operator edited it, or another
// implementation wrote an unknown form. No host acquires, asks for, counts or writes it.
// Its keys stay with its owner. The other leases are processed as usual. While a listing
// has an unreadable lease, no gap is healed and no marker is created, because the lease
// may cover any range.
type Unreadable struct {
	// ID is the document's id. Token is the lease token at the end of the id.
	ID, Token string
	// Range is the range in the token. It is zero if it is unknown.
	Range feed.Range
	// Err is the error of the parser.
	Err error
}

// newUnreadable returns the Unreadable of a document that a [Codec] failed to read with
// err. prefix is the [Codec.LeasePrefix].
func newUnreadable(prefix, id string, err error) Unreadable {
	token := strings.TrimPrefix(id, prefix)
	return Unreadable{ID: id, Token: token, Range: tokenRange(token), Err: err}
}

// Foreign is a lease document of the same processor in another dialect than the store's.
type Foreign struct {
	ID      string
	Dialect Dialect
}

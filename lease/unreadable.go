package lease

import (
	"strings"

	"github.com/changefeed-go/changefeed/feed"
)

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

// NewUnreadable describes the document of that id, which a [Codec] of that
// [Codec.LeasePrefix] failed to read with err.
func NewUnreadable(prefix, id string, err error) Unreadable {
	token := strings.TrimPrefix(id, prefix)
	return Unreadable{ID: id, Token: token, Range: tokenRange(token), Err: err}
}

// asLease is the place that the document takes among the leases: what it shadows
// is not run, because its owner may have a split to finish.
func (u Unreadable) asLease() Lease {
	l := Lease{ID: u.ID, Token: u.Token, Range: u.Range}
	if tokenRange(u.Token).IsZero() {
		l.PartitionID = u.Token
	}
	return l
}

// placed are the leases of a listing with those that can't be read.
func (l Listing) placed() []Lease {
	if len(l.Unreadable) == 0 {
		return l.Leases
	}
	all := make([]Lease, 0, len(l.Leases)+len(l.Unreadable))
	all = append(all, l.Leases...)
	for _, u := range l.Unreadable {
		all = append(all, u.asLease())
	}
	return all
}

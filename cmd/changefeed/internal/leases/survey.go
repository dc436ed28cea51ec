package leases

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Item is a lease with its document.
type Item struct {
	Document
	lease.Lease

	// created is an item that a plan makes; it has no document yet.
	created bool
}

// Foreign is a lease document of another dialect than the store's.
type Foreign struct {
	Document
	Dialect lease.Dialect
}

// Survey is what a lease container holds of one processor at one moment.
type Survey struct {
	// Codec writes documents in the store's dialect.
	Codec lease.Codec
	// Processor is the processor's name, Host the account's as the ids have it.
	Processor, Host string
	// Container is the monitored container's rid.
	Container string
	// Items are its leases; those without a range in their documents have that of
	// their partition, where it can be known.
	Items []Item
	// Unreadable are lease documents that can't be understood, and Foreign those
	// of another dialect under the same ids. Broken are the Unreadable's documents.
	Unreadable []lease.Unreadable
	Broken     []Document
	Foreign    []Foreign
	// Marker and Lock are nil where there is none.
	Marker, Lock *Document
	// Partitions are the live partitions of the monitored container.
	Partitions []feed.Partition
	// Now is the store's clock.
	Now time.Time
	// Terms are the hosts': what is live is judged by them.
	Terms lease.Terms
}

// withRanges fills in the ranges of leases that have none.
func (s *Survey) withRanges() {
	l := lease.Listing{Unreadable: s.Unreadable}
	for _, i := range s.Items {
		l.Leases = append(l.Leases, i.Lease)
	}
	l = l.WithRanges(s.Partitions)
	for i := range s.Items {
		s.Items[i].Range = l.Leases[i].Range
	}
	s.Unreadable = l.Unreadable
}

// State is what a lease is at the moment.
type State string

// The states of leases.
const (
	Free    State = "free"
	Live    State = "live"
	Expired State = "expired"
)

// State returns the state of l by the store's clock.
func (s Survey) State(l lease.Lease) State { return StateOf(l.Owner, s.Age(l), s.Terms) }

// StateOf returns the state of a lease that its owner wrote so long ago. Documents do not carry
// their hosts' expiration, so terms say it.
func StateOf(owner string, age time.Duration, terms lease.Terms) State {
	switch {
	case owner == "":
		return Free
	case age < terms.Takeover():
		return Live
	}
	return Expired
}

// Age is how long ago the lease was written.
func (s Survey) Age(l lease.Lease) time.Duration { return max(0, s.Now.Sub(l.Modified)) }

// Live returns the leases that have a live owner.
func (s Survey) Live() []Item { return s.live(s.Items) }

func (s Survey) live(items []Item) []Item {
	return slices.DeleteFunc(slices.Clone(items), func(i Item) bool { return s.State(i.Lease) != Live })
}

// find returns the lease of that token.
func (s Survey) find(token string) (Item, bool) {
	for _, i := range s.Items {
		if i.Token == token {
			return i, true
		}
	}
	return Item{}, false
}

// ancestor returns a lease in whose shadow l is.
func (s Survey) ancestor(l lease.Lease) (lease.Lease, bool) {
	for _, i := range s.Items {
		if i.AncestorOf(l) {
			return i.Lease, true
		}
	}
	return lease.Lease{}, false
}

// sortItems orders leases as their ranges lie, wider ones first.
func sortItems(items []Item) {
	slices.SortStableFunc(items, func(a, b Item) int {
		return cmp.Or(strings.Compare(a.Range.Min, b.Range.Min), strings.Compare(b.Range.Max, a.Range.Max),
			strings.Compare(a.Token, b.Token), strings.Compare(a.Document.ID+a.Key, b.Document.ID+b.Key))
	})
}

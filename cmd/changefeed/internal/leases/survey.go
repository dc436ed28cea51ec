package leases

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// Item is a lease with its document.
type Item struct {
	Document
	lease.Lease

	// created reports whether a plan creates the item. It has no document yet.
	created bool
}

// Foreign is a document that is a lease of another dialect.
type Foreign struct {
	Document
	Dialect lease.Dialect
}

// Survey is the state of a processor's leases at one moment.
type Survey struct {
	// Codec encodes and decodes documents in the processor's dialect.
	Codec lease.Codec
	// Processor is the processor's name. Host is the account's host as the ids have it.
	Processor, Host string
	// Container is the monitored container's rid.
	Container string
	// Items are its leases. A lease without a range in its document has the range of its
	// partition, if that is known.
	Items []Item
	// Unreadable are lease documents that cannot be decoded, and Broken are their
	// documents. Foreign are documents of another dialect under the same ids.
	Unreadable []lease.Unreadable
	Broken     []Document
	Foreign    []Foreign
	// Marker and Lock are nil if they do not exist.
	Marker, Lock *Document
	// Refused has the source's error, by token, for each lease from whose position the source
	// cannot read. It is nil before [Container.TryPositions].
	Refused map[string]error
	// OtherHosts are the other account hosts under which the container has leases of the
	// processor.
	OtherHosts []string
	// Partitions are the live partitions of the monitored container.
	Partitions []feed.Partition
	// Now is the store's clock.
	Now time.Time
	// Terms are the intervals of the hosts. They determine which leases are live.
	Terms protocol.Terms
}

// withRanges sets the ranges of the leases whose documents have none, from their
// partitions.
func (s *Survey) withRanges() {
	l := lease.Listing{Unreadable: s.Unreadable}
	for _, i := range s.Items {
		l.Leases = append(l.Leases, i.Lease)
	}
	l = protocol.WithRanges(l, s.Partitions)
	for i := range s.Items {
		s.Items[i].Range = l.Leases[i].Range
	}
	s.Unreadable = l.Unreadable
}

// State is the state of a lease.
type State string

// The states of leases.
const (
	Free    State = "free"
	Live    State = "live"
	Expired State = "expired"
)

// State returns the state of l by the store's clock.
func (s Survey) State(l lease.Lease) State { return StateOf(l.Owner, l.Modified, s.Now, s.Terms) }

// StateOf returns a lease's state. written and now are as in [protocol.Terms.Live]. The intervals
// are in terms, because documents do not store them.
func StateOf(owner string, written, now time.Time, terms protocol.Terms) State {
	switch {
	case owner == "":
		return Free
	case terms.Live(owner, written, now):
		return Live
	}
	return Expired
}

// Age returns the time since the lease was last written, by the store's clock.
func (s Survey) Age(l lease.Lease) time.Duration { return max(0, s.Now.Sub(l.Modified)) }

// Live returns the leases that have a live owner.
func (s Survey) Live() []Item { return s.live(s.Items) }

func (s Survey) live(items []Item) []Item {
	return slices.DeleteFunc(slices.Clone(items), func(i Item) bool { return s.State(i.Lease) != Live })
}

// find returns the lease with a token.
func (s Survey) find(token string) (Item, bool) {
	for _, i := range s.Items {
		if i.Token == token {
			return i, true
		}
	}
	return Item{}, false
}

// named returns the lease with a token, or the only one with this short name.
func (s Survey) named(name string) (Item, bool) {
	found, ok := s.find(name)
	if ok {
		return found, true
	}
	n := 0
	for _, i := range s.Items {
		if view.LeaseName(i.Token) == name {
			found, n = i, n+1
		}
	}
	return found, n == 1
}

// ancestor returns a lease that still exists and whose keys include those of l. Until it
// is deleted, hosts do not run l.
func (s Survey) ancestor(l lease.Lease) (lease.Lease, bool) {
	for _, i := range s.Items {
		if protocol.IsAncestor(i.Lease, l) {
			return i.Lease, true
		}
	}
	return lease.Lease{}, false
}

// sortItems sorts leases by the beginning of their ranges. Of two with the same
// beginning, the wider one comes first.
func sortItems(items []Item) {
	slices.SortStableFunc(items, func(a, b Item) int {
		return cmp.Or(strings.Compare(a.Range.Min, b.Range.Min), strings.Compare(b.Range.Max, a.Range.Max),
			strings.Compare(a.Token, b.Token), strings.Compare(a.Document.ID+a.Key, b.Document.ID+b.Key))
	})
}

// Package view shows the progress of a processor's hosts, as a picture on a terminal or
// as lines of text. It draws a [Snapshot].
package view

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
)

// View shows progress. Its methods are called one at a time.
type View interface {
	// Say shows the text of an event. at is the time since the beginning of the run.
	Say(at time.Duration, text string)
	// Show shows a snapshot. It may be called several times a second.
	Show(s Snapshot)
}

// Snapshot is the state of a processor at one moment.
type Snapshot struct {
	// Elapsed is the time since the beginning.
	Elapsed time.Duration
	// Counts are shown in their order in this slice.
	Counts []Count
	// Rate is the number of changes delivered per second. If it is negative, the previous
	// rate remains visible.
	Rate float64
	// Hosts are all hosts, even those without leases.
	Hosts []Host
	// Leases are the leases in the order of their ranges.
	Leases []Lease
}

// Count is a number with its name.
type Count struct {
	Name string
	N    int
	// Minor counts are omitted from lines of text.
	Minor bool
}

// Host is a host of a processor.
type Host struct {
	Name string
	// Crashed marks a host that has ended without releasing its leases.
	Crashed bool
}

// Lease is a lease with the lag of its owner.
type Lease struct {
	Token string
	Range feed.Range
	// Owner is the host that owns the lease. It is empty for a free lease.
	Owner string
	// Position is the LSN of the last checkpoint, and Lag is the number of transactions
	// after it. Unknown ones are [estimator.Unknown].
	Position, Lag int64
}

// NewLease returns the lease of a measurement by an estimator.
func NewLease(l estimator.Lag) Lease {
	owner, _, _ := strings.Cut(l.Owner, "/") // without the random suffix of the host's run
	seen := Lease{Token: l.LeaseToken, Range: l.Range, Owner: owner, Position: estimator.Unknown, Lag: l.LSNs}
	// A continuation of one partition is an LSN in quotes.
	if n, err := strconv.ParseInt(strings.Trim(string(l.Continuation), `"`), 10, 64); err == nil {
		seen.Position = n
	}
	return seen
}

// leases returns the leases that a host owns.
func (s Snapshot) leases(host string) []Lease {
	var has []Lease
	for _, l := range s.Leases {
		if l.Owner == host {
			has = append(has, l)
		}
	}
	return has
}

// Text is a View for pipes, files and logs. It writes a line for each event, and one for the
// progress every two seconds.
type Text struct {
	w    io.Writer
	next time.Duration
	rate float64
}

// NewText returns a Text that writes to w.
func NewText(w io.Writer) *Text { return &Text{w: w, next: textInterval} }

// textInterval is the time between two lines of progress.
const textInterval = 2 * time.Second

// Say implements View.
func (v *Text) Say(at time.Duration, text string) {
	_, _ = fmt.Fprintf(v.w, "%s  %s\n", clock(at), text) // the run continues without a reader
}

// Show implements View.
func (v *Text) Show(s Snapshot) {
	if s.Rate >= 0 {
		v.rate = s.Rate
	}
	if s.Elapsed < v.next {
		return
	}
	v.next = s.Elapsed.Truncate(textInterval) + textInterval
	var counts, hosts []string
	for _, c := range s.Counts {
		if !c.Minor {
			counts = append(counts, c.Name+" "+Thousands(c.N))
		}
	}
	for _, h := range s.Hosts {
		state := strconv.Itoa(len(s.leases(h.Name)))
		if h.Crashed {
			state += " (crashed)"
		}
		hosts = append(hosts, h.Name+": "+state)
	}
	v.Say(s.Elapsed, fmt.Sprintf("%s (%s/s); leases of %s", strings.Join(counts, ", "), Thousands(int(v.rate)), strings.Join(hosts, ", ")))
}

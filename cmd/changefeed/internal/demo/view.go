package demo

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// View shows a run to people. Its methods are called one at a time.
type View interface {
	// Say tells that something happened, at so long after the run began.
	Say(at time.Duration, text string)
	// Show shows how far the run is; it is called several times a second.
	Show(s Snapshot)
}

// Snapshot is how far a run is.
type Snapshot struct {
	// Elapsed is the time since the run began.
	Elapsed time.Duration
	// Records is how many records there are, Written how many writes were
	// acknowledged, and Delivered how many changes of this run came to a handler. Earlier
	// counts those of earlier runs. Redelivered is how many of both came again.
	Records, Written, Delivered, Earlier, Redelivered int
	// Rate is how many changes per second were delivered lately; -1: as before.
	Rate float64

	parts []part
	hosts []hostState
}

// fromBefore returns the count of Earlier behind a separator; empty: there is none.
func (s Snapshot) fromBefore(separator string) string {
	if s.Earlier == 0 {
		return ""
	}
	return separator + "from before " + thousands(s.Earlier)
}

// hostState is a host in a Snapshot.
type hostState struct {
	name    string
	crashed bool
}

// leases returns what the host has, as the lease container shows it.
func (s Snapshot) leases(host string) []part {
	var has []part
	for _, p := range s.parts {
		if p.host == host {
			has = append(has, p)
		}
	}
	return has
}

// Plain is a View for pipes, files and logs: one line for what happens, and one
// for the progress every two seconds.
type Plain struct {
	w    io.Writer
	next time.Duration
	rate float64
}

// NewPlain returns a Plain that writes to w.
func NewPlain(w io.Writer) *Plain { return &Plain{w: w, next: plainInterval} }

// plainInterval is the time between two lines of progress.
const plainInterval = 2 * time.Second

// Say implements View.
func (v *Plain) Say(at time.Duration, text string) {
	_, _ = fmt.Fprintf(v.w, "%s  %s\n", clock(at), text) // who doesn't read it doesn't stop the run
}

// Show implements View.
func (v *Plain) Show(s Snapshot) {
	if s.Rate >= 0 {
		v.rate = s.Rate
	}
	if s.Elapsed < v.next {
		return
	}
	v.next = s.Elapsed.Truncate(plainInterval) + plainInterval
	var hosts []string
	for _, h := range s.hosts {
		state := strconv.Itoa(len(s.leases(h.name)))
		if h.crashed {
			state += " (crashed)"
		}
		hosts = append(hosts, h.name+": "+state)
	}
	v.Say(s.Elapsed, fmt.Sprintf("written %s, delivered %s%s (%s/s); leases of %s",
		thousands(s.Written), thousands(s.Delivered), s.fromBefore(", "), thousands(int(v.rate)), strings.Join(hosts, ", ")))
}

// clock writes a time since the beginning as minutes, seconds and tenths.
func clock(d time.Duration) string {
	tenths := d.Milliseconds() / 100
	return fmt.Sprintf("%02d:%02d.%d", tenths/600, tenths/10%60, tenths%10)
}

// thousands writes n with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// rangeName writes a range shortly: eight digits tell ranges apart.
func rangeName(r feed.Range) string {
	short := func(s string) string { return s[:min(len(s), 8)] }
	return short(r.Min) + "-" + short(r.Max)
}

package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
)

// Report is the result of a run.
type Report struct {
	// Written is how many writes were acknowledged in this run: records and updates.
	Written int
	// Delivered is how many changes of this run came to a handler. A record that was
	// updated before it was read comes once, with its last revision.
	Delivered int
	// Earlier is how many changes came to a handler that earlier runs on the same data wrote.
	Earlier int
	// Redelivered is how many of both came again, as after a crash.
	Redelivered int
	// Missing is the number of records that are not in the first container, and of
	// documents of it that have no copy.
	Missing int
	// Wrong is how many copies differ from their document, or have none.
	Wrong int
	// LeaseMoves is how often a lease went from one host to another.
	LeaseMoves int
	// LongestPause is the longest time in which a partition had a change that no host took
	// up, and LongestPauseIn that partition's range.
	LongestPause   time.Duration
	LongestPauseIn feed.Range
	// PerSecond is how many changes were delivered in a second, from the first to
	// the last; the writers set the pace.
	PerSecond float64
	// Elapsed is how long the run took, without the comparison.
	Elapsed time.Duration

	comparison comparison
}

// OK reports whether everything was copied.
func (r Report) OK() bool { return r.Missing == 0 && r.Wrong == 0 }

// Write writes the report as a table, with the first differences below it.
func (r Report) Write(w io.Writer) error {
	pause := fmt.Sprintf("%.1f s", r.LongestPause.Seconds())
	if r.LongestPause >= 100*time.Millisecond {
		pause += " (keys " + view.RangeName(r.LongestPauseIn) + ")"
	}
	var b strings.Builder
	b.WriteByte('\n')
	rows := [][2]string{{"written", view.Thousands(r.Written)}, {"delivered", view.Thousands(r.Delivered)}}
	if r.Earlier > 0 {
		rows = append(rows, [2]string{"from before", view.Thousands(r.Earlier)})
	}
	rows = append(rows, [][2]string{
		{"redelivered", view.Thousands(r.Redelivered)},
		{"missing", view.Thousands(r.Missing)},
		{"wrong", view.Thousands(r.Wrong)},
		{"lease moves", view.Thousands(r.LeaseMoves)},
		{"longest pause", pause},
		{"changes/s", view.Thousands(int(r.PerSecond))},
	}...)
	for _, row := range rows {
		fmt.Fprintf(&b, "  %-14s %s\n", row[0], row[1])
	}
	fmt.Fprintf(&b, "\n%s documents compared with their copies, %.1f s in all\n",
		view.Thousands(r.comparison.compared), r.Elapsed.Seconds())
	for _, e := range r.comparison.examples {
		b.WriteString("  " + e + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

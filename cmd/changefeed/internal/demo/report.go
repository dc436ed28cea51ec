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
	// Written is the number of writes that this run made and that were acknowledged:
	// records and updates.
	Written int
	// Delivered is the number of changes written in this run that handlers received. If a
	// record was updated before it was read, only its last revision is delivered.
	Delivered int
	// Earlier is the number of delivered changes that earlier runs on the same data had
	// written.
	Earlier int
	// Redelivered is the number of repeated deliveries, for instance after a crash. It
	// includes changes of earlier runs.
	Redelivered int
	// Missing is the number of records that are not in the first container, plus the
	// number of its documents that have no copy.
	Missing int
	// Wrong is the number of copies that differ from their document, or that belong to no
	// document.
	Wrong int
	// Letters is the number of changes that were kept as letters and then redriven. It is zero
	// without Config.Poison.
	Letters int
	// LeaseMoves is the number of times that a lease got another owner.
	LeaseMoves int
	// LongestPause is the longest time in which a partition had changes and no host
	// handled any of them. LongestPauseIn is the range of that partition.
	LongestPause   time.Duration
	LongestPauseIn feed.Range
	// PerSecond is the number of changes delivered per second, between the first and the
	// last delivery.
	PerSecond float64
	// Elapsed is the duration of the run, without the comparison.
	Elapsed time.Duration

	comparison comparison
}

// OK reports whether the copy is complete and correct.
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
	if r.Letters > 0 {
		rows = append(rows, [2]string{"redriven", view.Thousands(r.Letters)})
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

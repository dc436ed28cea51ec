package leases

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// Row is a lease in the output of `leases ls`.
type Row struct {
	Lease string `json:"lease"`
	// Min and Max are the borders of the range. Both are empty if the range is unknown.
	Min string `json:"min"`
	Max string `json:"max"`
	// Owner is the text by which the owner identifies itself. It ends in a suffix of the
	// host's run.
	Owner string `json:"owner,omitempty"`
	State State  `json:"state"`
	// WrittenSecondsAgo is the time since the last write of the lease, in seconds.
	WrittenSecondsAgo int64  `json:"writtenSecondsAgo"`
	Position          string `json:"position"`
	Continuation      string `json:"continuation,omitempty"`
	Mode              string `json:"mode"`
	// WantedBy is the host that wants the lease.
	WantedBy string `json:"wantedBy,omitempty"`
	// Stopped says why the handler has stopped the lease. It is nil if the lease is not stopped.
	Stopped *Stopped `json:"stopped,omitempty"`
}

// Listing is the output of `leases ls`.
type Listing struct {
	// Time is when the leases were listed, by the clock of their container.
	Time        time.Time `json:"time"`
	Processor   string    `json:"processor"`
	Dialect     string    `json:"dialect"`
	Initialised time.Time `json:"initialisedAt,omitzero"`
	Locked      time.Time `json:"locked,omitzero"`
	Leases      []Row     `json:"leases"`
	// Unreadable are the ids of documents that cannot be decoded or are of another
	// dialect.
	Unreadable []string `json:"unreadable,omitempty"`

	dialect lease.Dialect
}

// List returns the listing of a survey.
func List(s Survey) Listing {
	l := Listing{Time: s.Now.UTC(), Processor: s.Processor, Dialect: s.Codec.Dialect().Name(), dialect: s.Codec.Dialect(), Leases: []Row{}}
	if s.Marker != nil {
		l.Initialised = s.Marker.Modified
	}
	if s.Lock != nil {
		l.Locked = s.Lock.Modified
	}
	for _, i := range s.Items {
		l.Leases = append(l.Leases, Row{
			Lease: i.Token, Min: i.Range.Min, Max: i.Range.Max, Owner: i.Owner, State: s.State(i.Lease), WrittenSecondsAgo: int64(s.Age(i.Lease) / time.Second),
			Position: Position(i.Lease), Continuation: string(i.Continuation), Mode: i.Mode.String(), WantedBy: i.Wanted(), Stopped: stoppedOf(i),
		})
	}
	for _, d := range s.Broken {
		l.Unreadable = append(l.Unreadable, d.ID)
	}
	for _, d := range s.Foreign {
		l.Unreadable = append(l.Unreadable, d.ID)
	}
	return l
}

// WriteJSON writes v as indented JSON.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// Write writes the listing as a table, below lines about the processor and the container.
func (l Listing) Write(w io.Writer) error {
	var head strings.Builder
	mode, several := l.mode()
	fmt.Fprintf(&head, "processor %q, in %s%s\n", l.Processor, l.dialect, mode)
	if l.Initialised.IsZero() {
		head.WriteString("not initialised: there is no marker\n")
	} else {
		fmt.Fprintf(&head, "initialised %s\n", l.Initialised.Format(time.RFC3339))
	}
	if !l.Locked.IsZero() {
		fmt.Fprintf(&head, "locked since %s\n", l.Locked.Format(time.RFC3339))
	}
	for _, r := range l.Leases {
		if r.Stopped != nil {
			fmt.Fprintf(&head, "lease %s is stopped since %s: %s\n", view.LeaseName(r.Lease), r.Stopped.Since.Format(time.RFC3339), view.OneLine(r.Stopped.Reason))
		}
	}
	for _, id := range l.Unreadable {
		fmt.Fprintf(&head, "not shown, see `changefeed leases check`: %s\n", view.OneLine(id))
	}
	if _, err := io.WriteString(w, head.String()); err != nil {
		return err
	}
	if len(l.Leases) == 0 {
		_, err := io.WriteString(w, "no leases\n")
		return err
	}
	// A column that says nothing would only make the table wider than a terminal.
	named := !slices.ContainsFunc(l.Leases, func(r Row) bool { return view.LeaseName(r.Lease) != rangeText(r) })
	wanted := slices.ContainsFunc(l.Leases, func(r Row) bool { return r.WantedBy != "" })
	columns := []struct {
		head string
		cell func(Row) string
		left bool // the table has no such column
	}{
		{"LEASE", func(r Row) string { return view.LeaseName(r.Lease) }, false},
		{"RANGE", rangeText, named},
		{"STATE", stateText, false},
		{"OWNER", func(r Row) string { return cmp.Or(view.HostName(protocol.Instance(r.Owner)), "-") }, false},
		{"WRITTEN", func(r Row) string { return (time.Duration(r.WrittenSecondsAgo) * time.Second).String() + " ago" }, false},
		{"POSITION", func(r Row) string { return r.Position }, false},
		{"MODE", func(r Row) string { return r.Mode }, !several},
		{"WANTED BY", func(r Row) string { return view.HostName(protocol.Instance(r.WantedBy)) }, !wanted},
	}
	rows := make([][]string, 1+len(l.Leases))
	for _, c := range columns {
		if c.left {
			continue
		}
		rows[0] = append(rows[0], c.head)
		for i, r := range l.Leases {
			rows[1+i] = append(rows[1+i], c.cell(r))
		}
	}
	return view.Table(w, rows)
}

// mode returns the text about the mode of all leases. several reports whether they are in
// different modes, which only their rows tell.
func (l Listing) mode() (text string, several bool) {
	for _, r := range l.Leases {
		if r.Mode != l.Leases[0].Mode {
			return "", true
		}
		text = ", in " + r.Mode + " mode"
	}
	return text, false
}

// stateText returns the state of a lease in the table.
func stateText(r Row) string {
	if r.Stopped != nil {
		return string(r.State) + ", stopped"
	}
	return string(r.State)
}

// rangeText returns the range of a lease in the table.
func rangeText(r Row) string {
	if r.Min == "" && r.Max == "" {
		return "?"
	}
	return view.RangeName(feed.Range{Min: r.Min, Max: r.Max})
}

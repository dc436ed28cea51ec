package lag

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/leases"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/internal/protocol"
)

// show prints a report in the configured format.
func (c Config) show(r estimator.Report) error {
	if c.JSON {
		e := json.NewEncoder(c.Out)
		e.SetEscapeHTML(false)
		if !c.Watch {
			e.SetIndent("", "  ")
		}
		return e.Encode(c.asJSON(r))
	}
	var text strings.Builder
	if c.Watch && c.Terminal != nil {
		if _, err := io.WriteString(c.Terminal, view.ClearScreen); err != nil {
			return err
		}
	}
	if c.Watch {
		fmt.Fprintln(&text, r.Time.UTC().Format(time.RFC3339))
	}
	if err := c.table(&text, r); err != nil {
		return err
	}
	if c.Watch && c.Terminal == nil {
		fmt.Fprintln(&text)
	}
	_, err := io.WriteString(c.Out, text.String())
	return err
}

// state returns the state that a lease had when the report was made.
func (c Config) state(l *estimator.Lag, r estimator.Report) leases.State {
	return leases.StateOf(l.Owner, l.Modified, r.Time, protocol.Terms{Expiration: c.Expiration, Acquire: c.Expiration})
}

// states returns the number of leases in each state.
func (c Config) states(r estimator.Report) map[leases.State]int {
	counts := map[leases.State]int{}
	for i := range r.Lags {
		counts[c.state(&r.Lags[i], r)]++
	}
	return counts
}

// table prints a report as a table, with a row per lease and a line with the totals.
func (c Config) table(w io.Writer, r estimator.Report) error {
	head := []string{"LEASE", "PARTITION", "STATE", "OWNER", "LAG", "AGE"}
	if c.Letters != nil {
		head = append(head, "LETTERS", "PARKED")
	}
	rows := [][]string{append(head, "POSITION", "")}
	for i := range r.Lags {
		l := &r.Lags[i]
		row := []string{
			view.LeaseName(l.LeaseToken), cmp.Or(l.Partition, "-"), string(c.state(l, r)), cmp.Or(view.HostName(protocol.Instance(l.Owner)), "-"), number(l.LSNs), age(l.Age),
		}
		if c.Letters != nil {
			row = append(row, number(int64(l.Letters)), number(int64(l.ParkedKeys)))
		}
		rows = append(rows, append(row, leases.PositionOf(l.Start), remark(*l)))
	}
	if err := view.Table(w, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, c.summary(r))
	return err
}

// remarkWidth is the width of a reason in a table. The error of the command, and JSON, have the
// whole one.
const remarkWidth = 60

// remark returns the remark in the table's row of a lease that is shadowed or whose lag is
// unknown. It returns "" for other leases.
func remark(l estimator.Lag) string {
	switch {
	case l.Err != nil:
		return "not read: " + view.Shortened(connect.Text(connect.Plain(l.Err)), remarkWidth)
	case l.Stopped != "":
		return "its handler has stopped it, see `changefeed leases ls`"
	case l.Shadowed:
		return "another lease contains its range"
	case l.Splitting:
		return "its partition was split or merged"
	}
	return ""
}

// summary returns one line about all leases: the totals of the report, and the number of
// leases in each state.
func (c Config) summary(r estimator.Report) string {
	t, states := r.Total, c.states(r)
	parts := []string{fmt.Sprintf("%s, %d live", view.Plural(t.Leases, "lease", "leases"), states[leases.Live])}
	if n := states[leases.Expired]; n > 0 {
		parts[0] += fmt.Sprintf(", %d expired", n)
	}
	switch {
	case t.LSNs == estimator.Unknown:
		parts = append(parts, "the lag is unknown")
	case t.LSNs == 0 && t.Unknown == 0:
		parts = append(parts, "nothing is unread")
	default:
		parts = append(parts, view.Plural(int(t.LSNs), "transaction", "transactions")+" unread")
	}
	if t.Age > 0 {
		parts = append(parts, "the oldest for "+t.Age.String())
	}
	if t.Unknown > 0 && t.LSNs != estimator.Unknown {
		parts = append(parts, fmt.Sprintf("unknown for %s", view.Plural(t.Unknown, "lease", "leases")))
	}
	if t.Splitting > 0 {
		parts = append(parts, fmt.Sprintf("%s of a partition that was split or merged", view.Plural(t.Splitting, "lease", "leases")))
	}
	if t.Stopped > 0 {
		parts = append(parts, view.Plural(t.Stopped, "lease", "leases")+" stopped by the handler, see `changefeed leases resume`")
	}
	switch {
	case r.LettersErr != nil:
		parts = append(parts, "the letters could not be read: "+view.Shortened(connect.Text(connect.Plain(r.LettersErr)), remarkWidth))
	case c.Letters != nil && t.Letters != estimator.Unknown:
		parts = append(parts, fmt.Sprintf("%s, %s", view.Plural(t.Letters, "letter", "letters"), view.Plural(t.ParkedKeys, "parked key", "parked keys")))
	}
	if t.LeftOver > 0 {
		parts = append(parts, fmt.Sprintf("%s left over within the range of another, not counted", view.Plural(t.LeftOver, "lease", "leases")))
	}
	if n := len(r.Unreadable); n > 0 {
		parts = append(parts, fmt.Sprintf("%s not readable, see `changefeed leases check`", view.Plural(n, "document", "documents")))
	}
	return strings.Join(parts, "; ") + fmt.Sprintf(" (%.4g RU)", t.Charge)
}

func number(n int64) string {
	if n == estimator.Unknown {
		return "?"
	}
	return fmt.Sprint(n)
}

func age(d time.Duration) string {
	if d == estimator.Unknown {
		return "?"
	}
	if d == 0 {
		return "-"
	}
	return d.String()
}

// report, leaseLag and total are a measurement as JSON. Unknown numbers are null.
type report struct {
	Time       time.Time  `json:"time"`
	Processor  string     `json:"processor"`
	Leases     []leaseLag `json:"leases"`
	Unreadable []string   `json:"unreadable,omitempty"`
	// LettersError says why the letters could not be counted.
	LettersError string `json:"lettersError,omitempty"`
	Total        total  `json:"total"`
}

type leaseLag struct {
	Lease     string `json:"lease"`
	Partition string `json:"partition,omitempty"`
	// Min and Max are the borders of the range. Both are empty if the range is unknown.
	Min string `json:"min"`
	Max string `json:"max"`
	// State is free, live or expired.
	State leases.State `json:"state"`
	// Owner is the text by which the owner identifies itself. It ends in a suffix of the
	// host's run.
	Owner string `json:"owner,omitempty"`
	// Lag is the number of unread transactions. AgeSeconds is the age of the oldest
	// unread change.
	Lag        *int64    `json:"lag"`
	AgeSeconds *int64    `json:"ageSeconds"`
	Oldest     time.Time `json:"oldest,omitzero"`
	// Reference is the lag that the .NET estimator would report.
	Reference    int64  `json:"reference"`
	Position     string `json:"position"`
	Continuation string `json:"continuation,omitempty"`
	Unstarted    bool   `json:"unstarted,omitempty"`
	Splitting    bool   `json:"splitting,omitempty"`
	Shadowed     bool   `json:"shadowed,omitempty"`
	// Stopped is the reason for which the handler has stopped the lease.
	Stopped string `json:"stopped,omitempty"`
	// Letters is the number of letters in the range. ParkedKeys is the number of its keys of
	// which a change waits behind a letter.
	Letters    *int64 `json:"letters,omitempty"`
	ParkedKeys *int64 `json:"parkedKeys,omitempty"`
	Error      string `json:"error,omitempty"`
}

type total struct {
	Leases     int     `json:"leases"`
	Owned      int     `json:"owned"` // leases that are live or expired
	Live       int     `json:"live"`
	Expired    int     `json:"expired"`
	Lag        *int64  `json:"lag"`
	AgeSeconds *int64  `json:"ageSeconds"`
	Unknown    int     `json:"unknown"`
	Failed     int     `json:"failed"`
	Splitting  int     `json:"splitting"`
	Stopped    int     `json:"stopped,omitempty"`
	LeftOver   int     `json:"leftOver,omitempty"`
	Letters    *int64  `json:"letters,omitempty"`
	ParkedKeys *int64  `json:"parkedKeys,omitempty"`
	Reference  int64   `json:"reference"`
	Charge     float64 `json:"requestUnits"`
}

func (c Config) asJSON(r estimator.Report) report {
	out := report{Time: r.Time.UTC().Truncate(time.Second), Processor: c.Processor, Leases: []leaseLag{}, Unreadable: r.Unreadable}
	for i := range r.Lags {
		l := &r.Lags[i]
		row := leaseLag{
			Lease: l.LeaseToken, Partition: l.Partition, Min: l.Range.Min, Max: l.Range.Max, State: c.state(l, r), Owner: l.Owner,
			Lag: known(l.LSNs), AgeSeconds: seconds(l.Age), Oldest: l.Oldest, Reference: l.Reference(), Position: leases.PositionOf(l.Start), Continuation: string(l.Continuation),
			Unstarted: l.Unstarted, Splitting: l.Splitting, Shadowed: l.Shadowed, Stopped: l.Stopped,
			Letters: known(int64(l.Letters)), ParkedKeys: known(int64(l.ParkedKeys)),
		}
		if l.Err != nil {
			row.Error = connect.Text(l.Err)
		}
		out.Leases = append(out.Leases, row)
	}
	if r.LettersErr != nil {
		out.LettersError = connect.Text(r.LettersErr)
	}
	t, states := r.Total, c.states(r)
	out.Total = total{
		Leases: t.Leases, Owned: t.Owned, Live: states[leases.Live], Expired: states[leases.Expired], Lag: known(t.LSNs), AgeSeconds: seconds(t.Age), Unknown: t.Unknown, Failed: t.Failed,
		Splitting: t.Splitting, Stopped: t.Stopped, LeftOver: t.LeftOver, Letters: known(int64(t.Letters)), ParkedKeys: known(int64(t.ParkedKeys)), Reference: t.Reference, Charge: t.Charge,
	}
	return out
}

// known returns a pointer to n, or nil if n is [estimator.Unknown].
func known(n int64) *int64 {
	if n == estimator.Unknown {
		return nil
	}
	return &n
}

func seconds(d time.Duration) *int64 {
	if d == estimator.Unknown {
		return nil
	}
	return known(int64(d / time.Second))
}

package view

import (
	"bytes"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
)

func snapshot(at time.Duration) Snapshot {
	return Snapshot{
		Elapsed: at, Rate: 1_999,
		Counts: []Count{{Name: "written", N: 12_345}, {Name: "delivered", N: 12_000}, {Name: "redelivered", N: 7, Minor: true}},
		Leases: []Lease{
			{Token: "0", Range: feed.Range{Min: "", Max: "7FFFFFFFFFFFFFFF"}, Owner: "host-1", Position: 30, Lag: 30},
			{Token: "1", Range: feed.Range{Min: "7FFFFFFFFFFFFFFF", Max: "FF"}, Position: 60},
		},
		Hosts: []Host{{Name: "host-1"}, {Name: "host-2", Crashed: true}},
	}
}

func TestTextHasALineForEachEventAndOneForTheProgressEveryTwoSeconds(t *testing.T) {
	var out bytes.Buffer
	v := NewText(&out)
	v.Say(1500*time.Millisecond, "something happens")
	for at := time.Duration(0); at < 5*time.Second; at += 200 * time.Millisecond {
		v.Show(snapshot(at))
	}
	want := "00:01.5  something happens\n" +
		"00:02.0  written 12,345, delivered 12,000 (1,999/s); leases of host-1: 1, host-2: 0 (crashed)\n" +
		"00:04.0  written 12,345, delivered 12,000 (1,999/s); leases of host-1: 1, host-2: 0 (crashed)\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestLiveViewShowsHostsPartitionsRateAndTheLastLines(t *testing.T) {
	var model tea.Model = screen{}
	send := func(m tea.Msg) { model, _ = model.Update(m) }
	send(tea.WindowSizeMsg{Width: 80, Height: 40})
	for range 20 {
		send(event{at: time.Second, text: "an older line"})
	}
	send(event{at: 2 * time.Second, text: "host-2 crashes " + strings.Repeat("at length ", 20)})
	send(snapshot(3 * time.Second))
	still := snapshot(3 * time.Second)
	still.Rate = -1 // a negative rate leaves the last one visible
	send(still)
	content := model.View().Content
	for _, want := range []string{
		"written 12,345", "delivered 12,000", "redelivered 7", "1,999 changes/s", "host-1", "crashed", "-7FFFFFFF", "caught up", "██████████░░░░░░░░░░", "host-2 crashes", "1 lease   0", "no leases", "q or Ctrl-C quits",
	} {
		if !strings.Contains(content, want) {
			t.Errorf("%q isn't in sight:\n%s", want, content)
		}
	}
	for line := range strings.Lines(content) {
		if w := lipgloss.Width(strings.TrimSuffix(line, "\n")); w > 80 {
			t.Errorf("a line is %d cells wide: %q", w, line)
		}
	}
	if n := strings.Count(content, "an older line"); n != lastLines-1 {
		t.Errorf("%d older lines are in sight, want %d", n, lastLines-1)
	}
}

func TestLiveViewIsInterruptedByKeys(t *testing.T) {
	for _, key := range []tea.KeyPressMsg{{Code: 'q', Text: "q"}, {Code: 'c', Mod: tea.ModCtrl}} {
		interrupted := 0
		s := screen{interrupt: func() { interrupted++ }}
		s.Update(key)
		s.Update(tea.KeyPressMsg{Code: 'x', Text: "x"})
		if interrupted != 1 {
			t.Errorf("%s interrupts %d times", key, interrupted)
		}
	}
}

func TestALeaseHasTheEstimatorsFigures(t *testing.T) {
	whole := feed.Full()
	for lag, want := range map[estimator.Lag]Lease{
		{LeaseToken: "0", Range: whole, Owner: "host-1/55989105", Continuation: `"12"`, LSNs: 3}: {"0", whole, "host-1", 12, 3},
		{LeaseToken: "1", Range: whole, LSNs: estimator.Unknown}:                                 {"1", whole, "", -1, -1},
	} {
		if got := NewLease(lag); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestNumbersAndTimesForPeople(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		if got := Thousands(n); got != want {
			t.Errorf("Thousands(%d) is %s, want %s", n, got, want)
		}
	}
	if got := clock(83*time.Second + 450*time.Millisecond); got != "01:23.4" {
		t.Errorf("clock is %s", got)
	}
}

// A terminal of 80x24 must show what happens: whole lines, and the first line of the picture.
func TestLiveViewFitsASmallTerminal(t *testing.T) {
	var model tea.Model = screen{}
	send := func(m tea.Msg) { model, _ = model.Update(m) }
	send(tea.WindowSizeMsg{Width: 80, Height: 24})
	for range 20 {
		send(event{at: time.Second, text: "an older line"})
	}
	send(event{at: 2 * time.Second, text: "host-2 crashes " + strings.Repeat("at length ", 20) + "and ends"})
	send(snapshot(3 * time.Second))
	content := model.View().Content
	if lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n"); len(lines) > 23 || !strings.Contains(lines[0], "00:03.0") {
		t.Errorf("%d lines:\n%s", len(lines), content)
	}
	if strings.Count(content, "at length") < 15 || !strings.Contains(content, "ends") {
		t.Errorf("the last line is cut off:\n%s", content)
	}
	for line := range strings.SplitSeq(content, "\n") {
		if lipgloss.Width(line) > 80 {
			t.Errorf("%q", line)
		}
	}
}

// Texts that a reader sees together must not have one name for two ranges.
// The demo once showed the number alone.
func TestThePositionOfALeaseHasTheFormOfTheOtherCommands(t *testing.T) {
	lines := screen{shown: Snapshot{Leases: []Lease{{Token: "0", Position: 20123, Lag: 7}, {Token: "1", Position: -1, Lag: -1}}}, width: 80}.View().Content
	if !strings.Contains(lines, " LSN 20123        7  ") || !strings.Contains(lines, "           -        -  ") {
		t.Error(lines)
	}
}

func TestALongNameOfAHostKeepsBothEnds(t *testing.T) {
	for name, want := range map[string]string{
		"": "", "host-1": "host-1", "a-name-of-20-letters": "a-name-of-20-letters", "mailer-production-7d9f6c8b5-x2k4q": "mailer-p...8b5-x2k4q",
		"ow\x1b[31mner-of-the-lease\u202e\u009b": `ow\u001b...\u009b`, "ab\x1b\x1b\x1bcd": `ab\u001b...\u001bcd`,
	} {
		if got := HostName(name); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestRangesAreShortUnlessTwoWouldLookAlike(t *testing.T) {
	const a, b, c = "1FFFFFFFFFFFFFFF-3FFFFFFFFFFFFFFF", "1FFFFFFF00000000-3FFFFFFF00000000", "-1FFFFFFFFFFFFFFF"
	for _, texts := range [][2]string{
		{"set lease " + a + " (LSN 1234567890)", "set lease 1FFFFFFF-3FFFFFFF (LSN 1234567890)"},
		{"leases " + c + ", \"" + a + "\": p.host_x.." + a, "leases -1FFFFFFF, \"1FFFFFFF-3FFFFFFF\": p.host_x.." + a},
		{a + " and " + b + " and " + a + " and " + c, a + " and " + b + " and " + a + " and -1FFFFFFF"},
	} {
		if got := NamesIn(texts[0]).In(texts[0]); got != texts[1] {
			t.Errorf("%q; want %q", got, texts[1])
		}
	}
	if got := NamesIn(a, b).In(a); got != a {
		t.Errorf("%q, though another text has %q", got, b)
	}
}

// A row whose last cells are empty must not end the columns for the rows below it.
func TestAnEmptyLastCellMovesNoColumn(t *testing.T) {
	var out strings.Builder
	if err := Table(&out, [][]string{{"LEASE", "OWNER", "WANTED BY"}, {"0", "a host with a long name", ""}, {"1", "h", "other"}}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if head, cell := strings.Index(lines[0], "WANTED BY"), strings.Index(lines[2], "other"); head != cell || lines[1] != "0      a host with a long name" {
		t.Errorf("the column begins at %d and %d:\n%s", head, cell, out.String())
	}
}

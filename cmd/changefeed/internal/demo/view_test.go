package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/changefeed-go/changefeed/feed"
)

func snapshot(at time.Duration) Snapshot {
	return Snapshot{
		Elapsed: at, Records: 20_000, Written: 12_345, Delivered: 12_000, Redelivered: 7, Rate: 1_999,
		parts: []part{
			{token: "0", rng: feed.Range{Min: "", Max: "7FFFFFFFFFFFFFFF"}, host: "host-1", position: 30, end: 60, behind: true},
			{token: "1", rng: feed.Range{Min: "7FFFFFFFFFFFFFFF", Max: "FF"}, position: 60, end: 60},
		},
		hosts: []hostState{{name: "host-1"}, {name: "host-2", crashed: true}},
	}
}

func TestPlainLinesTellWhatHappensAndTheProgressNowAndThen(t *testing.T) {
	var out bytes.Buffer
	v := NewPlain(&out)
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
		send(said{at: time.Second, text: "an older line"})
	}
	send(said{at: 2 * time.Second, text: "host-2 crashes " + strings.Repeat("at length ", 20)})
	send(snapshot(3 * time.Second))
	still := snapshot(3 * time.Second)
	still.Rate = -1 // as before
	send(still)
	content := model.View().Content
	for _, want := range []string{
		"written 12,345", "delivered 12,000", "redelivered 7", "1,999 changes/s", "host-1", "crashed", "-7FFFFFFF", "caught up", "██████████░░░░░░░░░░", "host-2 crashes", "1 lease   0", "no leases", "q or Ctrl-C quits",
	} {
		if !strings.Contains(content, want) {
			t.Errorf("%q isn't in sight:\n%s", want, content)
		}
	}
	if strings.Contains(content, "from before") {
		t.Errorf("a first run has nothing from before:\n%s", content)
	}
	continued := snapshot(3 * time.Second)
	continued.Earlier = 1_500
	if text := (screen{shown: continued}).View().Content; !strings.Contains(text, "delivered 12,000  from before 1,500") {
		t.Errorf("a continued run doesn't say what was there before:\n%s", text)
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

func TestNumbersAndTimesForPeople(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d) is %s, want %s", n, got, want)
		}
	}
	if got := clock(83*time.Second + 450*time.Millisecond); got != "01:23.4" {
		t.Errorf("clock is %s", got)
	}
}

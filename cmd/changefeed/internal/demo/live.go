package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
)

// Live is a View for a terminal: hosts with their leases, the position of each
// partition, the rate, and what happened last. Between NewLive and Close the
// terminal belongs to it.
type Live struct {
	program *tea.Program
	done    chan struct{}
	err     error
}

// NewLive starts a view on the terminal of in and out. interrupt is called when
// somebody presses q or Ctrl-C, which the terminal no longer makes a signal of.
func NewLive(ctx context.Context, in io.Reader, out io.Writer, interrupt func()) *Live {
	v := &Live{done: make(chan struct{})}
	v.program = tea.NewProgram(screen{interrupt: interrupt},
		tea.WithContext(context.WithoutCancel(ctx)), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	go func() {
		defer close(v.done)
		_, v.err = v.program.Run()
	}()
	return v
}

// Say implements View.
func (v *Live) Say(at time.Duration, text string) { v.program.Send(said{at: at, text: text}) }

// Show implements View.
func (v *Live) Show(s Snapshot) { v.program.Send(s) }

// Close ends the view; the last picture stays on the terminal.
func (v *Live) Close() error {
	v.program.Quit()
	<-v.done
	return v.err
}

// said is a line of Say on its way to the screen.
type said struct {
	at   time.Duration
	text string
}

// screen is what is to be seen: a value that each message makes a new one of.
type screen struct {
	interrupt func()
	shown     Snapshot
	rate      float64
	lines     []said
	width     int
}

// lastLines is how many lines of what happened stay in sight.
const lastLines = 12

// Init implements tea.Model.
func (s screen) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (s screen) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch m := message.(type) {
	case tea.WindowSizeMsg:
		s.width = m.Width
	case tea.KeyPressMsg:
		if key := m.String(); key == "q" || key == "ctrl+c" {
			s.interrupt()
		}
	case said:
		s.lines = append(s.lines[max(0, len(s.lines)+1-lastLines):len(s.lines):len(s.lines)], m)
	case Snapshot:
		s.shown = m
		if m.Rate >= 0 {
			s.rate = m.Rate
		}
	}
	return s, nil
}

var (
	bold = lipgloss.NewStyle().Bold(true)
	dim  = lipgloss.NewStyle().Faint(true)
	bad  = lipgloss.NewStyle().Foreground(lipgloss.Red)
	good = lipgloss.NewStyle().Foreground(lipgloss.Green)
)

// View implements tea.Model.
func (s screen) View() tea.View {
	var b strings.Builder
	b.WriteString(s.fit(fmt.Sprintf("%s  written %s  delivered %s%s  redelivered %s  %s changes/s\n",
		bold.Render(clock(s.shown.Elapsed)), thousands(s.shown.Written), thousands(s.shown.Delivered), s.shown.fromBefore("  "),
		thousands(s.shown.Redelivered), thousands(int(s.rate)))))
	b.WriteByte('\n')
	s.viewHosts(&b)
	s.viewParts(&b)
	for _, l := range s.lines {
		b.WriteString(s.fit(dim.Render(clock(l.at)) + "  " + l.text + "\n"))
	}
	b.WriteString(dim.Render("q or Ctrl-C quits") + "\n")
	return tea.NewView(b.String())
}

func (s screen) viewHosts(b *strings.Builder) {
	b.WriteString(bold.Render("hosts") + "\n")
	for _, h := range s.shown.hosts {
		state := "no leases "
		switch n := len(s.shown.leases(h.name)); {
		case n == 1:
			state = "1 lease  "
		case n > 1:
			state = fmt.Sprintf("%d leases ", n)
		}
		for _, p := range s.shown.leases(h.name) {
			state += " " + p.token
		}
		if h.crashed {
			state = bad.Render("crashed  ") + state
		}
		b.WriteString(s.fit(fmt.Sprintf("  %-8s %s\n", h.name, state)))
	}
	b.WriteByte('\n')
}

func (s screen) viewParts(b *strings.Builder) {
	b.WriteString(bold.Render(fmt.Sprintf("%-9s %-17s %-8s %8s %8s", "partition", "keys", "owner", "position", "end")) + "\n")
	for _, p := range s.shown.parts {
		owner := p.host
		if owner == "" {
			owner = "-"
		}
		state := good.Render("caught up")
		if p.behind {
			state = bar(p.position, p.end)
		}
		b.WriteString(s.fit(fmt.Sprintf("%-9s %-17s %-8s %8s %8s  %s\n",
			p.token, rangeName(p.rng), owner, lsn(p.position), lsn(p.end), state)))
	}
	b.WriteByte('\n')
}

// fit cuts a line at the terminal's border: a line that wraps would push the picture away.
func (s screen) fit(line string) string {
	line = strings.TrimSuffix(line, "\n")
	if s.width > 0 {
		line = lipgloss.NewStyle().MaxWidth(s.width).Render(line)
	}
	return line + "\n"
}

// lsn writes a position; unknown ones are a dash.
func lsn(n int64) string {
	if n < 0 {
		return "-"
	}
	return thousands(int(n))
}

// bar draws how much of a feed is behind the reader.
func bar(position, end int64) string {
	const cells = 20
	if position < 0 || end <= 0 {
		return strings.Repeat("░", cells)
	}
	full := int(min(position, end) * cells / end)
	return strings.Repeat("█", full) + strings.Repeat("░", cells-full)
}

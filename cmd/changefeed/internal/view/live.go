package view

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
)

// Live is a View for a terminal. It shows the hosts with their leases, the position of each
// lease, the rate and the last events. It owns the terminal from NewLive to Close.
type Live struct {
	program *tea.Program
	done    chan struct{}
	err     error
}

// NewLive starts a view on the terminal that in and out belong to. It calls interrupt
// when the user presses q or Ctrl-C. The terminal sends no signal for Ctrl-C meanwhile.
func NewLive(ctx context.Context, in io.Reader, out io.Writer, interrupt func()) *Live {
	v := &Live{done: make(chan struct{})}
	v.program = tea.NewProgram(screen{interrupt: interrupt},
		tea.WithContext(context.WithoutCancel(ctx)), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	go func() { // Close ends it and waits for it
		defer close(v.done)
		_, v.err = v.program.Run()
	}()
	return v
}

// Say implements View.
func (v *Live) Say(at time.Duration, text string) { v.program.Send(event{at: at, text: text}) }

// Show implements View.
func (v *Live) Show(s Snapshot) { v.program.Send(s) }

// Close ends the view. The last picture remains on the terminal.
func (v *Live) Close() error {
	v.program.Quit()
	<-v.done
	return v.err
}

// event is the message that Say sends.
type event struct {
	at   time.Duration
	text string
}

// screen is the picture on the terminal. Each message to Update results in a new screen.
type screen struct {
	interrupt func()
	shown     Snapshot
	rate      float64
	lines     []event
	// width and height are the terminal's size. They are 0 until it is known.
	width, height int
}

// lastLines is the number of recent events that the picture shows.
const lastLines = 12

// Init implements tea.Model.
func (s screen) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (s screen) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch m := message.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = m.Width, m.Height
	case tea.KeyPressMsg:
		if key := m.String(); key == "q" || key == "ctrl+c" {
			s.interrupt()
		}
	case event:
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
	top := bold.Render(clock(s.shown.Elapsed))
	for _, c := range s.shown.Counts {
		top += "  " + c.Name + " " + Thousands(c.N)
	}
	var b strings.Builder
	b.WriteString(s.wrapped(top + "  " + Thousands(int(s.rate)) + " changes/s"))
	b.WriteByte('\n')
	s.viewHosts(&b)
	s.viewLeases(&b)
	b.WriteString(s.viewEvents(strings.Count(b.String(), "\n")))
	b.WriteString(dim.Render("q or Ctrl-C quits") + "\n")
	return tea.NewView(b.String())
}

// viewEvents returns the last events. used is the number of lines above them. On a low
// terminal it omits the oldest ones, because the picture's first lines would be lost
// otherwise.
func (s screen) viewEvents(used int) string {
	text := ""
	for i := len(s.lines) - 1; i >= 0; i-- {
		l := s.lines[i]
		lines := s.wrapped(dim.Render(clock(l.at)) + "  " + l.text)
		used += strings.Count(lines, "\n")
		if s.height > 0 && used > s.height-2 { // the last line, and the one behind it
			break
		}
		text = lines + text
	}
	return text
}

func (s screen) viewHosts(b *strings.Builder) {
	b.WriteString(bold.Render("hosts") + "\n")
	for _, h := range s.shown.Hosts {
		leases := s.shown.leases(h.Name)
		state := fmt.Sprintf("%d leases ", len(leases))
		switch len(leases) {
		case 0:
			state = "no leases "
		case 1:
			state = "1 lease  "
		}
		for _, l := range leases {
			state += " " + l.Token
		}
		if h.Crashed {
			state = bad.Render("crashed  ") + state
		}
		b.WriteString(s.fit(fmt.Sprintf("  %-8s %s\n", h.Name, state)))
	}
	b.WriteByte('\n')
}

func (s screen) viewLeases(b *strings.Builder) {
	b.WriteString(bold.Render(fmt.Sprintf("%-9s %-17s %-8s %11s %8s", "partition", "keys", "owner", "position", "lag")) + "\n")
	for _, l := range s.shown.Leases {
		state := good.Render("caught up")
		if l.Lag != 0 {
			state = bar(l.Position, l.Lag)
		}
		position := "-"
		if l.Position >= 0 {
			position = LSN(l.Position)
		}
		b.WriteString(s.fit(fmt.Sprintf("%-9s %-17s %-8s %11s %8s  %s\n",
			l.Token, RangeName(l.Range), cmp.Or(l.Owner, "-"), position, known(l.Lag), state)))
	}
	b.WriteByte('\n')
}

// fit truncates a line at the terminal's width. A longer line would wrap and shift the
// picture.
func (s screen) fit(line string) string {
	line = strings.TrimSuffix(line, "\n")
	if s.width > 0 {
		line = lipgloss.NewStyle().MaxWidth(s.width).Render(line)
	}
	return line + "\n"
}

// wrapped returns a text in lines of the terminal's width. Its words stay whole.
func (s screen) wrapped(text string) string {
	if s.width == 0 {
		return text + "\n"
	}
	lines := strings.Split(lipgloss.Wrap(text, s.width, " "), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// known formats a lag. It returns a dash if n is unknown.
func known(n int64) string {
	if n < 0 {
		return "-"
	}
	return Thousands(int(n))
}

// bar returns a bar that shows which share of a feed has been read.
func bar(position, lag int64) string {
	const cells = 20
	full := 0
	if position > 0 && lag > 0 {
		full = int(position * cells / (position + lag))
	}
	return strings.Repeat("█", full) + strings.Repeat("░", cells-full)
}

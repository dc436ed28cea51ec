package replicate

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// window is over how long rates are taken.
const window = time.Minute

// progress prints how far the replication has come.
type progress struct {
	mu    sync.Mutex // guards out
	out   io.Writer
	write *writer
	began time.Time
	// seen are the standings of the last window, the oldest first, with the
	// documents that this process had copied.
	seen []sample
	// behind is the last standing's.
	behind atomic.Int64
}

type sample struct {
	standing
	copied int64
}

// forget begins anew: what follows is another feed.
func (p *progress) forget() { p.seen = nil }

// add takes a standing in.
func (p *progress) add(s standing) {
	p.behind.Store(s.behind)
	p.seen = append(p.seen, sample{s, p.write.copied.Load() + p.write.deleted.Load()})
	for len(p.seen) > 2 && s.at.Sub(p.seen[0].at) > window {
		p.seen = p.seen[1:]
	}
}

// line is a line about the last standing.
func (p *progress) line(what string) string {
	last := p.seen[len(p.seen)-1]
	parts := []string{fmt.Sprintf("%s %s documents", what, thousands(p.write.copied.Load()))}
	if n := p.write.moved.Load(); n > 0 {
		parts = append(parts, thousands(n)+" moved")
	}
	if n := p.write.deleted.Load(); n > 0 {
		parts = append(parts, thousands(n)+" deleted")
	}
	if rate, ok := p.rate(); ok {
		parts = append(parts, thousands(int64(rate))+"/s")
	}
	switch {
	case last.caughtUp && last.behind == 0:
		parts = append(parts, "caught up")
	case last.caughtUp:
		parts = append(parts, "caught up but for the last seconds")
	default:
		parts = append(parts, fmt.Sprintf("%d %% of the way", int(last.part*100)))
		if left, ok := p.left(); ok {
			parts = append(parts, "about "+left.String()+" left")
		}
	}
	leases := "leases"
	if last.leases == 1 {
		leases = "lease"
	}
	parts = append(parts, fmt.Sprintf("%d of %d %s owned", last.owned, last.leases, leases))
	return strings.Join(parts, ", ")
}

// rate is how many documents a second this process copies.
func (p *progress) rate() (perSecond float64, ok bool) {
	first, last := p.seen[0], p.seen[len(p.seen)-1]
	took := last.at.Sub(first.at).Seconds()
	if took <= 0 {
		return 0, false
	}
	return float64(last.copied-first.copied) / took, true
}

// left is the time that is left while all processes go on as they do: LSNs are
// compared with LSNs alone, whatever a service counts by them.
func (p *progress) left() (time.Duration, bool) {
	first, last := p.seen[0], p.seen[len(p.seen)-1]
	took, done := last.at.Sub(first.at), first.behind-last.behind
	if took <= 0 || done <= 0 {
		return 0, false
	}
	left := time.Duration(float64(took) * float64(last.behind) / float64(done))
	if left > time.Minute {
		return left.Round(time.Minute / 4), true
	}
	return left.Round(time.Second), true
}

// say prints a line. The caller of Run notices that its output has no reader, and ends ctx.
func (p *progress) say(format string, args ...any) {
	text := fmt.Sprintf(format+"\n", args...)
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = io.WriteString(p.out, text)
}

// thousands writes a number with commas.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

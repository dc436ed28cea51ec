package changefeed

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// The log says how a lease came to the host, so that a reader can tell a crash of another
// host from balancing.
func TestTheLogSaysWhereALeaseComesFrom(t *testing.T) {
	const me, other = "me/00000001", "host-2/0123abcd"
	owned := lease.Lease{ID: "a", Owner: other}
	offered := protocol.Wanted(lease.Lease{ID: "a"}, me)
	for name, c := range map[string]struct {
		asked, before lease.Lease
		stolen        bool
		want          takeover
	}{
		"free":                               {before: lease.Lease{ID: "a"}, want: takeover{"free", ""}},
		"expired":                            {before: owned, want: takeover{"expired", "host-2"}},
		"stolen":                             {before: owned, stolen: true, want: takeover{"stolen", "host-2"}},
		"handed over":                        {asked: owned, before: offered, want: takeover{"handed over", "host-2"}},
		"offered to another run of the host": {before: offered, want: takeover{"handed over", ""}},
	} {
		var j journal
		if c.asked.ID != "" {
			j.wants(c.asked)
		}
		if got := j.takes(c.before, me, c.stolen); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// The end of an outage was once logged while a lease still waited for its next request, and
// its length counted only to the last failure.
func TestAnOutageLastsUntilTheLastLeaseIsServed(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	var j journal
	err := &SourceError{Op: "read", Err: errors.New("connection refused")}
	j.failed(log, 10*time.Second, "a", err)
	j.failed(log, 20*time.Second, "b", err)
	j.worked(log, 30*time.Second, atSource, "b")
	j.worked(log, 40*time.Second, atSource, "b")
	if strings.Contains(out.String(), "again") {
		t.Errorf("the outage ends before lease a is served:\n%s", &out)
	}
	j.worked(log, 50*time.Second, atSource, "a")
	if !strings.Contains(out.String(), `msg="requests to the source succeed again" failures=2 after=40s`) {
		t.Errorf("the outage took 40s:\n%s", &out)
	}

	out.Reset()
	j.failed(log, 100*time.Second, "a", err)
	j.worked(log, 105*time.Second, atSource, "a")
	j.failed(log, 110*time.Second, "b", err)
	j.worked(log, 120*time.Second, atSource, "b")
	j.worked(log, 124*time.Second, atSource, "a")
	if strings.Contains(out.String(), "again") {
		t.Errorf("the outage ends less than %s after its last failure:\n%s", outageSettled, &out)
	}
	j.worked(log, 140*time.Second, atSource, "a")
	if !strings.Contains(out.String(), `msg="requests to the source succeed again" failures=2 after=20s`) {
		t.Errorf("the outage took 20s, until lease b was served:\n%s", &out)
	}
}

// A handler that fails for all leases, because what it writes to is down, is one cause too.
func TestAHandlerThatFailsIsLoggedOnceAMinute(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	var j journal
	err := &HandlerError{Op: "handle 3 changes", Err: errors.New("the database is down")}
	for at := range 150 {
		j.failed(log, time.Duration(at)*time.Second, string(rune('a'+at%6)), err)
	}
	if n := strings.Count(out.String(), `msg="handler failed; retrying"`); n != 3 || strings.Count(out.String(), "\n") != n {
		t.Errorf("%d lines in 150 seconds, want 3:\n%s", n, &out)
	}
	j.failed(log, 150*time.Second, "a", &ConfigError{"Mode", "is latest version"})
	if !strings.Contains(out.String(), `msg="problem found" error=`) {
		t.Errorf("a wrong configuration is logged as an error of the handler:\n%s", &out)
	}
}

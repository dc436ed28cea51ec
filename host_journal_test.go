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
		j := newJournal()
		if c.asked.ID != "" {
			j.wants(c.asked)
		}
		if got := j.takes(c.before, me, c.stolen); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// A handler that fails for all leases, because what it writes to is down, is one cause too.
func TestAHandlerThatFailsIsLoggedOnceAMinute(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	j := newJournal()
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

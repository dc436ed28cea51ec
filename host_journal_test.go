package changefeed

import (
	"testing"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// The log says how a lease came to the host, so that a reader can tell a crash of another
// host from balancing.
func TestTheLogSaysWhereALeaseComesFrom(t *testing.T) {
	const me, other = "me/00000001", "host-2/0123abcd"
	owned := lease.Lease{ID: "a", Owner: other}
	offered := protocol.Asked(lease.Lease{ID: "a"}, me)
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
			j.asks(c.asked)
		}
		if got := j.takes(c.before, me, c.stolen); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

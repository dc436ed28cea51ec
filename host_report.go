package changefeed

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/internal/balance"
	"github.com/changefeed-go/changefeed/lease"
)

// shadows records since when leases have been shadowed, by their IDs and by the host's
// monotonic clock. Like starts, it belongs to the cycle that runs.
type shadows struct{ since map[string]time.Duration }

// report notifies the user of each lease document that cannot be read, because no host of
// this processor reads the changes of such a lease. It is called once per acquire
// interval.
func (c *cycle) report(unreadable []lease.Unreadable) {
	for _, u := range unreadable {
		c.host.report(u.Token, &LeaseStoreError{Op: "read lease document " + u.ID, Err: u.Err})
	}
}

// reportOverlaps notifies the user of leases that overlap, because the changes of the keys
// that both cover are delivered twice, all the time. It is called once per acquire interval.
func (c *cycle) reportOverlaps(plan *balance.Plan) {
	for _, o := range plan.Overlaps() {
		left, right := plan.Token(o.Left), plan.Token(o.Right)
		c.host.report(right, &LeaseStoreError{Op: "read the leases", Err: fmt.Errorf(
			"leases %s and %s both cover the keys %s, whose changes are delivered twice; stop the hosts and run `changefeed leases check --repair`",
			left, right, o.Keys)})
	}
}

// reportWaiting notifies the user of leases that have been shadowed for two expirations. A
// split is over by then, unless nobody continues it. If there is no split, somebody has
// edited the range of the lease that shadows them, and nobody reads their keys.
func (c *cycle) reportWaiting(plan *balance.Plan) {
	since := make(map[string]time.Duration)
	waiting := map[string][]string{}
	for id, ancestor := range plan.Shadows() {
		began, known := c.shadows.since[id]
		if !known {
			began = c.began
		}
		if since[id] = began; c.began-began >= 2*c.terms.Expiration {
			waiting[ancestor] = append(waiting[ancestor], plan.Token(id))
		}
	}
	c.shadows.since = since
	for _, ancestor := range slices.Sorted(maps.Keys(waiting)) {
		tokens := waiting[ancestor]
		slices.Sort(tokens)
		c.host.report(plan.Token(ancestor), &LeaseStoreError{Op: "read the leases", Err: fmt.Errorf(
			"lease %s covers the keys of the leases %s, which wait for its end, and no host reads them; "+
				"if its partition was not split, its range was edited: stop the hosts and run `changefeed leases check --repair`",
			plan.Token(ancestor), strings.Join(tokens, ", "))})
	}
}

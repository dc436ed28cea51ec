package protocol

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/lease"
)

func TestLeasesOfOtherDialectsAreRefusedWithTheirNames(t *testing.T) {
	all := []lease.Dialect{lease.DotNet, lease.JavaHandleChanges, lease.JavaLatestVersion}
	for _, d := range all {
		for _, other := range all {
			if other == d {
				continue
			}
			l := lease.Listing{Leases: []lease.Lease{{Token: "0"}}, Foreign: []lease.Foreign{{ID: "theirs", Dialect: other}}}
			refusal, ok := errors.AsType[*lease.DialectError](Refusal(l, d))
			if !ok || !strings.Contains(refusal.Found, "theirs") || !strings.Contains(refusal.Remedy, other.Name()) {
				t.Errorf("%s beside a lease of %s: %v", d, other, Refusal(l, d))
			}
		}
	}
}

func TestOnlyHandleChangesRefusesAMarkerWithoutLeases(t *testing.T) {
	marked := lease.Listing{Initialized: time.Unix(7, 0)}
	for d, refused := range map[lease.Dialect]bool{lease.DotNet: false, lease.JavaHandleChanges: true, lease.JavaLatestVersion: false} {
		if err := Refusal(marked, d); (err != nil) != refused || upgraded(marked, d) != refused {
			t.Errorf("%s: a marker without a lease: %v", d, err)
		}
		if err := Refusal(lease.Listing{}, d); err != nil {
			t.Errorf("%s: an empty store: %v", d, err)
		}
		broken := marked
		broken.Unreadable = []lease.Unreadable{{Token: "0"}}
		if err := Refusal(broken, d); err != nil {
			t.Errorf("%s: an unreadable lease: %v", d, err)
		}
	}
}

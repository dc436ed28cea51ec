package protocol

import (
	"maps"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/changefeed-go/changefeed/lease"
)

func TestStopIsKeptUntilItIsResumed(t *testing.T) {
	at := time.Date(2026, 11, 28, 9, 30, 0, 120_000_000, time.UTC)
	stop := Stop{At: at, Reason: "handler: the target is full"}
	before := lease.Lease{Token: "0", Owner: "host/1", Continuation: "7", Properties: map[string]string{"start": "beginning"}}
	stopped := Stopped(before, stop)
	if StopOf(stopped) != stop || len(before.Properties) != 1 || stopped.Owner != "host/1" || stopped.Continuation != "7" {
		t.Errorf("%+v", stopped)
	}
	resumed := Resumed(stopped)
	if !StopOf(resumed).IsZero() || !stop.EndedBy(resumed) || stop.EndedBy(stopped) {
		t.Errorf("%+v", resumed)
	}
	again := Stopped(resumed, Stop{At: at.Add(time.Nanosecond), Reason: "still full"})
	if StopOf(again).Reason != "still full" || StopOf(again).EndedBy(again) {
		t.Errorf("a stop after another: %+v", again)
	}
	if cleared := Stopped(resumed, Stop{}); !maps.Equal(cleared.Properties, before.Properties) {
		t.Errorf("cleared: %v", cleared.Properties)
	}
	if same := Stopped(stopped, stop); !maps.Equal(same.Properties, stopped.Properties) {
		t.Errorf("stored twice: %v", same.Properties)
	}
}

func TestReasonOfAStopIsShortAndValid(t *testing.T) {
	for _, reason := range []string{"", "a b", strings.Repeat("é", longestReason), "x" + strings.Repeat("é", longestReason)} {
		got := StopOf(Stopped(lease.Lease{}, Stop{At: time.Unix(1, 0), Reason: reason})).Reason
		if !strings.HasPrefix(reason, got) || len(got) < min(len(reason), longestReason-1) || len(got) > longestReason || !utf8.ValidString(got) {
			t.Errorf("%d bytes became %d: %q", len(reason), len(got), got)
		}
	}
}

func TestTextThatIsNoStopCountsAsNone(t *testing.T) {
	for _, text := range []string{"", "yes", "2026-11-28", "T x"} {
		if stop := StopOf(lease.Lease{Properties: map[string]string{propertyStopped: text}}); !stop.IsZero() {
			t.Errorf("%q: %+v", text, stop)
		}
	}
}

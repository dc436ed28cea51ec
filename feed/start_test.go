package feed

import (
	"testing"
	"time"
)

func TestOnlyAfterSinceHasAPositionAndATime(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 999, time.FixedZone("", 3600))
	second := time.Date(2026, 11, 21, 11, 0, 0, 0, time.UTC)
	both := AfterSince(`"7"`, at)
	if both.Kind() != StartContinuation || both.Continuation() != `"7"` || !both.Since().Equal(second) || !both.Time().IsZero() {
		t.Errorf("AfterSince is %v after %s since %s", both.Kind(), both.Continuation(), both.Since())
	}
	if s := At(at); !s.Time().Equal(second) || !s.Since().IsZero() {
		t.Errorf("At has time %s and since %s", s.Time(), s.Since())
	}
	if s := After(`"7"`); !s.Since().IsZero() || s == both {
		t.Errorf("After has since %s", s.Since())
	}
	if both != AfterSince(`"7"`, second) {
		t.Error("two starts at one position and second differ")
	}
}

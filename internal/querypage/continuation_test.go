package querypage

import (
	"math"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/query"
)

func TestPositionSurvivesItsToken(t *testing.T) {
	const rid = "AAAAAYAAAAE="
	for _, p := range []position{
		{limit: -1},
		{limit: 0, after: "AbC_-"},
		{limit: math.MaxInt64, offset: 7, after: "x"},
		{limit: -1, after: "x", document: 12, rows: 250},
		{ordered: true, limit: -1},
		{ordered: true, limit: 3, offset: 2},
		{ordered: true, limit: -1, last: &query.Position{Tie: math.MaxUint64, Row: 3, Key: []byte{0, 255, '~'}}},
		{ordered: true, limit: -1, last: &query.Position{Key: []byte(strings.Repeat("k", maxSortKey))}},
	} {
		text, err := p.token(rid)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parsePosition(text, rid, p.ordered)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if again, _ := got.token(rid); again != text || got.limit != p.limit || got.offset != p.offset {
			t.Errorf("%+v became %+v", p, got)
		}
		if _, err := parsePosition(text, "AAAAAYAAAAI=", p.ordered); err == nil {
			t.Errorf("%s is accepted for another container", text)
		}
		if _, err := parsePosition(text, rid, !p.ordered); err == nil {
			t.Errorf("%s is accepted for a query of the other kind", text)
		}
	}
	if _, err := (position{ordered: true, last: &query.Position{Key: make([]byte, maxSortKey+1)}}).token(rid); err == nil {
		t.Error("a sort key beyond the limit got a continuation")
	}
}

package querypage

import (
	"math"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/query"
)

func TestPositionSurvivesItsText(t *testing.T) {
	for _, p := range []position{
		{limit: -1},
		{limit: 0, after: "AbC_-"},
		{limit: math.MaxInt64, offset: 7, after: "x"},
		{limit: -1, after: "x", within: true, document: 12, rows: 250},
		{limit: -1, after: "x", within: true, document: 12},
		{ordered: true, limit: -1},
		{ordered: true, limit: 3, offset: 2},
		{ordered: true, limit: -1, last: &query.Position{Tie: math.MaxUint64, Row: 3, Key: []byte{0, 255, '~'}}},
		{ordered: true, limit: -1, last: &query.Position{Key: []byte(strings.Repeat("k", maxSortKey))}},
	} {
		text, err := p.text()
		if err != nil {
			t.Fatal(err)
		}
		got, ok := parsePosition(text, p.ordered)
		if again, _ := got.text(); !ok || again != text || got.limit != p.limit || got.offset != p.offset {
			t.Errorf("%+v became %+v, %t", p, got, ok)
		}
	}
	if _, err := (position{ordered: true, last: &query.Position{Key: make([]byte, maxSortKey+1)}}).text(); err == nil {
		t.Error("a sort key beyond the limit got a continuation")
	}
}

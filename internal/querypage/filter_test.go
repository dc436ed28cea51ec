package querypage

import (
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/query"
)

// A document takes long to filter. The filter must pass it without a result, so that the
// page can end before it, and the page evaluates it later. If all documents are evaluated
// for the first row anyway, the filter must evaluate this one, too.
func TestFilterPassesSlowDocuments(t *testing.T) {
	const small = `{"xs":[1,2,3]}`
	large := `{"xs":[` + strings.TrimSuffix(strings.Repeat("1,", 1000), ",") + `]}`
	for _, test := range []struct {
		text string
		let  bool
	}{
		{"SELECT VALUE 1 FROM c JOIN a IN c.xs JOIN b IN c.xs WHERE a + b < 0", true},
		{"SELECT VALUE COUNT(1) FROM c JOIN a IN c.xs JOIN b IN c.xs WHERE a + b < 0", false},
	} {
		q, err := query.Parse(test.text)
		if err != nil {
			t.Fatal(err)
		}
		b, err := q.Bind(nil)
		if err != nil {
			t.Fatal(err)
		}
		p := &Page{query: b, shape: b.Shape(), time: time.Second}
		filter := p.filter(t.Context(), b.Where(), time.Now().Add(time.Hour))
		for range 2 {
			if let, err := filter([]byte(large)); err != nil || let != test.let {
				t.Errorf("%s: the filter of the large document returned %v, %v", test.text, let, err)
			}
			if let, err := filter([]byte(small)); err != nil || let {
				t.Errorf("%s: the filter of the small document returned %v, %v", test.text, let, err)
			}
		}
	}
}

func TestFailingConditionFailsOnlyThePageOfItsDocument(t *testing.T) {
	q, err := query.Parse("SELECT VALUE 1 FROM c WHERE (SELECT VALUE x FROM x IN c.xs) = 1")
	if err != nil {
		t.Fatal(err)
	}
	b, err := q.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	doc := []byte(`{"xs":[1,1]}`) // a subquery with two rows, where one value is required
	if _, err := b.Where().Filter(t.Context().Err)(doc); err == nil {
		t.Fatal("the condition does not fail")
	}
	p := &Page{query: b, shape: b.Shape(), time: time.Second}
	filter := p.filter(t.Context(), b.Where(), time.Now().Add(time.Hour))
	if let, err := filter(doc); err != nil || !let {
		t.Errorf("the filter returned %v, %v before the visit", let, err)
	}
	if _, _, err := b.Rows().Eval(doc); err == nil {
		t.Error("the visit does not fail")
	}
}

package server

import (
	"fmt"
	"slices"
	"testing"
)

// DOCUMENTID returns the number in an item's rid. The store assigns the numbers in
// ascending order, so sorting by DOCUMENTID sorts items by age.
func TestDocumentIDCountsTheItemsOfAContainer(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	for i := range 3 {
		ts.must("POST", orders+"/docs", pk(`["p"]`), fmt.Sprintf(`{"id":"%c","pk":"p"}`, 'c'-i))
	}
	rows, _ := ts.askAll(pk(`["p"]`), nil, "SELECT VALUE [DOCUMENTID(c), c.id] FROM c")
	slices.Sort(rows)
	if want := []string{`[1,"c"]`, `[2,"b"]`, `[3,"a"]`}; !slices.Equal(rows, want) {
		t.Errorf("got %v, want %v", rows, want)
	}
	rows, _ = ts.askAll(pk(`["p"]`), nil, "SELECT VALUE c.id FROM c WHERE DOCUMENTID(c) >= 2 AND DOCUMENTID(c) < 3")
	if want := []string{`"b"`}; !slices.Equal(rows, want) {
		t.Errorf("got %v, want %v", rows, want)
	}
}

// A function in a query fails, because of the query's text or of an item's value. The
// answer must be 400 with the function's name, and never 5xx.
func TestAFunctionsErrorIsABadRequest(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"a","pk":"p","pattern":"a(?=b)"}`)
	for text, want := range map[string]string{
		`SELECT * FROM c WHERE REGEXMATCH(c.id, c.pattern)`:          "The function REGEXMATCH can't be evaluated",
		`SELECT * FROM c WHERE REGEXMATCH(c.id, "a(?=b)")`:           "The function REGEXMATCH can't be evaluated",
		`SELECT VALUE REGEXMATCH(c.id, "a(?=b)") FROM c`:             "The function REGEXMATCH can't be evaluated",
		`SELECT VALUE COUNT(REGEXMATCH(c.id, "a(?=b)")) FROM c`:      "The function REGEXMATCH can't be evaluated",
		`SELECT * FROM c WHERE ST_DISTANCE(c.a, c.b) < 1`:            "the function ST_DISTANCE",
		`SELECT * FROM c WHERE FULLTEXTCONTAINS(c.a, "x")`:           "the function FULLTEXTCONTAINS",
		`SELECT VALUE VECTORDISTANCE(c.a, [1]) FROM c`:               "the function VECTORDISTANCE",
		`SELECT VALUE ABSOLUTE(1) FROM c`:                            `SC2005`,
		`SELECT VALUE ABS(1, 2) FROM c`:                              `SC2050`,
		`SELECT VALUE x FROM x IN STRINGSPLIT(c.id, "") JOIN y IN c`: `SC1001`,
	} {
		ts.ask(pk(`["p"]`), text).want(400).wantBody(want)
	}
}

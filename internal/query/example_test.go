package query_test

import (
	"encoding/json"
	"fmt"

	"github.com/changefeed-go/changefeed/internal/query"
)

// A program parses the text once, binds its parameters for each request, and evaluates
// the query for each document.
func Example() {
	q, err := query.Parse(`SELECT c.id, c.price * @rate AS euros FROM c WHERE c.price > 10 AND NOT IS_DEFINED(c.sold)`)
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := q.Bind(map[string]json.RawMessage{"@rate": json.RawMessage(`0.5`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	rows := b.Rows()
	for _, doc := range []string{
		`{"id":"lamp","price":30}`,
		`{"id":"chair","price":80,"sold":true}`,
		`{"id":"cup","price":"12"}`,
	} {
		row, ok, err := rows.Eval([]byte(doc))
		if err != nil {
			fmt.Println(err)
			return
		}
		if ok {
			fmt.Println(string(row))
		}
	}
	// Output:
	// {"id":"lamp","euros":15}
}

// A syntax error has the service's message and code, and the position in the text.
func ExampleParse_error() {
	_, err := query.Parse(`SELECT * FROM c WHERE c.order = 1`)
	fmt.Println(err)
	// Output:
	// Syntax error, incorrect syntax near 'order'. (SC1001, line 1, column 25)
}

package query_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/query"
)

// wide returns an item whose member list has n numbers and whose member text has n bytes.
func wide(n int) []byte {
	list := strings.TrimSuffix(strings.Repeat("1,", n), ",")
	return fmt.Appendf(nil, `{"id":"x","list":[%s],"text":%q,"numbers":[%s0]}`, list, strings.Repeat("t", n), numbersUpTo(n))
}

func numbersUpTo(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d,", i)
	}
	return b.String()
}

// A join has a hundred million rows. Its first rows must be available at once. Reading a
// million rows must take no more memory than reading a few.
func TestJoinsAreStreamed(t *testing.T) {
	doc := wide(10_000)
	rows := bound(t, `SELECT VALUE a + b FROM c JOIN a IN c.list JOIN b IN c.list`, nil).Rows()
	seen := 0
	if err := rows.Each(doc, func() bool {
		seen++
		return seen < 10
	}); err != nil || seen != 10 {
		t.Errorf("%d rows (%v)", seen, err)
	}
	doc = wide(1000)
	rows = bound(t, `SELECT VALUE a FROM c JOIN a IN c.list JOIN b IN c.list`, nil).Rows()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	seen = 0
	if err := rows.Each(doc, func() bool {
		seen++
		return true
	}); err != nil || seen != 1_000_000 {
		t.Fatalf("%d rows (%v)", seen, err)
	}
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; made > 100*uint64(seen)/10 {
		t.Errorf("%d rows made %d bytes", seen, made)
	}
}

// A join has 8,000,000,000,000 rows, and its WHERE clause has a term about the item
// alone. This term must be evaluated first, so that the query ends at once if it is
// false.
func TestConditionsOnTheItemPrecedeJoins(t *testing.T) {
	doc := wide(20_000)
	for _, condition := range []string{`c.id = 'y'`, `false`, `c.id = 'y' AND a = b`, `NOT EXISTS(SELECT VALUE 1) AND a > b`} {
		rows := bound(t, `SELECT VALUE 1 FROM c JOIN a IN c.list JOIN b IN c.list JOIN d IN c.list WHERE `+condition, nil).Rows()
		// Without that, reading all rows of this join would take weeks.
		if err := rows.Each(doc, func() bool { return true }); err != nil {
			t.Error(err)
		}
	}
}

// A WHERE clause calls a function such as RAND(). It must be evaluated for every row of a
// join, and not once for the item.
func TestVolatileConditionsAreEvaluatedForEveryRow(t *testing.T) {
	doc := wide(200)
	for _, text := range []string{
		`SELECT VALUE 1 FROM c JOIN a IN c.list JOIN b IN c.list WHERE rand() < 0.5`,
		`SELECT VALUE 1 FROM c JOIN a IN c.list JOIN b IN c.list WHERE EXISTS(SELECT VALUE 1 WHERE RAND() < 0.5)`,
	} {
		seen := 0
		if err := bound(t, text, nil).Rows().Each(doc, func() bool {
			seen++
			return true
		}); err != nil || seen < 10_000 || seen > 30_000 {
			t.Errorf("%s: %d of 40000 rows (%v)", text, seen, err)
		}
	}
}

// The context of a query is canceled during a long join. The evaluation must end with the
// context's error, even if no row was found.
func TestAJoinEndsWithItsContext(t *testing.T) {
	doc := wide(20_000)
	for _, text := range []string{
		`SELECT VALUE 1 FROM c JOIN a IN c.list JOIN b IN c.list JOIN d IN c.list WHERE a + b + d < 0`,
		`SELECT VALUE (SELECT VALUE COUNT(1) FROM a IN c.list JOIN b IN c.list JOIN d IN c.list) FROM c`,
		`SELECT VALUE 1 FROM c WHERE EXISTS(SELECT VALUE undefined FROM a IN c.list JOIN b IN c.list JOIN d IN c.list)`,
	} {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		rows := bound(t, text, nil).Rows().While(ctx.Err)
		seen := 0
		err := rows.Each(doc, func() bool {
			_, ok := rows.Row()
			if ok {
				seen++
			}
			return true
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Short queries build very large values from one item. The evaluation must end with an
// error at a limit of memory. The next item must then be evaluated as usual.
func TestValuesOfAQueryAreBounded(t *testing.T) {
	fourfold := func(expression string, times int) string {
		text := `SELECT VALUE x0 FROM c JOIN (SELECT VALUE c.text) x0`
		for i := range times {
			text += fmt.Sprintf(` JOIN (SELECT VALUE `+expression+`) x%[2]d`, i, i+1)
		}
		return text
	}
	doc := wide(5000)
	for name, text := range map[string]string{
		"ARRAY":         `SELECT VALUE ARRAY(SELECT VALUE c.text FROM a IN c.list JOIN b IN c.list) FROM c`,
		"ARRAY in FROM": `SELECT VALUE 1 FROM c JOIN x IN (SELECT VALUE ARRAY(SELECT VALUE c.text FROM a IN c.list))`,
		"DISTINCT":      `SELECT VALUE 1 FROM c JOIN (SELECT DISTINCT VALUE [a, b, c.text] FROM a IN c.numbers JOIN b IN c.numbers) x WHERE false = x`,
		"GROUP BY":      `SELECT VALUE ARRAY(SELECT a, b, COUNT(1) AS n FROM a IN c.numbers JOIN b IN c.numbers GROUP BY a, b, c.text) FROM c`,
		"strings":       fourfold(`x%[1]d || x%[1]d || x%[1]d || x%[1]d`, 9),
		"arrays":        fourfold(`[x%[1]d, x%[1]d, x%[1]d, x%[1]d]`, 9),
		"objects":       fourfold(`{"a": x%[1]d, "b": x%[1]d, "c": [x%[1]d, x%[1]d]}`, 9),
		"row":           `SELECT ` + strings.TrimSuffix(strings.Repeat(`(c.text || c.text || c.text || c.text), `, 2000), ", ") + ` FROM c`,
	} {
		t.Run(name, func(t *testing.T) {
			rows := bound(t, text, nil).Rows()
			err := rows.Each(doc, func() bool {
				_, _ = rows.Row()
				return true
			})
			var e *query.EvaluationError
			if !errors.As(err, &e) || !strings.Contains(e.Message, "bytes") {
				t.Fatalf("got %.200v", err)
			}
			if err := rows.Each([]byte(`{"id":"y"}`), func() bool { return true }); err != nil {
				t.Errorf("the next item: %v", err)
			}
		})
	}
}

// A query contains subqueries, each inside another. Each must be compiled once. If each
// level compiled its subquery twice, the test would not end.
func TestNestedSubqueriesAreCompiledInLinearTime(t *testing.T) {
	for _, form := range []struct{ open, end string }{
		{`(SELECT VALUE `, ` FROM x IN c.list)`},
		{`EXISTS(SELECT VALUE `, ` FROM x IN c.list)`},
		{`ARRAY(SELECT VALUE `, ` FROM x IN c.list)`},
		{`ALL(SELECT VALUE 1 FROM x IN c.list WHERE `, `)`},
		{`(SELECT VALUE `, `)`},
		{`FIRST(SELECT VALUE `, ` WHERE true)`},
		{`(SELECT VALUE COUNT(1) FROM x IN c.list WHERE `, `)`},
		{`(SELECT VALUE 1 FROM (SELECT VALUE `, `) y)`},
	} {
		const deep = 60
		text := `SELECT VALUE ` + strings.Repeat(form.open, deep) + `c.n` + strings.Repeat(form.end, deep) + ` FROM c`
		rows := bound(t, text, nil).Rows()
		if err := rows.Each([]byte(`{"id":"x","n":1,"list":[1]}`), func() bool {
			_, ok := rows.Row()
			return ok
		}); err != nil {
			t.Errorf("%.60s: %v", text, err)
		}
	}
}

// A subquery in place of a value has two rows. The evaluation must end with the service's
// message, and the next item must be evaluated as usual.
func TestScalarSubqueryOfSeveralRowsIsAnError(t *testing.T) {
	rows := bound(t, `SELECT VALUE (SELECT VALUE x FROM x IN c.list) FROM c`, nil).Rows()
	row := func(doc string) (string, error) {
		raw, _, err := rows.Eval([]byte(doc))
		return string(raw), err
	}
	_, err := row(`{"id":"x","list":[1,2]}`)
	var e *query.EvaluationError
	want := `{"Errors":["The cardinality of a scalar subquery result set cannot be greater than one."]}`
	if !errors.As(err, &e) || e.ServiceMessage() != want || !json.Valid([]byte(e.ServiceMessage())) {
		t.Errorf("%v", err)
	}
	if got, err := row(`{"id":"x","list":[7]}`); err != nil || got != `7` {
		t.Errorf("afterwards: %s, %v", got, err)
	}
}

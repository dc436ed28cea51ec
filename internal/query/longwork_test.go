package query_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/internal/query"
)

// Each query does work that takes minutes for one item. When its context is canceled, the
// evaluation must end at once with the context's error.
func TestLongWorkForOneItemCanBeInterrupted(t *testing.T) {
	const mb = 1 << 20
	doc := fmt.Appendf(nil, `{"id":"x","text":%q,"list":[%s[]],"other":[%s[]],"things":[%s{"b":0}],"mixed":[%s{"b":[]}]}`,
		strings.Repeat("x", 2*mb), strings.Repeat("[],", mb/4), strings.Repeat("[],", mb/4), strings.Repeat(`{"a":1},`, mb/8),
		strings.Repeat(`{"b":[1]},`, mb/16))
	many := func(term, between string, n int) string {
		return strings.TrimSuffix(strings.Repeat(term+between, n), between)
	}
	for name, text := range map[string]string{
		"comparisons":    `SELECT VALUE ` + many(`c.list != c.other`, ` OR `, 500) + ` FROM c`,
		"elements":       `SELECT VALUE [` + many(`(c.list ?? 1)[262143]`, `, `, 5000) + `] FROM c`,
		"IN":             `SELECT VALUE c.list IN (` + many(`c.id || 'x', [[]]`, `, `, 5000) + `) FROM c`,
		"calls":          `SELECT VALUE [` + many(`ARRAY_LENGTH(c.list)`, `, `, 5000) + `] FROM c`,
		"CONTAINS":       `SELECT VALUE CONTAINS_ANY_CI(c.text, ` + many(`'xy'`, `, `, 20_000) + `) FROM c`,
		"LIKE":           `SELECT VALUE c.text LIKE '%` + many(`x_`, ``, 50_000) + `y%' FROM c`,
		"REGEXMATCH":     `SELECT VALUE REGEXMATCH(c.text, '` + many(`(x?){1000}`, ``, 20) + `y') FROM c`,
		"long elements":  `SELECT VALUE 1 FROM c JOIN a IN c.other JOIN b IN (SELECT VALUE [c.list]) WHERE b[262143] = a[1]`,
		"long subquery":  `SELECT VALUE COUNT(1) FROM c JOIN a IN c.other JOIN (SELECT VALUE c.list) b WHERE b[262143] = a[1]`,
		"constants":      `SELECT VALUE REGEXMATCH(@text, '` + many(`(x?){1000}`, ``, 20) + `y') FROM c`,
		"members":        `SELECT VALUE 1 FROM c JOIN a IN c.other WHERE ARRAY_CONTAINS(c.things, {"a": 2}, true)`,
		"nested queries": `SELECT VALUE ARRAY(SELECT VALUE EXISTS(SELECT VALUE 1 FROM y IN c.list WHERE x = 1) FROM x IN c.list) FROM c`,
	} {
		t.Run(name, func(t *testing.T) {
			params := map[string]json.RawMessage{"@text": fmt.Appendf(nil, "%q", strings.Repeat("x", mb))}
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			rows := bound(t, text, params).Rows().While(ctx.Err)
			groups := rows.Groups(1, nil)
			err := rows.Each(doc, func() bool {
				if strings.Contains(text, "COUNT") {
					groups.Add()
				} else {
					_, _ = rows.Row()
				}
				return true
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// A condition searches a long array for an array or object. The search must read each
// element only once, and must find the same elements as single comparisons.
func TestSearchForAnArrayOrObjectReadsItOnce(t *testing.T) {
	const n = 20_000
	var members strings.Builder
	for i := range n / 4 {
		fmt.Fprintf(&members, `,"m%d":%d`, i, i)
	}
	long := strings.TrimSuffix(strings.Repeat("7,", n), ",")
	doc := fmt.Appendf(nil, `{"id":"x","arrays":[%s[%s]],"objects":[%s{"z":1%s}],"members":{"z":1%s}}`,
		strings.Repeat("[7],", n), long, strings.Repeat(`{"z":1},`, n), members.String(), members.String())
	for expression, want := range map[string]string{
		`ARRAY_CONTAINS(c.arrays, c.arrays[20000])`:                              `true`,
		`ARRAY_CONTAINS(c.arrays, ARRAY_CONCAT(c.arrays[20000], [8]))`:           `false`,
		`ARRAY_CONTAINS(c.objects, c.members)`:                                   `true`,
		`ARRAY_CONTAINS(c.objects, c.members, true)`:                             `true`,
		`ARRAY_CONTAINS([{"z":1,"y":[2]}, {"z":1}], {"y":[2]}, true)`:            `true`,
		`ARRAY_CONTAINS([{"z":1,"y":[2,3]}, {"z":1}], {"y":[2]}, true)`:          `false`,
		`ARRAY_CONTAINS([{"a":1,"b":2}, {"a":2,"b":1}], {"a":2,"b":1}, true)`:    `true`,
		`ARRAY_CONTAINS([{"a":1,"b":2}, {"a":2,"b":1}], {"a":1,"b":1}, true)`:    `false`,
		`ARRAY_CONTAINS([1, {}, "x"], {}, true)`:                                 `true`,
		`ARRAY_CONTAINS([1, [], "x"], {}, true)`:                                 `false`,
		`ARRAY_CONTAINS([{"x":{"a":1,"b":2}}], {"x":{"b":2,"a":1}}, true)`:       `true`,
		`ARRAY_CONTAINS([{"x":{"a":1,"b":2}}], {"x":{"a":1}}, true)`:             `false`,
		`ARRAY_CONTAINS_ALL(c.arrays, [7], c.arrays[20000], [ 7 ])`:              `true`,
		`ARRAY_CONTAINS_ANY(c.objects, {"z":2}, {"y":1}, c.arrays, {"z" : 1.0})`: `true`,
	} {
		row, ok, err := bound(t, `SELECT VALUE `+expression+` FROM c`, nil).Rows().Eval(doc)
		if err != nil || !ok || string(row) != want {
			t.Errorf("%s is %s (%v), want %s", expression, row, err, want)
		}
	}
}

// A function that While has set returns an error during the evaluation of an item. Each
// must return this error, and the next item must be evaluated as usual.
func TestEvaluationEndsWithTheErrorOfItsCheck(t *testing.T) {
	reason := errors.New("no time")
	var over error
	rows := bound(t, `SELECT VALUE 1 FROM c JOIN a IN c.list JOIN b IN c.list`, nil).Rows().While(func() error { return over })
	n := 0
	each := func() error {
		n = 0
		return rows.Each(wide(1000), func() bool {
			n++
			return true
		})
	}
	if err := each(); err != nil || n != 1_000_000 {
		t.Fatalf("%d rows, %v", n, err)
	}
	if over = reason; !errors.Is(each(), reason) || n > 10_000 {
		t.Errorf("%d rows", n)
	}
	if over = nil; each() != nil || n != 1_000_000 {
		t.Errorf("the next item: %d rows", n)
	}
}

// An item takes longer than the time limit of its evaluation. The query must fail with an
// error that names a remedy, even if the item has no row. The limit applies to each item,
// not to all together.
func TestAnItemThatTakesTooLongIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lap := 3 * time.Second
		rows := bound(t, `SELECT VALUE COUNT(1) FROM c JOIN a IN c.list JOIN b IN c.list WHERE a + b < 0`, nil).Rows().While(func() error {
			time.Sleep(lap)
			return nil
		})
		doc := wide(1000)
		err := rows.Each(doc, func() bool { return true })
		var e *query.EvaluationError
		if !errors.As(err, &e) || !strings.Contains(e.Message, "10s for one item") {
			t.Errorf("an item of an hour: %v", err)
		}
		lap = 20 * time.Millisecond
		for range 5 { // each item takes some hundred times the interval between two checks
			if err := rows.Each(doc, func() bool { return true }); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestSlowPatchConditionIsAnError(t *testing.T) {
	f, err := query.Condition(`FROM c WHERE EXISTS(SELECT VALUE undefined FROM a IN c.list JOIN b IN c.list JOIN d IN c.list)`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Match(t.Context(), wide(20_000), time.Second)
	var e *query.EvaluationError
	if !errors.As(err, &e) || !strings.Contains(e.Message, "takes more than 1s") {
		t.Errorf("an hour's condition: %v", err)
	}
	if ok, err := f.Match(t.Context(), wide(10), time.Second); ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

package query_test

import (
	"errors"
	"testing"

	"github.com/changefeed-go/changefeed/internal/query"
	"github.com/changefeed-go/changefeed/internal/query/syntax"
)

func TestInvalidGroupingHasTheServicesCodes(t *testing.T) {
	for text, code := range map[string]string{
		`SELECT * FROM c GROUP BY c.a`:                       syntax.CodeGroupStar,
		`SELECT COUNT(MAX(c.a)) FROM c`:                      syntax.CodeAggregate,
		`SELECT SUM(1 + (SELECT VALUE 1)) FROM c`:            syntax.CodeAggregate,
		`SELECT c.a, COUNT(1) AS n FROM c`:                   syntax.CodeNotGrouped,
		`SELECT c.b FROM c GROUP BY c.a`:                     syntax.CodeNotGrouped,
		`SELECT VALUE {x: [c.a.b]} FROM c GROUP BY c.a`:      syntax.CodeNotGrouped,
		`SELECT c FROM c GROUP BY c.a`:                       syntax.CodeNotGrouped,
		`SELECT COUNT() FROM c`:                              syntax.CodeArguments,
		`SELECT VALUE SUM(c.a, c.b) FROM c`:                  syntax.CodeArguments,
		`SELECT c.a AS n, COUNT(1) AS n FROM c GROUP BY c.a`: syntax.CodeDuplicate,
	} {
		_, err := query.Parse(text)
		var e *syntax.Error
		if !errors.As(err, &e) || e.Code != code {
			t.Errorf("%s: %v, want %s", text, err, code)
		}
	}
	for text, what := range map[string]string{
		`SELECT * FROM c WHERE COUNT(1) > 1`:            "the aggregate function COUNT anywhere but in a SELECT",
		`SELECT c.a FROM c GROUP BY MAX(c.a)`:           "the aggregate function MAX anywhere but in a SELECT",
		`SELECT COUNT(1) FROM c ORDER BY c.a`:           "ORDER BY together with aggregates",
		`SELECT DISTINCT c.a FROM c GROUP BY c.a`:       "DISTINCT together with GROUP BY",
		`SELECT DISTINCT MAX(c.a) FROM c`:               "DISTINCT together with aggregates",
		`SELECT DISTINCT c.a FROM c ORDER BY c.b`:       "DISTINCT with ORDER BY of something that isn't selected",
		`SELECT VALUE MAKELIST(c.a) FROM c`:             "the aggregate function MAKELIST",
		`SELECT (SELECT VALUE 1) AS x, COUNT(1) FROM c`: "a subquery in a SELECT with GROUP BY or aggregates",
	} {
		_, err := query.Parse(text)
		var e *syntax.UnsupportedError
		if !errors.As(err, &e) || e.What != what {
			t.Errorf("%s: %v, want %q", text, err, what)
		}
	}
	// These select lists contain expressions of GROUP BY in another spelling. Each has
	// one value for a group, so it is valid.
	for _, text := range []string{
		`SELECT UPPER(c["a"]) AS u, c.a || 'x' AS x, 1 AS one, MAX(c.b) FROM c GROUP BY c.a`, `SELECT lower(c.a) AS l FROM c GROUP BY LOWER(c.a)`,
		`SELECT DISTINCT c FROM c ORDER BY c.a`, `SELECT COUNT(1) FROM c GROUP BY c.a, c.b`,
	} {
		if _, err := query.Parse(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

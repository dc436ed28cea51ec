package syntax

import "testing"

// FuzzParse parses random texts. The parser must return a query or an error, and never
// panic. A query that is printed must contain the words of the text, and must be parsed
// to the same query.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`SELECT * FROM c`, `SELECT TOP @Top * FROM c WHERE STARTSWITH(c.id, @PartitionLeasePrefix) AND c.ContinuationToken <> null`,
		`SELECT DISTINCT TOP 5 c.a AS x, c["a b"][0].d FROM Root r JOIN x IN r.children WHERE NOT c.a = - -1 ORDER BY c.x DESC OFFSET 1 LIMIT @l`,
		`SELECT VALUE {"a": [1, 'it\u0027s', undefined], b: EXISTS(SELECT VALUE x FROM x IN c.a)} FROM (SELECT * FROM c) AS s`,
		`SELECT udf.f(c.a) FROM c WHERE c.a NOT LIKE '%x' ESCAPE '!' AND c.b NOT BETWEEN 1 AND 2 OR c.c NOT IN (1, 2) GROUP BY c.a`,
		`SELECT c.a ?? (c.b ? ~1 : +c) || 'x' FROM c ORDER BY RANK FullTextScore(c.a, 'x') -- end`,
		`from c where c.v = 3 and c["w"] > -1.5e-7`, `SELECT LEFT(c.left, 1) FROM c.x[1]["y"] first`,
		`SELECT VALUE ARRAY(SELECT DISTINCT VALUE x.b FROM x IN c.a) FROM c JOIN (SELECT VALUE y FROM y IN c.a WHERE y LIKE "[^a-b]_%") z JOIN c.id WHERE ALL(SELECT 1)`,
		`SELECT x.b n, COUNT(1) + 0xF AS k FROM x IN c.a GROUP BY x.b`, `SELECT VALUE (SELECT VALUE MAX(x) FROM x IN c.a) << 1 >> c.b >>> -1`,
		`SELECT VALUE FIRST(SELECT * FROM c.a) FROM c WHERE EXISTS(SELECT VALUE LAST(SELECT VALUE b FROM b IN (SELECT VALUE [c, 2])))`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, read := range []func(string) (*Select, error){Parse, ParseCondition} {
			q, err := read(text)
			if err != nil {
				continue
			}
			printed := q.String()
			keepsWords(t, text, printed)
			again, err := read(printed)
			if err != nil {
				if len(printed) > maxText {
					continue
				}
				t.Fatalf("%q is printed as %q: %v", text, printed, err)
			}
			if p := again.String(); p != printed {
				t.Fatalf("%q is printed as %q, then as %q", text, printed, p)
			}
		}
	})
}

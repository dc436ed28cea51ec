package query

import "testing"

// The charge of a query depends on how often the service looks into its index, and on whether
// the index answers the whole condition.
func TestCostCountsLookupsInTheIndex(t *testing.T) {
	for text, want := range map[string]Cost{
		`SELECT * FROM c`:                                                              {},
		`SELECT c.a, c.b FROM c`:                                                       {Members: 2},
		`SELECT * FROM c WHERE c.a = 1`:                                                {Lookups: 1},
		`SELECT * FROM c WHERE @n < c.a.b[0]`:                                          {Lookups: 1},
		`SELECT * FROM c WHERE c.a`:                                                    {Lookups: 1},
		`SELECT * FROM c WHERE true`:                                                   {Lookups: 1},
		`SELECT * FROM c WHERE c.a = 1 OR NOT (c.b != 'x')`:                            {Lookups: 2},
		`SELECT * FROM c WHERE c.a IN (1, @n, 3)`:                                      {Lookups: 3},
		`SELECT * FROM c WHERE c.a NOT IN (1, 2)`:                                      {Lookups: 2},
		`SELECT * FROM c WHERE c.a BETWEEN 1 AND @n`:                                   {Lookups: 1},
		`SELECT * FROM c WHERE c.a LIKE 'd%'`:                                          {Lookups: 1},
		`SELECT * FROM c WHERE ARRAY_CONTAINS(@l, c.a)`:                                {Lookups: 3},
		`SELECT * FROM c WHERE array_contains(c.a, @s)`:                                {Lookups: 1},
		`SELECT * FROM c WHERE STARTSWITH(c.a, 'x', true)`:                             {Lookups: 1},
		`SELECT * FROM c WHERE IS_DEFINED(c.a)`:                                        {Lookups: 1},
		`SELECT * FROM c WHERE c.a = c.b`:                                              {Lookups: 1, Unindexed: true},
		`SELECT * FROM c WHERE 1 + 1 = 2`:                                              {Lookups: 1, Unindexed: true},
		`SELECT * FROM c WHERE LOWER(c.a) = 'x'`:                                       {Lookups: 1, Unindexed: true},
		`SELECT * FROM c WHERE c.a = 1 AND c.b = 2 AND c.d + 1`:                        {Lookups: 2, Unindexed: true},
		`SELECT VALUE c.a FROM c WHERE c.id = 'x'`:                                     {Lookups: 3},
		`SELECT VALUE {"a": c.a} FROM c WHERE c.id = 'x'`:                              {Lookups: 1},
		`SELECT VALUE COUNT(1) FROM c`:                                                 {Lookups: 2},
		`SELECT t FROM c JOIN t IN c.arr WHERE c.id = 'x'`:                             {Lookups: 2, Members: 1},
		`SELECT t FROM c JOIN t IN c.arr WHERE t = 1`:                                  {Lookups: 2, Members: 1, Unindexed: true},
		`SELECT VALUE t FROM t IN c.arr`:                                               {Lookups: 1},
		`SELECT c.id, (SELECT VALUE COUNT(1) FROM t IN c.a) n FROM c WHERE c.id = 'x'`: {Lookups: 1, Members: 2},
	} {
		if got := bindWith(t, text).Cost(); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

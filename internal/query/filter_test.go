package query_test

import "testing"

// Where.Sees must be true for the members that WHERE names, and false for members that
// only SELECT or ORDER BY names.
func TestConditionsSeeOnlyTheMembersTheyName(t *testing.T) {
	for _, test := range []struct {
		text string
		sees bool
	}{
		{`SELECT * FROM c WHERE c.a = 1`, false},
		{`SELECT c.x, c AS d FROM c WHERE c.a = 1 ORDER BY c.x`, false},
		{`SELECT * FROM c WHERE c.x = 1`, true},
		{`SELECT * FROM c WHERE c["x"].y = 1`, true},
		{`SELECT * FROM c WHERE c.a.x = 1`, false},
		{`SELECT * FROM c WHERE IS_DEFINED(c)`, true},
		{`SELECT * FROM c WHERE ToString(c) = "x"`, true},
		{`SELECT VALUE d FROM c JOIN d IN c.x`, true},
		{`SELECT VALUE d FROM c JOIN d IN c.a WHERE d.x = 1`, false},
		{`SELECT * FROM c WHERE EXISTS(SELECT VALUE d FROM d IN c.a WHERE c.x = d)`, true},
		{`SELECT COUNT(c.x) AS n FROM c WHERE c.a = 1 GROUP BY c.x`, false},
		{`SELECT * FROM c`, false},
	} {
		if got := bound(t, test.text, nil).Where().Sees("x"); got != test.sees {
			t.Errorf("%s: %v", test.text, got)
		}
	}
}

// Where.Random must be true for a condition that calls RAND anywhere, because it must be
// evaluated only once for each document.
func TestConditionsThatCallRANDAreRandom(t *testing.T) {
	for _, test := range []struct {
		text   string
		random bool
	}{
		{`SELECT RAND() FROM c WHERE c.a = 1`, false},
		{`SELECT * FROM c WHERE c.a > 1 AND (c.b = 1 OR rand() < 0.5)`, true},
		{`SELECT * FROM c WHERE EXISTS(SELECT VALUE d FROM d IN c.a WHERE d < RAND())`, true},
		{`SELECT VALUE r FROM c JOIN (SELECT VALUE RAND()) r WHERE r < 0.5`, true},
		{`SELECT * FROM c WHERE c.a < GetCurrentTimestamp()`, false},
	} {
		if got := bound(t, test.text, nil).Where().Random(); got != test.random {
			t.Errorf("%s: %v", test.text, got)
		}
	}
}

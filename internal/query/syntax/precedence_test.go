package syntax

import (
	"slices"
	"testing"
)

// serviceLevels holds the binary operators as the service's planner groups them, from the
// weakest to the strongest.
var serviceLevels = [][]string{
	{"??"},
	{"OR"},
	{"AND"},
	{"=", "!=", "<", "<=", ">", ">=", "<<", ">>", ">>>"},
	{"||"},
	{"+", "-", "&", "|", "^"},
	{"*", "/", "%"},
}

// The planner prints brackets around every operation of a rewritten query, which shows how
// the service groups each pair of operators.
func TestPairsOfOperatorsGroupAsInTheService(t *testing.T) {
	for i, left := range serviceLevels {
		for j, right := range serviceLevels {
			for _, first := range left {
				for _, second := range right {
					want := "((c.a " + first + " c.b) " + second + " c.d)"
					if j > i || first == "??" {
						want = "(c.a " + first + " (c.b " + second + " c.d))"
					}
					if first == second && slices.Contains([]string{"AND", "OR"}, first) { // a chain is one node
						want = "(c.a " + first + " c.b " + second + " c.d)"
					}
					formatsAs(t, "c.a "+first+" c.b "+second+" c.d", want)
				}
			}
		}
	}
}

func TestOtherFormsGroupAsInTheService(t *testing.T) {
	for text, want := range map[string]string{
		`NOT c.a = c.b`:    `((NOT c.a) = c.b)`,
		`c.a = NOT c.b`:    `(c.a = (NOT c.b))`,
		`NOT c.a IN (1)`:   `((NOT c.a) IN (1))`,
		`~c.a & c.b`:       `((~c.a) & c.b)`,
		`-c.a || c.b`:      `((-c.a) || c.b)`,
		`c.a = c.b IN (1)`: `((c.a = c.b) IN (1))`,
		`c.a ^ c.b BETWEEN c.d | c.e AND c.f || c.g`: `((c.a ^ c.b) BETWEEN (c.d | c.e) AND (c.f || c.g))`,
		`c.e AND c.a BETWEEN c.b = 1 AND c.d << 2`:   `(c.e AND (c.a BETWEEN (c.b = 1) AND (c.d << 2)))`,
		`c.a || 'x' NOT LIKE c.b || '%'`:             `((c.a || "x") NOT LIKE (c.b || "%"))`,
		`c.a LIKE c.b = c.d`:                         `(c.a LIKE (c.b = c.d))`,
		`c.a ?? c.b ? c.d : c.e ?? c.f`:              `((c.a ?? c.b) ? c.d : (c.e ?? c.f))`,
		`c.a ? c.b ?? 1 : c.d ? c.e : c.f`:           `(c.a ? (c.b ?? 1) : (c.d ? c.e : c.f))`,
		`c.a ?? c.b OR c.d ?? c.e`:                   `(c.a ?? ((c.b OR c.d) ?? c.e))`,
		`(c.a ?? c.b) ?? c.d`:                        `((c.a ?? c.b) ?? c.d)`,
	} {
		formatsAs(t, text, want)
	}
}

// formatsAs fails the test unless the expression text is printed as want, and want as
// itself.
func formatsAs(t *testing.T, text, want string) {
	t.Helper()
	for _, text := range []string{text, want} {
		q, err := Parse("SELECT VALUE " + text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := Format(q.Value); got != want {
			t.Errorf("%s is read as %s, want %s", text, got, want)
		}
	}
}

package value

import (
	"encoding/json"
	"testing"
)

// accumulated returns the aggregate of the values, which are JSON texts. In the values
// and the result, "" means undefined.
func accumulated(kind Aggregate, values ...string) string {
	a := Accumulator{Kind: kind}
	for _, v := range values {
		raw := []byte(v)
		a.Add(Decode(raw))
		clear(raw) // the caller may reuse its memory
	}
	return string(a.Result().AppendJSON(nil))
}

func TestAggregatesByTheServicesRules(t *testing.T) {
	for _, test := range []struct {
		name                      string
		values                    []string
		count, sum, avg, min, max string
	}{
		{"nothing", nil, "0", "0", "", "", ""},
		{"undefined is ignored", []string{"", ""}, "0", "0", "", "", ""},
		{"numbers", []string{"3", "", "1.5", "-2"}, "3", "2.5", "0.83333333333333337", "-2", "3"},
		{"null is counted, and is no number", []string{"null", "4"}, "2", "", "", "null", "4"},
		{"types have an order", []string{`"b"`, "true", "9", "false", `"a"`}, "5", "", "", "false", `"b"`},
		{"an array has no place in it", []string{"1", "[1]", "2"}, "3", "", "", "", ""},
		{"an object first", []string{`{"a":1}`, `"x"`}, "2", "", "", "", ""},
		{"equal values", []string{`"x"`, `"x"`}, "2", "", "", `"x"`, `"x"`},
		{"beyond the numbers", []string{"1e308", "1e308"}, "2", "", "", "1e+308", "1e+308"},
	} {
		got := []string{
			accumulated(Count, test.values...), accumulated(Sum, test.values...),
			accumulated(Avg, test.values...), accumulated(Min, test.values...), accumulated(Max, test.values...),
		}
		want := []string{test.count, test.sum, test.avg, test.min, test.max}
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if string(a) != string(b) {
			t.Errorf("%s: COUNT, SUM, AVG, MIN, MAX are %s, want %s", test.name, a, b)
		}
	}
}

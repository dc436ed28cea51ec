package query_test

import (
	"encoding/json"
	"fmt"
	"testing"
)

// large holds documents with integers that a float64 cannot tell apart.
var large = []json.RawMessage{
	json.RawMessage(`{"id":"1","n":9223372036854775807,"u":18446744073709551615,"l":[9223372036854775807,9223372036854775801],"d":0.5}`),
	json.RawMessage(`{"id":"2","n":9223372036854775801,"u":18446744073709551614,"l":[9223372036854775807],"d":1.0}`),
	json.RawMessage(`{"id":"3","n":-2069524964357598447,"l":[],"d":9007199254740993}`),
	json.RawMessage(`{"id":"4","n":9223372036854775801.0,"l":[9007199254740993,2],"d":9007199254740992.0}`),
}

// Integers of 64 bits keep their digits in every part of a query. The number of document 4
// has a fraction, so it is the float64 2^63.
func TestIntegersOf64BitsKeepTheirDigits(t *testing.T) {
	params := map[string]json.RawMessage{"@n": json.RawMessage(`9223372036854775801`), "@l": json.RawMessage(`[9223372036854775800,9223372036854775807]`), "@one": json.RawMessage(`1`)}
	for text, want := range map[string]string{
		`SELECT VALUE c.n FROM c WHERE c.id != "4"`:                                                                                                               `[9223372036854775807,9223372036854775801,-2069524964357598447]`,
		`SELECT VALUE TOSTRING(c.n) FROM c WHERE c.id != "4"`:                                                                                                     `["9223372036854775807","9223372036854775801","-2069524964357598447"]`,
		`SELECT VALUE [c.n - 1, -c.n, +c.n, c.n % 10, c.n / 1] FROM c WHERE c.id = "3"`:                                                                           `[[-2069524964357598448,2069524964357598447,-2069524964357598447,-7,-2069524964357598447]]`,
		`SELECT VALUE c.n + @one FROM c WHERE c.id IN ("1", "2")`:                                                                                                 `[9.2233720368547758e+18,9223372036854775802]`,
		`SELECT VALUE c.n * 2 FROM c WHERE c.id IN ("1", "3")`:                                                                                                    `[1.8446744073709552e+19,-4139049928715196894]`,
		`SELECT VALUE [9223372036854775807, -9223372036854775808, 9223372036854775808, 0xFFFFFFFFFFFFFFFF]`:                                                       `[[9223372036854775807,-9223372036854775808,9.2233720368547758e+18,-1]]`,
		`SELECT VALUE [9007199254740993 + 1, 9007199254740993 + 0.5, 1/3, 0xFFFFFFFF & 9007199254740993]`:                                                         `[[9007199254740994,9007199254740992,0.33333333333333331,1]]`,
		`SELECT VALUE c.id FROM c WHERE c.n = @n`:                                                                                                                 `["2"]`,
		`SELECT VALUE c.id FROM c WHERE c.n IN (@n, 1)`:                                                                                                           `["2"]`,
		`SELECT VALUE c.id FROM c WHERE c.n IN (1,2,3,4,5,6,7,8,9223372036854775801)`:                                                                             `["2"]`,
		`SELECT VALUE c.id FROM c WHERE c.n > 9223372036854775801`:                                                                                                `["1","4"]`,
		`SELECT VALUE c.id FROM c WHERE c.n BETWEEN 9223372036854775800 AND 9223372036854775806`:                                                                  `["2"]`,
		`SELECT VALUE c.id FROM c WHERE c.d > 9007199254740992`:                                                                                                   `["3"]`,
		`SELECT VALUE c.id FROM c ORDER BY c.n`:                                                                                                                   `["3","2","1","4"]`,
		`SELECT VALUE c.id FROM c ORDER BY c.n DESC`:                                                                                                              `["4","1","2","3"]`,
		`SELECT DISTINCT VALUE c.n FROM c WHERE c.n > 0 AND c.id != "4"`:                                                                                          `[9223372036854775801,9223372036854775807]`,
		`SELECT c.n, COUNT(1) AS k FROM c WHERE c.n > 0 AND c.id != "4" GROUP BY c.n`:                                                                             `[{"n":9223372036854775801,"k":1},{"n":9223372036854775807,"k":1}]`,
		`SELECT DISTINCT VALUE x FROM x IN (SELECT VALUE [9007199254740992, 9007199254740992.0, 9007199254740993])`:                                               `[9007199254740992,9007199254740993]`,
		`SELECT MIN(c.n) AS l, MAX(c.n) AS h FROM c WHERE c.id != "4"`:                                                                                            `[{"l":-2069524964357598447,"h":9223372036854775807}]`,
		`SELECT SUM(c.n) AS s, AVG(c.n) AS a FROM c WHERE c.id = "3" OR c.id = "2"`:                                                                               `[{"s":7153847072497177354,"a":3576923536248588677}]`,
		`SELECT VALUE SUM(c.n) FROM c WHERE c.id IN ("1", "2")`:                                                                                                   `[1.8446744073709552e+19]`,
		`SELECT VALUE ARRAY_CONTAINS(c.l, 9223372036854775801) FROM c`:                                                                                            `[true,false,false,false]`,
		`SELECT VALUE ARRAY_CONTAINS(@l, c.n) FROM c`:                                                                                                             `[true,false,false,false]`,
		`SELECT VALUE [ARRAY_MAX(c.l), ARRAY_MIN(c.l), ARRAY_SUM(c.l), ARRAY_MEDIAN(c.l), ARRAY_AVG(c.l)] FROM c WHERE c.id = "1"`:                                `[[9223372036854775807,9223372036854775801,1.8446744073709552e+19,9223372036854775804,9223372036854775804]]`,
		`SELECT VALUE SETINTERSECT(c.l, [9223372036854775801]) FROM c WHERE c.id IN ("1", "2")`:                                                                   `[[9223372036854775801],[]]`,
		`SELECT VALUE SETUNION([9223372036854775801], [9223372036854775807])`:                                                                                     `[[9223372036854775801,9223372036854775807]]`,
		`SELECT VALUE [INTADD(c.n, 1), INTADD(c.n, -1), INTMUL(c.n, c.n), INTSUB(-9223372036854775808, 1)] FROM c WHERE c.id = "1"`:                               `[[-9223372036854775808,9223372036854775806,1,9223372036854775807]]`,
		`SELECT VALUE [INTDIV(-9223372036854775808, -1), INTMOD(c.n, 10), INTBITXOR(c.n, 1), INTBITNOT(c.n), INTBITLEFTSHIFT(1, 62) + 1] FROM c WHERE c.id = "1"`: `[[-9223372036854775808,7,9223372036854775806,-9223372036854775808,4611686018427387905]]`,
		`SELECT VALUE [ABS(c.n), FLOOR(c.n), CEILING(c.n), ROUND(c.n), TRUNC(c.n), SIGN(c.n), NUMBERBIN(c.n, 10)] FROM c WHERE c.id = "3"`:                        `[[2069524964357598447,-2069524964357598447,-2069524964357598447,-2069524964357598447,-2069524964357598447,-1,-2069524964357598450]]`,
		`SELECT VALUE [STRINGTONUMBER("9223372036854775807"), STRINGTONUMBER("-9223372036854775809"), STRINGTOARRAY("[9223372036854775807]")]`:                    `[[9223372036854775807,-9223372036854775808,[9223372036854775807]]]`,
		`SELECT VALUE DATETIMETOTICKS("9999-12-31T23:59:59.9999999Z")`:                                                                                            `[2534023007999999999]`,
		`SELECT VALUE [IS_INTEGER(9223372036854775807), IS_INTEGER(9223372036854775808), IS_INTEGER(c.u)] FROM c WHERE c.id = "1"`:                                `[[true,false,false]]`,
		// An integer beyond 64 bits is a float64, except in the document as a whole.
		`SELECT VALUE c.u FROM c`:                                            `[1.8446744073709552e+19,1.8446744073709552e+19]`,
		`SELECT c.u AS x FROM c WHERE c.id = "1"`:                            `[{"x":1.8446744073709552e+19}]`,
		`SELECT * FROM c WHERE c.id = "2"`:                                   `[` + string(large[1]) + `]`,
		`SELECT DISTINCT VALUE c.u FROM c`:                                   `[1.8446744073709552e+19]`,
		`SELECT VALUE (c.u = 1.8446744073709552e19) FROM c WHERE c.id = "1"`: `[true]`,
	} {
		rows, err := answer(t, text, params, large)
		if got := fmt.Sprintf("%s", rows); err != nil || got != fmt.Sprintf("%s", rawRows(t, want)) {
			t.Errorf("%s: %s (%v), want %s", text, got, err, want)
		}
	}
}

// Stored documents have exponents of three digits, and rows have two, as recorded of the
// service.
func TestRowsHaveShortExponents(t *testing.T) {
	nums := []json.RawMessage{json.RawMessage(`{"id":"nums","i64":9007199254740993,"u64":18446744073709551615,"i64min":-9223372036854775808,"ovr":1.8446744073709552e+019,"huge":1.2345678901234568e+029,"dec":0.1,"one":1,"negzero":0,"big":1.7976931348623157e+308,"tiny":4.94065645841247e-324,"frac":1.2345678901234567e+019,"o":{"s":"1e+019","n":[1e-007]}}`)}
	for text, want := range map[string]string{
		`SELECT * FROM c`: `[{"id":"nums","i64":9007199254740993,"u64":18446744073709551615,"i64min":-9223372036854775808,"ovr":1.8446744073709552e+19,"huge":1.2345678901234568e+29,"dec":0.1,"one":1,"negzero":0,"big":1.7976931348623157e+308,"tiny":4.94065645841247e-324,"frac":1.2345678901234567e+19,"o":{"s":"1e+019","n":[1e-07]}}]`,
		`SELECT c.i64, c.u64, c.i64min, c.ovr, c.huge, c.dec, c.one, c.negzero, c.tiny, c.frac FROM c WHERE c.id = 'nums'`: `[{"i64":9007199254740993,"u64":1.8446744073709552e+19,"i64min":-9223372036854775808,"ovr":1.8446744073709552e+19,"huge":1.2345678901234568e+29,"dec":0.1,"one":1,"negzero":0,"tiny":4.94065645841247e-324,"frac":1.2345678901234567e+19}]`,
		`SELECT 1.0 AS a, 1e2 AS b, 12345678901234567890 AS c, -0.0 AS d, 0.1 + 0.2 AS e`:                                  `[{"a":1,"b":100,"c":1.2345678901234567e+19,"d":0,"e":0.30000000000000004}]`,
		`SELECT VALUE c.ovr FROM c`:                                           `[1.8446744073709552e+19]`,
		`SELECT VALUE c.o FROM c`:                                             `[{"s":"1e+019","n":[1e-07]}]`,
		`SELECT * FROM o IN c.o.n`:                                            `[1e-07]`,
		`SELECT VALUE [c.o, x] FROM c JOIN x IN c.o.n`:                        `[[{"s":"1e+019","n":[1e-07]},1e-07]]`,
		`SELECT VALUE TOSTRING(c.o) FROM c`:                                   `["{\"s\":\"1e+019\",\"n\":[1e-07]}"]`,
		`SELECT DISTINCT VALUE c.o FROM c`:                                    `[{"s":"1e+019","n":[1e-07]}]`,
		`SELECT c.o, MAX(c.huge) AS m FROM c GROUP BY c.o`:                    `[{"o":{"s":"1e+019","n":[1e-07]},"m":1.2345678901234568e+29}]`,
		`SELECT VALUE c.huge + 0 FROM c WHERE c.huge = 12.345678901234568e28`: `[1.2345678901234568e+29]`,
	} {
		rows, err := answer(t, text, nil, nums)
		if got := fmt.Sprintf("%s", rows); err != nil || got != fmt.Sprintf("%s", rawRows(t, want)) {
			t.Errorf("%s: %s (%v), want %s", text, got, err, want)
		}
	}
}

package canonical

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/changefeed-go/changefeed/internal/jsonscan"
)

// numbers maps numbers in documents to the texts in which the service returned them: in
// answers to a read, and in answers to a query. Those after the empty line are not
// recorded; they follow the same rules.
var numbers = []struct{ in, stored, queried string }{
	{"9007199254740993", "9007199254740993", "9007199254740993"},
	{"18446744073709551615", "18446744073709551615", "18446744073709551615"},
	{"-9223372036854775808", "-9223372036854775808", "-9223372036854775808"},
	{"18446744073709551616", "1.8446744073709552e+019", "1.8446744073709552e+19"},
	{"123456789012345678901234567890", "1.2345678901234568e+029", "1.2345678901234568e+29"},
	{"0.1000000000000000055511151231257827", "0.1", "0.1"},
	{"1.0", "1", "1"},
	{"-0.0", "0", "0"},
	{"1.7976931348623157e308", "1.7976931348623157e+308", "1.7976931348623157e+308"},
	{"5e-324", "4.94065645841247e-324", "4.94065645841247e-324"},
	{"1e-400", "0", "0"},
	{"12345678901234567890.123", "1.2345678901234567e+019", "1.2345678901234567e+19"},
	{"1.5", "1.5", "1.5"},
	{"42", "42", "42"},
	{"1e300", "1e+300", "1e+300"},

	{"-0", "0", "0"},
	{"-0e5", "0", "0"},
	{"0", "0", "0"},
	{"1e2", "100", "100"},
	{"1E+2", "100", "100"},
	{"12.50", "12.5", "12.5"},
	{"-0.10", "-0.1", "-0.1"},
	{"0.0001", "0.0001", "0.0001"},
	{"0.00001", "1e-005", "1e-05"},
	{"1.5e-7", "1.5e-007", "1.5e-07"},
	{"-1e-100", "-1e-100", "-1e-100"},
	{"1e15", "1000000000000000", "1000000000000000"},
	{"9007199254740993.0", "9007199254740992", "9007199254740992"},
	{"-9223372036854775808.0", "-9223372036854775808", "-9223372036854775808"},
	{"9223372036854775808.0", "9.2233720368547758e+018", "9.2233720368547758e+18"},
	{"-9223372036854775809", "-9223372036854775808", "-9223372036854775808"}, // a float64 that is an integer
	{"1e19", "1e+019", "1e+19"},
	{"0.30000000000000004", "0.30000000000000004", "0.30000000000000004"},
	{"0.3333333333333333", "0.33333333333333331", "0.33333333333333331"},
}

func TestNumbersHaveTheFormOfTheService(t *testing.T) {
	for _, c := range numbers {
		stored, err := Append([]byte("x"), []byte(c.in))
		if err != nil || string(stored) != "x"+c.stored {
			t.Errorf("%s is stored as %s, %v, want %s", c.in, stored[1:], err, c.stored)
		}
		if queried := AppendQueried([]byte("x"), stored[1:]); string(queried) != "x"+c.queried {
			t.Errorf("%s is queried as %s, want %s", c.in, queried[1:], c.queried)
		}
	}
	for f, want := range map[float64]string{1. / 3: "0.33333333333333331", 0.1 + math.Float64frombits(0x3FC999999999999A): "0.30000000000000004", 1.8446744073709552e19: "1.8446744073709552e+19", math.Copysign(0, -1): "0", 1e-9: "1e-09"} {
		if got := string(AppendFloat(nil, f)); got != want {
			t.Errorf("the float64 %g is written as %s, want %s", f, got, want)
		}
	}
}

func TestNumbersBeyondFloat64AreRefused(t *testing.T) {
	for _, text := range []string{"1e400", "-1.7976931348623159e308", "1" + strings.Repeat("0", 309)} {
		var beyond *RangeError
		if _, err := Append(nil, []byte(`{"a":[`+text+`]}`)); !errors.As(err, &beyond) || beyond.Text != text || len(err.Error()) > 100 {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestStringsAreKeptExceptHalvesOfPairs(t *testing.T) {
	for in, want := range map[string]string{
		`"a\u0000b"`:             `"a\u0000b"`,
		`"a\ud800b"`:             `"a` + "\uFFFD" + `b"`,
		`"\ud83d\ude00\uD83D"`:   `"\ud83d\ude00` + "\uFFFD" + `"`,
		`"\udc00\ud800"`:         `"` + "\uFFFD\uFFFD" + `"`,
		`"\ud800\u0041\ud800\n"`: `"` + "\uFFFD" + `\u0041` + "\uFFFD" + `\n"`,
		`"\\ud800 \\\ud800"`:     `"\\ud800 \\` + "\uFFFD" + `"`,
		`"\/\u00fc ü 😀\"\\"`:     `"\/\u00fc ü 😀\"\\"`,
		`{ "1 \" 1.0" : "\\" }`:  `{"1 \" 1.0":"\\"}`,
		`{"\udfff":"1e+019"}`:    `{"` + "\uFFFD" + `":"1e+019"}`,
		"[ \t\r\n]":              `[]`,
		`"a":[ ], "b" :null`:     `"a":[],"b":null`,
	} {
		if got, err := Append(nil, []byte(in)); err != nil || string(got) != want {
			t.Errorf("%s became %s, %v, want %s", in, got, err, want)
		}
	}
}

func TestQueriesShortenExponentsOnly(t *testing.T) {
	for in, want := range map[string]string{
		`{"e+019":"1e+019","a":[1e+019,-1.5e-007,1e+300]}`: `{"e+019":"1e+019","a":[1e+19,-1.5e-07,1e+300]}`,
		`{"a":"\"1e+019\\","b":1e-019}`:                    `{"a":"\"1e+019\\","b":1e-19}`,
		`1e+019`:                                           `1e+19`,
		`-1`:                                               `-1`,
		`"e-0`:                                             `"e-0`,
	} {
		if got := AppendQueried(nil, []byte(in)); string(got) != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
}

// The form of a float64 must read back as the same float64.
func TestFloatsSurviveTheirForm(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200_000 {
		f := math.Float64frombits(r.Uint64())
		if r.IntN(2) == 0 {
			f = r.NormFloat64() * math.Pow(10, float64(r.IntN(40)-20))
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			continue
		}
		text := AppendFloat(nil, f)
		if again, err := strconv.ParseFloat(string(text), 64); err != nil || again != f {
			t.Fatalf("%g was written as %s", f, text)
		}
		if stored, err := Append(nil, text); err != nil || !bytes.Equal(AppendQueried(nil, stored), text) {
			t.Fatalf("%s is stored as %s", text, stored)
		}
	}
}

// FuzzAppend checks four properties of canonical JSON: rewriting it again changes nothing,
// it has the same value, it has no white space, and the scanner knows when a text is
// canonical already. It also checks that a query's form has the same value.
func FuzzAppend(f *testing.F) {
	for _, n := range numbers {
		f.Add([]byte(`{"n":` + n.in + `, "m" : [` + n.in + ` , 1]}`))
	}
	for _, seed := range []string{`"\ud800\ud83d\ude00\\"`, ` { "a" : [ ] , "b":{} } `, `[1.5,0.05,-12,12.5,"1 e+019"]`, `[1e400]`, `[0.00012,123456.789012345]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := jsonscan.New(text, 64)
		s.AcceptHalves()
		s.Space()
		if s.Value(1) != nil || s.End() != nil {
			_, _ = Append(nil, text) // must not panic
			_ = AppendQueried(nil, text)
			return
		}
		want, exact := decode(text)
		got, err := Append(nil, text)
		if (err == nil) != exact {
			t.Fatalf("%q: %v", text, err)
		}
		if err != nil {
			return
		}
		if !s.Loose() && !bytes.Equal(got, text) {
			t.Fatalf("the scanner takes %q for canonical, which is %q", text, got)
		}
		if again, err := Append(nil, got); err != nil || !bytes.Equal(again, got) {
			t.Fatalf("%q became %q and then %q, %v", text, got, again, err)
		}
		for _, form := range [][]byte{got, AppendQueried(nil, got)} {
			if again, _ := decode(form); !reflect.DeepEqual(again, want) {
				t.Fatalf("%q became %q, which has another value", text, form)
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, form); err != nil || !bytes.Equal(compact.Bytes(), form) || !utf8.Valid(form) {
				t.Fatalf("%q became %q: %v", text, form, err)
			}
		}
	})
}

// decode returns the tokens of a JSON text. Integers of 64 bits keep their digits, and all
// other numbers are float64. exact is false if a number is beyond the range of a float64.
func decode(text []byte) (tokens []any, exact bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	exact = true
	for {
		token, err := d.Token()
		if err != nil {
			return tokens, exact && errors.Is(err, io.EOF)
		}
		if n, ok := token.(json.Number); ok {
			if token, err = valueOf(n.String()); err != nil {
				exact = false
			}
		}
		tokens = append(tokens, token)
	}
}

func valueOf(number string) (any, error) {
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		return n, nil
	}
	if n, err := strconv.ParseUint(number, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if f >= -1<<63 && f < 1<<63 && f == math.Trunc(f) {
		return int64(f), err
	}
	return f, err
}

package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

const depth = 20

// whole is a text's judgement: one value, and nothing but white space around it.
func whole(text []byte) error {
	s := New(text, depth)
	s.Space()
	if err := s.Value(1); err != nil {
		return err
	}
	return s.End()
}

func TestWhatIsNoJSONIsToldWithItsPlace(t *testing.T) {
	for _, c := range []struct {
		text      string
		at        int
		truncated bool
	}{
		{``, 0, true},
		{` `, 1, true},
		{`{`, 1, true},
		{`{"a"`, 4, true},
		{`{"a":`, 5, true},
		{`{"a":1`, 6, true},
		{`{"a":1,`, 7, true},
		{`{"a":1,}`, 7, false},
		{`{a:1}`, 1, false},
		{`[1,]`, 3, false},
		{`[1 2]`, 3, false},
		{`{} {}`, 3, false},
		{`1.`, 2, true},
		{`01`, 1, false},
		{`-`, 1, true},
		{`1e`, 2, true},
		{`1e+`, 3, true},
		{`+1`, 0, false},
		{`nul`, 0, false},
		{`"a`, 2, true},
		{"\"a\x01\"", 2, false},
		{`"\x"`, 2, false},
		{`"\u12"`, 2, false},
		{`"\ud800"`, 2, false},
		{`"\ud800\u0041"`, 2, false},
		{"\"\xff\"", 1, false},
		{"\"12345678\xc3", 9, false},
		{strings.Repeat("[", depth+1), depth, false},
		{`{"a":01}`, 6, false},
		{"\ufeff{}", 0, false},
	} {
		var bad *SyntaxError
		if err := whole([]byte(c.text)); !errors.As(err, &bad) || bad.Offset != c.at || bad.Truncated != c.truncated {
			t.Errorf("%.40q: %v; want an error at byte %d, truncated: %t", c.text, err, c.at, c.truncated)
		}
	}
}

func TestTextsAreDecodedAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]string{
		`"plain"`: "plain", `""`: "", `"ü€😀"`: "ü€😀", `"\u00fc\ud83d\ude00"`: "ü😀", `"\b\f\n\r\t\"\\\/"`: "\b\f\n\r\t\"\\/", `"_\u006csn"`: "_lsn",
	} {
		s := New([]byte(text), depth)
		got, err := s.Text()
		if err != nil || got.String() != want || !got.Is(want) || got.Is(want+"x") {
			t.Errorf("%s is %q, %v; want %q", text, got.String(), err, want)
		}
		if plain, ok := got.Plain(); ok != !strings.Contains(text, `\`) || ok && string(plain) != want {
			t.Errorf("%s is plain: %t, %q", text, ok, plain)
		}
	}
}

func TestIntTakesWholeNumbersOf64Bits(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "-0": 0, "17": 17, "-17": -17, "9223372036854775799": 9223372036854775799} {
		if n, err := New([]byte(text), depth).Int(); err != nil || n != want {
			t.Errorf("%s is %d, %v", text, n, err)
		}
	}
	for _, text := range []string{"1.5", "1e3", `"1"`, "", "92233720368547758070", "true", "-"} {
		if n, err := New([]byte(text), depth).Int(); err == nil {
			t.Errorf("%s is %d; want an error", text, n)
		}
	}
}

// jsontextAccepts is the judgement of a decoder that is known to be strict.
func jsontextAccepts(text []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadValue(); err != nil {
		return false
	}
	_, err := d.ReadToken()
	return errors.Is(err, io.EOF)
}

// The scanner accepts exactly what jsontext accepts, what is nested too deep aside; and what it takes for a string, encoding/json
// decodes to the same.
func FuzzScannerAgreesWithJSONText(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-2.5e3,"x\u00fc\ud83d\ude00",true,false,null,{}]}`, `[[[[]]]]`, `{"Documents":[{"id":"1","_lsn":12}],"_count":1}`, `"\ud800"`, "\"\xff\"", `1e5`, `{"a":}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		err := whole(text)
		if err != nil && strings.Contains(err.Error(), "nested") {
			return
		}
		if good := jsontextAccepts(text); good != (err == nil) {
			t.Fatalf("%q: %v; jsontext accepts it: %t", text, err, good)
		}
		s := New(text, depth)
		if got, err := s.Text(); err == nil {
			var want string
			if err := json.Unmarshal(text[:s.Offset()], &want); err != nil || want != got.String() {
				t.Fatalf("%q is %q; encoding/json: %q, %v", text, got.String(), want, err)
			}
		}
	})
}

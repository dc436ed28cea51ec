package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

const depth = 20

// whole returns an error unless text is one JSON value with nothing but white space
// around it.
func whole(text []byte) error {
	s := New(text, depth)
	s.Space()
	if err := s.Value(1); err != nil {
		return err
	}
	return s.End()
}

func TestSyntaxErrorsHaveAnOffset(t *testing.T) {
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

func TestTextsAreDecoded(t *testing.T) {
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

func TestIntTakesIntegersOf64Bits(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "-0": 0, "17": 17, "-17": -17, "9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64} {
		if n, err := New([]byte(text), depth).Int(); err != nil || n != want {
			t.Errorf("%s is %d, %v", text, n, err)
		}
	}
	for _, text := range []string{"1.5", "1e3", `"1"`, "", "9223372036854775808", "92233720368547758070", "true", "-"} {
		if n, err := New([]byte(text), depth).Int(); err == nil {
			t.Errorf("%s is %d; want an error", text, n)
		}
	}
}

// jsontextAccepts reports whether jsontext, which is strict, accepts a text.
func jsontextAccepts(text []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadValue(); err != nil {
		return false
	}
	_, err := d.ReadToken()
	return errors.Is(err, io.EOF)
}

// FuzzScannerAgreesWithJSONText checks that the scanner accepts the same texts as
// jsontext, up to its depth, and decodes strings like encoding/json.
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

// FuzzSkippingAgreesWithScanning checks that skipping values and scanning them byte by
// byte end at the same offset and find the same members.
func FuzzSkippingAgreesWithScanning(f *testing.F) {
	for _, seed := range []string{
		`{"_ts":1,"_lsn":12,"a":{"_ts":3},"_ts" : 2 }`, `{"a\\\"b\n\u00fc":"ü","_lsn":{"_lsn":[]}}x`, `[0.5e-1,-0,10,"12345678","1234567890\\"]`, `{"_tsx":0,"_t":[true,false,null]}`,
		`{"_\u0074s":1,"":0,"_ts":0}`, `00`, `-`, `1.e5`, `"1234567`, `{"_lsn" :1}`, strings.Repeat("[", 70), strings.Repeat(`{"a":`, 19) + "1" + strings.Repeat("}", 19),
	} {
		f.Add([]byte(seed))
	}
	names := []string{"_lsn", "_ts"}
	f.Fuzz(func(t *testing.T, text []byte) {
		slow := New(text, depth)
		err := slow.value(1)
		quick := New(text, depth)
		if ok := quick.skip(depth, nil); ok != (err == nil) || ok && (quick.i != slow.i || quick.loose != slow.loose) {
			t.Fatalf("%q: skipped up to %d, loose: %t; byte by byte up to %d, %t, %v", text, quick.i, quick.loose, slow.i, slow.loose, err)
		}
		if err != nil || text[0] != '{' {
			return
		}
		fast, slow := New(text, depth), New(text, depth)
		at, want := [2]int{}, [2]int{-1, -1}
		if err := slow.members(1, names, want[:]); err != nil {
			t.Fatal(err)
		}
		if err := fast.Members(1, names, at[:]); err != nil || at != want || fast.i != slow.i {
			t.Fatalf("%q: members at %v, and the end at %d, %v; byte by byte %v and %d", text, at, fast.i, err, want, slow.i)
		}
	})
}

func TestMembersOfTheOutermostObjectAreFound(t *testing.T) {
	deep := strings.Repeat("[", skipLevels) + strings.Repeat("]", skipLevels) // too deep to be skipped
	for _, c := range []struct{ text, lsn, ts string }{
		{`{"id":"x","_ts":17,"_lsn":12}`, "12", "17"},
		{`{"_lsn":1,"_lsn" : 2 , "_ts":3}`, "2 ", "3"},
		{`{"a":{"_lsn":1},"b":[{"_ts":2}],"_lsn":{"_ts":3}}`, `{"_ts":3}`, ""},
		{`{"_\u006csn":1,"_lsnx":2,"_l":3,"_":4,"":5}`, "", ""},
		{`{}`, "", ""},
		{`{"_ts":1,"a":` + deep + `,"_lsn":2}`, "2", "1"},
	} {
		s := New([]byte(c.text), skipLevels+1)
		var at [2]int
		if err := s.Members(1, []string{"_lsn", "_ts"}, at[:]); err != nil || s.Offset() != len(c.text) {
			t.Errorf("%s: %v, at %d", c.text, err, s.Offset())
		}
		for i, want := range []string{c.lsn, c.ts} {
			if at[i] < 0 && want == "" {
				continue
			}
			if at[i] < 0 || want == "" || !strings.HasPrefix(c.text[at[i]:], want) {
				t.Errorf("%s: member %d is at %d; want %q", c.text, i, at[i], want)
			}
		}
	}
	for _, text := range []string{``, `[]`, `1`, `{"a":}`, `{"_ts":1`} {
		if err := New([]byte(text), depth).Members(1, []string{"_ts"}, make([]int, 1)); err == nil {
			t.Errorf("%q is taken for an object", text)
		}
	}
}

// Text that is not loose is stored unchanged, so every deviation must be noticed at any
// depth, also where values are scanned byte by byte.
func TestLooseTextsAreNoticed(t *testing.T) {
	for text, want := range map[string]bool{
		`{"a":[1,-2,0,12.5,0.0001,-0.5,123456789012345678,true,null,"b c\u00fc"],"ü":{}}`: false,
		`[1 ]`: true, `[ 1]`: true, `[1, 2]`: true, `[1 ,2]`: true, `{"a": 1}`: true, `{"a" :1}`: true, "{\n}": true, "[\t]": true,
		`[-0]`: true, `[1.0]`: true, `[12.50]`: true, `[1e5]`: true, `[1E5]`: true, `[0.00001]`: true, `[-0.00001]`: true,
		`[1234567890123456789]`: true, `[1234.5678901234567]`: true, `["\ud83d\ude00"]`: false, `["\ud800"]`: true, `{"\udc00\ud800":1}`: true,
	} {
		deep := strings.Repeat("[", skipLevels) + text + strings.Repeat("]", skipLevels) // too deep to be skipped
		for _, text := range []string{text, deep} {
			s := New([]byte(text), skipLevels+3)
			s.AcceptHalves()
			if err := s.Value(1); err != nil || s.Loose() != want {
				t.Errorf("%s is loose: %t, %v", text, s.Loose(), err)
			}
		}
	}
}

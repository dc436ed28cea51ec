package patch

import (
	"errors"
	"strings"
	"testing"
)

func TestOperations(t *testing.T) {
	const doc = `{"a":1, "list":["x", "y"],"deep":{"b":{"c":true}},"n":1.50,"big":12345678901234567890,"text":"t"}`
	for _, c := range []struct{ ops, want string }{
		{`{"op":"add","path":"/new","value":{"k": 1e2}}`, `{"a":1, "list":["x", "y"],"deep":{"b":{"c":true}},"n":1.50,"big":12345678901234567890,"text":"t","new":{"k":100}}`},
		{`{"op":"add","path":"/a","value":null}`, `{"a":null, "list"`},
		{`{"op":"add","path":"/list/0","value":"w"}`, `"list":["w","x", "y"]`},
		{`{"op":"add","path":"/list/1","value":"w"}`, `"list":["x", "w","y"]`},
		{`{"op":"add","path":"/list/2","value":"w"}`, `"list":["x", "y","w"]`},
		{`{"op":"add","path":"/list/-","value":"w"}`, `"list":["x", "y","w"]`},
		{`{"op":"add","path":"/list/3","value":"w"}`, `! /list/3: the array has 2 elements`},
		{`{"op":"add","path":"/list/01","value":"w"}`, `! neither an index nor -`},
		{`{"op":"add","path":"/list/x","value":"w"}`, `! neither an index nor -`},
		{`{"op":"add","path":"/list/4294967297","value":"w"}`, `! neither an index nor -`},
		{`{"op":"add","path":"/none/x","value":1}`, `! there is no /none`},
		{`{"op":"add","path":"/a/x","value":1}`, `! /a is neither an object nor an array`},
		{`{"op":"add","path":"/deep/b/d","value":1}`, `"deep":{"b":{"c":true,"d":1}}`},
		{`{"op":"set","path":"/list/0","value":"w"}`, `"list":["w", "y"]`},
		{`{"op":"set","path":"/list/-","value":"w"}`, `"list":["x", "y","w"]`},
		{`{"op":"set","path":"/deep/b","value":[]}`, `"deep":{"b":[]}`},
		{`{"op":"set","path":"/n~0~1w","value":1}`, `"text":"t","n~/w":1}`},
		{`{"op":"set","path":"/\"q","value":1}`, `"text":"t","\"q":1}`},
		{`{"op":"set","path":"/","value":1}`, `"text":"t","":1}`},
		{`{"op":"replace","path":"/a","value":"x"}`, `{"a":"x", "list"`},
		{`{"op":"replace","path":"/list/1","value":2}`, `"list":["x", 2]`},
		{`{"op":"replace","path":"/none","value":2}`, `! there is no /none`},
		{`{"op":"replace","path":"/list/2","value":2}`, `! there is no /list/2`},
		{`{"op":"replace","path":"/list/-","value":2}`, `! there is no /list/-`},
		{`{"op":"remove","path":"/a"}`, `{"list":["x", "y"]`},
		{`{"op":"remove","path":"/text"}`, `"big":12345678901234567890}`},
		{`{"op":"remove","path":"/list/0"}`, `"list":["y"]`},
		{`{"op":"remove","path":"/list/1"}`, `"list":["x"]`},
		{`{"op":"remove","path":"/list/2"}`, `! there is no /list/2`},
		{`{"op":"remove","path":"/deep/b/c"}`, `"deep":{"b":{}}`},
		{`{"op":"remove","path":"/none"}`, `! there is no /none`},
		{`{"op":"incr","path":"/a","value":41}`, `{"a":42, "list"`},
		{`{"op":"incr","path":"/a","value":-1.5}`, `{"a":-0.5, "list"`},
		{`{"op":"incr","path":"/n","value":1}`, `"n":2.5,`},
		{`{"op":"incr","path":"/fresh","value":-3}`, `"text":"t","fresh":-3}`},
		{`{"op":"incr","path":"/big","value":1}`, `"big":1.2345678901234567e+19,`},
		{`{"op":"set","path":"/text","value":"\ud800"}`, "\"text\":\"\ufffd\""},
		{`{"op":"incr","path":"/text","value":1}`, `! is not a number`},
		{`{"op":"incr","path":"/deep","value":1}`, `! is not a number`},
		{`{"op":"move","from":"/a","path":"/z"}`, `{"list":["x", "y"],"deep":{"b":{"c":true}},"n":1.50,"big":12345678901234567890,"text":"t","z":1}`},
		{`{"op":"move","from":"/a","path":"/list/0"}`, `{"list":[1,"x", "y"]`},
		{`{"op":"move","from":"/list/0","path":"/list/1"}`, `"list":["y","x"]`},
		{`{"op":"move","from":"/list/0","path":"/a"}`, `{"a":"x", "list":["y"]`},
		{`{"op":"move","from":"/deep/b","path":"/deep"}`, `"deep":{"c":true},"n"`},
		{`{"op":"move","from":"/none","path":"/z"}`, `! there is no /none`},
		{`{"op":"move","from":"/a","path":"/a"}`, doc},
		{`{"op":"remove","path":"/a"},{"op":"remove","path":"/a"}`, `! operation 1 of the patch: remove: there is no /a`},
		{`{"op":"set","path":"/o","value":{}},{"op":"set","path":"/o/l","value":[]},{"op":"add","path":"/o/l/0","value":1},{"op":"add","path":"/o/l/-","value":2}`, `"o":{"l":[1,2]}}`},
	} {
		p, err := Parse([]byte("[" + c.ops + "]"))
		if err != nil {
			t.Errorf("%s: %v", c.ops, err)
			continue
		}
		got, err := p.Apply([]byte(doc))
		if refusal, is := strings.CutPrefix(c.want, "! "); is {
			if e := (*Error)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), refusal) {
				t.Errorf("%s: %v, want %q", c.ops, err, refusal)
			}
			continue
		}
		if err != nil || !strings.Contains(string(got), c.want) {
			t.Errorf("%s:\n got %s (%v)\nwant %s", c.ops, got, err, c.want)
		}
	}
}

func TestTheLastMemberOfANameCounts(t *testing.T) {
	const doc = `{"a":1,"b":2,"\u0061":3,"c":4}`
	for ops, want := range map[string]string{
		`[{"op":"incr","path":"/a","value":1}]`:    `{"a":1,"b":2,"\u0061":4,"c":4}`,
		`[{"op":"remove","path":"/a"}]`:            `{"b":2,"c":4}`,
		`[{"op":"move","from":"/a","path":"/b"}]`:  `{"b":3,"c":4}`,
		`[{"op":"set","path":"/c","value":"new"}]`: `{"a":1,"b":2,"\u0061":3,"c":"new"}`,
	} {
		p, err := Parse([]byte(ops))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Apply([]byte(doc)); err != nil || string(got) != want {
			t.Errorf("%s: %s (%v), want %s", ops, got, err, want)
		}
	}
}

func TestBothFormsOfABodyAreParsed(t *testing.T) {
	p, err := Parse([]byte(` {"condition":"from c where c.v = 3","operations":[{"op":"incr","path":"/v","value":1}]}`))
	if err != nil || p.Condition != "from c where c.v = 3" || len(p.operations) != 1 {
		t.Errorf("%+v (%v)", p, err)
	}
	if p, err = Parse([]byte(` [{"op":"set","path":"/v","value":null}]`)); err != nil || p.Condition != "" || string(p.operations[0].value) != "null" {
		t.Errorf("%+v (%v)", p, err)
	}
}

func TestInvalidPatchesAreRefused(t *testing.T) {
	for _, body := range []string{
		``, `x`, `7`, `[]`, `{}`, `{"operations":[]}`, `{"operations":7}`, `{"operations":[7]}`, `[{}]`, `[{"op":"test","path":"/a","value":1}]`,
		`[{"op":"set","value":1}]`, `[{"op":"set","path":"a","value":1}]`, `[{"op":"set","path":"","value":1}]`, `[{"op":"set","path":"/a"}]`,
		`[{"op":"set","path":"/a~2","value":1}]`, `[{"op":"set","path":"/a~","value":1}]`, `[{"op":"incr","path":"/a","value":"1"}]`, `[{"op":"move","path":"/a"}]`,
		`[{"op":"move","path":"/a/b","from":"/a"}]`, `[{"op":"add","path":"/a","value":1}`, "[{\"op\":\"add\",\"path\":\"/a\",\"value\":\"\xff\"}]",
		`[{"op":"add","path":"/a","value":{"b":1,"b":2}}]`,
		`[` + strings.Repeat(`{"op":"incr","path":"/a","value":1},`, MaxOperations) + `{"op":"incr","path":"/a","value":1}]`,
	} {
		if p, err := Parse([]byte(body)); err == nil {
			t.Errorf("%s is read as %+v", body, p)
		}
	}
}

func TestProtectedPathsAreNotPatched(t *testing.T) {
	protected := [][]string{{"id"}, {"key", "part"}}
	for op, refused := range map[string]bool{
		`{"op":"set","path":"/id","value":"2"}`:            true,
		`{"op":"remove","path":"/id"}`:                     true,
		`{"op":"set","path":"/id/x","value":"2"}`:          true,
		`{"op":"set","path":"/key","value":{}}`:            true,
		`{"op":"set","path":"/key/part","value":1}`:        true,
		`{"op":"set","path":"/key/other","value":1}`:       false,
		`{"op":"set","path":"/keys","value":1}`:            false,
		`{"op":"move","from":"/key/part","path":"/x"}`:     true,
		`{"op":"move","from":"/key","path":"/x"}`:          true,
		`{"op":"move","from":"/x","path":"/id"}`:           true,
		`{"op":"move","from":"/x/id","path":"/key/other"}`: false,
	} {
		p, err := Parse([]byte("[" + op + "]"))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(protected...); (err != nil) != refused {
			t.Errorf("%s: %v", op, err)
		}
	}
}

func TestApplyDoesNotChangeTheDocument(t *testing.T) {
	doc := []byte(`{"a":[1,2,3],"b":2}`)
	p, err := Parse([]byte(`[{"op":"remove","path":"/a/0"},{"op":"set","path":"/b","value":30000}]`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Apply(doc); err != nil || string(doc) != `{"a":[1,2,3],"b":2}` {
		t.Errorf("%s (%v)", doc, err)
	}
}

// A patch of an invalid document must return an error and must not panic. The store never
// has such documents.
func TestInvalidDocumentsAreAnError(t *testing.T) {
	p, err := Parse([]byte(`[{"op":"set","path":"/a/b","value":1}]`))
	if err != nil {
		t.Fatal(err)
	}
	const whole = `{"x":[1,{"y":"\\\""}],"a":{"c":1}}`
	for n := range len(whole) {
		if got, err := p.Apply([]byte(whole[:n])); err == nil {
			t.Errorf("%s became %s", whole[:n], got)
		}
	}
	for _, text := range []string{``, `"`, `"\`, `}`, `{]`, `{"a" 1}`, `{"a":}`, `{,}`, `[,]`} {
		if got, err := p.Apply([]byte(text)); err == nil {
			t.Errorf("%s became %s", text, got)
		}
	}
}

// Integers are added exactly as long as the sum has 64 bits. Beyond that, a sum that wraps
// around would have the wrong sign.
func TestIncrementsBeyond64BitsDoNotWrapAround(t *testing.T) {
	for _, c := range []struct{ old, by, want string }{
		{"9223372036854775806", "1", "9223372036854775807"},
		{"-9223372036854775807", "-1", "-9223372036854775808"},
		{"9223372036854775807", "-9223372036854775808", "-1"},
		{"9223372036854775807", "1", "9.2233720368547758e+18"},
		{"-9223372036854775808", "-1", "-9223372036854775808"}, // the nearest float64
		{"-9223372036854775808", "-9223372036854775808", "-1.8446744073709552e+19"},
		// The sum has the form in which the same number would be stored.
		{"9007199254740993000", "0.5", "9007199254740993024"},
		{"9007199254740993", "1.0", "9007199254740994"},
		{"1234567890123456789", "0.25", "1234567890123456768"},
	} {
		p, err := Parse([]byte(`[{"op":"incr","path":"/n","value":` + c.by + `}]`))
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Apply([]byte(`{"n":` + c.old + `}`))
		if want := `{"n":` + c.want + `}`; err != nil || string(got) != want {
			t.Errorf("%s + %s: %s, %v; want %s", c.old, c.by, got, err, want)
		}
	}
}

package patch

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzApply checks that a patch never panics. The patched document must be valid and
// equal to that of a simple implementation. Members that no operation names must keep
// every byte.
func FuzzApply(f *testing.F) {
	const doc = `{"a":1,"list":["x",{"y":2}],"deep":{"b":{"c":true}},"n":1.50,"":null}`
	for _, ops := range []string{
		`[{"op":"add","path":"/list/0","value":1},{"op":"move","from":"/list/2/y","path":"/z"}]`,
		`[{"op":"remove","path":"/deep/b"},{"op":"incr","path":"/a","value":2.5},{"op":"set","path":"/","value":[]}]`,
		`{"operations":[{"op":"replace","path":"/n","value":"~"},{"op":"add","path":"/list/-","value":{"~/":1}}],"condition":"x"}`,
	} {
		f.Add([]byte(doc), []byte(ops))
	}
	f.Fuzz(func(t *testing.T, doc, body []byte) {
		p, err := Parse(body)
		if err != nil {
			return
		}
		after, err := p.Apply(doc)
		if before := jsontext.Value(doc); !before.IsValid() || before.Kind() != '{' {
			return // for other documents, Apply must only not panic
		}
		slow, slowErr := applySlowly(t, doc, p)
		if (err != nil) != (slowErr != nil) {
			t.Fatalf("%s of %s: %v, slowly: %v", body, doc, err, slowErr)
		}
		if err != nil {
			return
		}
		if !jsontext.Value(after).IsValid() {
			t.Fatalf("%s changed %s to invalid JSON: %s", body, doc, after)
		}
		if got := decode(t, after); !reflect.DeepEqual(got, slow) {
			t.Fatalf("%s of %s:\n got %v\nwant %v", body, doc, got, slow)
		}
		kept := raw(t, after)
		for name, value := range raw(t, doc) {
			touched := slices.ContainsFunc(p.operations, func(o operation) bool { return o.path[0] == name || len(o.from) > 0 && o.from[0] == name })
			if !touched && !bytes.Equal(value, kept[name]) {
				t.Fatalf("%s changed member %q from %s to %s", body, name, value, kept[name])
			}
		}
	})
}

func decode(t *testing.T, text []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// raw returns the text of each member of an object, white space included.
func raw(t *testing.T, text []byte) map[string][]byte {
	t.Helper()
	m := map[string][]byte{}
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if _, err := d.ReadToken(); err != nil {
		t.Fatal(err)
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		key := name.String()
		value, valueErr := d.ReadValue()
		if err := errors.Join(err, valueErr); err != nil {
			t.Fatal(err)
		}
		m[key] = slices.Clone(value)
	}
	return m
}

var errSlow = errors.New("refused")

// applySlowly is the simple implementation: it decodes the document and applies the patch
// to the values.
func applySlowly(t *testing.T, doc []byte, p Patch) (v any, err error) {
	t.Helper()
	v = decode(t, doc)
	for _, op := range p.operations {
		switch op.kind {
		case "move":
			moved, ok := get(v, op.from)
			if !ok {
				return nil, errSlow
			}
			if slices.Equal(op.from, op.path) {
				continue
			}
			if v, err = put(v, op.from, "remove", nil); err == nil {
				v, err = put(v, op.path, "add", moved)
			}
		case "incr":
			old, ok := get(v, op.path)
			sum := decode(t, op.value)
			if ok {
				n, isNumber := old.(json.Number)
				text, sumErr := plus([]byte(n.String()), op.value)
				if !isNumber || sumErr != nil {
					return nil, errSlow
				}
				sum = decode(t, text)
			}
			v, err = put(v, op.path, "set", sum)
		case "remove":
			v, err = put(v, op.path, op.kind, nil)
		default:
			v, err = put(v, op.path, op.kind, decode(t, op.value))
		}
		if err != nil {
			return nil, err
		}
	}
	return v, nil
}

func get(v any, path pointer) (any, bool) {
	for _, name := range path {
		switch parent := v.(type) {
		case map[string]any:
			child, ok := parent[name]
			if !ok {
				return nil, false
			}
			v = child
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || strconv.Itoa(i) != name || i < 0 || i >= len(parent) {
				return nil, false
			}
			v = parent[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// put applies an operation at path and returns v.
func put(v any, path pointer, kind string, value any) (any, error) {
	name := path[0]
	var child any
	var there bool
	child, there = get(v, path[:1])
	if len(path) > 1 {
		if !there {
			return nil, errSlow
		}
		inner, err := put(child, path[1:], kind, value)
		if err != nil {
			return nil, err
		}
		kind, value = "replace", inner
	}
	if !there && (kind == "replace" || kind == "remove") {
		return nil, errSlow
	}
	switch parent := v.(type) {
	case map[string]any:
		if kind == "remove" {
			delete(parent, name)
		} else {
			parent[name] = value
		}
		return parent, nil
	case []any:
		i, err := strconv.Atoi(name)
		switch {
		case name == "-":
			i = len(parent)
		case err != nil || strconv.Itoa(i) != name || i < 0 || i > len(parent):
			return nil, errSlow
		}
		switch {
		case kind == "remove":
			return slices.Delete(slices.Clone(parent), i, i+1), nil
		case kind == "add" || i == len(parent):
			return slices.Insert(slices.Clone(parent), i, value), nil
		}
		parent[i] = value
		return parent, nil
	}
	return nil, errSlow
}

package server

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// member is a name and a value, as the value came.
type member struct {
	name  string
	value jsontext.Value
}

// members are a JSON object taken apart, in its order, so that what nobody here knows is given back as it came.
type object []member

// parseObject takes an object apart. Its errors are mistakes of the client.
func parseObject(body []byte) (m object, err error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, badRequest("the request has no body; it needs a JSON object")
	}
	// Unmarshalling checks the syntax, and that no name occurs twice.
	var whole jsontext.Value
	if err := json.Unmarshal(body, &whole); err != nil {
		return nil, badRequest("the body of the request is no JSON object: %v", err)
	}
	d := jsontext.NewDecoder(bytes.NewReader(whole))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, badRequest("the body of the request is JSON, but no object")
	}
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		name := t.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		m = append(m, member{name, value.Clone()})
	}
	return m, nil
}

// get is the value of a member; nil: there is none, or it is null.
func (m object) get(name string) jsontext.Value {
	for _, e := range m {
		if e.name == name && e.value.Kind() != 'n' {
			return e.value
		}
	}
	return nil
}

// set puts a member in the place of the one of its name, or behind all.
func (m *object) set(name string, value jsontext.Value) {
	for i := range *m {
		if (*m)[i].name == name {
			(*m)[i].value = value
			return
		}
	}
	*m = append(*m, member{name, value})
}

// setUnlessNil sets a member if its value is not nil.
func (m *object) setUnlessNil(name string, value jsontext.Value) {
	if value != nil {
		m.set(name, value)
	}
}

// setDefault is set, where there is no such member.
func (m *object) setDefault(name, value string) {
	if m.get(name) == nil {
		m.set(name, jsontext.Value(value))
	}
}

// text is a string as a JSON value.
func jsonString(s string) jsontext.Value {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		// Only bytes that are no UTF-8; they were replaced.
		return b
	}
	return b
}

// json writes the object.
func (m object) json() []byte {
	b := []byte{'{'}
	for i, e := range m {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, jsonString(e.name)...)
		b = append(b, ':')
		b = append(b, e.value...)
	}
	return append(b, '}')
}

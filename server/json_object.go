package server

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// member is a member of an object as the client sent it.
type member struct {
	name  string
	value jsontext.Value
}

// object is a JSON object as a list of members in their order. Unknown members are kept
// unchanged.
type object []member

// parseObject parses a JSON object. Its errors are answers to the client.
func parseObject(body []byte) (m object, err error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, badRequest("the request has no body; send a JSON object")
	}
	// Unmarshal checks the syntax, and that no name occurs twice.
	var whole jsontext.Value
	if err := json.Unmarshal(body, &whole); err != nil {
		return nil, badRequest("the body of the request is not a JSON object: %v", err)
	}
	d := jsontext.NewDecoder(bytes.NewReader(whole))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, badRequest("the body of the request is JSON, but not an object")
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

// get returns the value of a member. It returns nil if the member does not exist or is
// null.
func (m object) get(name string) jsontext.Value {
	for _, e := range m {
		if e.name == name && e.value.Kind() != 'n' {
			return e.value
		}
	}
	return nil
}

// set replaces the value of a member, or adds the member at the end.
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

// setDefault sets a member unless it exists.
func (m *object) setDefault(name, value string) {
	if m.get(name) == nil {
		m.set(name, jsontext.Value(value))
	}
}

// jsonString returns a string as a JSON value.
func jsonString(s string) jsontext.Value {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		// AppendQuote has replaced the bytes that are not UTF-8.
		return b
	}
	return b
}

// json returns the JSON of the object.
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

package server

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// member is one name and value of a JSON object. The value is the text that the client
// sent.
type member struct {
	name  string
	value jsontext.Value
}

// object is a JSON object as a list of its members, in the order of the text. So members
// that the server does not use are kept unchanged.
type object []member

// parseObject parses a JSON object. Its error is a 400 answer to the client.
func parseObject(body []byte) (m object, err error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, badRequest("the request has no body; send a JSON object")
	}
	// Unmarshal returns an error for invalid JSON, and for a name that occurs twice.
	var whole jsontext.Value
	if err := json.Unmarshal(body, &whole); err != nil {
		return nil, badRequest("the body of the request is not a JSON object: %s", jsonProblem(body, err))
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

// jsonProblem tells what is wrong with the JSON of a request, for its sender. err is the error
// of a decoder, whose own text may name types of this program.
func jsonProblem(body []byte, err error) string {
	var (
		kind   *stdjson.UnmarshalTypeError
		syntax *jsontext.SyntacticError
	)
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		return "the member " + memberPath(kind.Field) + " cannot be " + kind.Value
	case errors.As(err, &kind):
		return "it cannot be " + kind.Value
	case errors.As(err, &syntax) && errors.Is(err, jsontext.ErrDuplicateName):
		return "a member occurs twice, at byte " + strconv.FormatInt(syntax.ByteOffset, 10)
	case errors.As(err, &syntax):
		return "it is not JSON at byte " + strconv.FormatInt(syntax.ByteOffset, 10)
	case !stdjson.Valid(body):
		return "it is not JSON"
	}
	return "it has a value of another type"
}

// memberPath removes the names of embedded structs, which encoding/json has in the path of a
// member. Only they begin with an upper-case letter.
func memberPath(path string) string {
	names := slices.DeleteFunc(strings.Split(path, "."), func(name string) bool { return name != "" && name[0] <= 'Z' })
	return strings.Join(names, ".")
}

// get returns the value of the member name. It returns nil if there is no such member or
// its value is null.
func (m object) get(name string) jsontext.Value {
	for _, e := range m {
		if e.name == name && e.value.Kind() != 'n' {
			return e.value
		}
	}
	return nil
}

// set replaces the value of the member name. If there is no such member, set appends it.
func (m *object) set(name string, value jsontext.Value) {
	for i := range *m {
		if (*m)[i].name == name {
			(*m)[i].value = value
			return
		}
	}
	*m = append(*m, member{name, value})
}

// setUnlessNil is like set, but does nothing if the value is nil.
func (m *object) setUnlessNil(name string, value jsontext.Value) {
	if value != nil {
		m.set(name, value)
	}
}

// setDefault sets the member name if it is missing or null.
func (m *object) setDefault(name, value string) {
	if m.get(name) == nil {
		m.set(name, jsontext.Value(value))
	}
}

// jsonString returns a string as a JSON value.
func jsonString(s string) jsontext.Value {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		// The error means that s was not valid UTF-8. AppendQuote has replaced the
		// invalid bytes.
		return b
	}
	return b
}

// json returns the JSON text of the object.
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

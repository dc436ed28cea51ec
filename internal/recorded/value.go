package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// object is a JSON object with its members in order, because the order is a fact. Other
// JSON values are []any, string, bool, nil and json.Number, which keeps the digits.
type object []member

type member struct {
	name  string
	value any
}

func (o object) get(name string) (value any, ok bool) {
	i := slices.IndexFunc(o, func(m member) bool { return m.name == name })
	if i < 0 {
		return nil, false
	}
	return o[i].value, true
}

func (o object) names() (names []string) {
	for _, m := range o {
		names = append(names, m.name)
	}
	return names
}

// parse returns the value of a JSON text.
func parse(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := parseValue(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("there is text after the JSON value")
	}
	return v, nil
}

func parseValue(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		o := object{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			o = append(o, member{name.(string), v}) //nolint:errcheck,forcetypeassert // the decoder checks it
		}
		_, err = d.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	}
	return t, nil
}

// format returns a value as JSON, for messages.
func format(v any) string {
	switch v := v.(type) {
	case object:
		var b bytes.Buffer
		b.WriteByte('{')
		for i, m := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%q:%s", m.name, format(m.value))
		}
		b.WriteByte('}')
		return b.String()
	case []any:
		var b bytes.Buffer
		b.WriteByte('[')
		for i, x := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(format(x))
		}
		b.WriteByte(']')
		return b.String()
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

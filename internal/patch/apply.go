package patch

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/internal/canonical"
)

// Apply returns the document after all operations, which it applies in their order. doc
// is a JSON object. Apply neither changes nor keeps it. Errors are *[Error].
func (p Patch) Apply(doc []byte) ([]byte, error) {
	for i, op := range p.operations {
		after, err := op.apply(doc)
		if err != nil {
			return nil, &Error{i, op.kind + ": " + err.Error()}
		}
		doc = after
	}
	return doc, nil
}

func (op operation) apply(doc []byte) ([]byte, error) {
	if op.kind == "move" {
		return op.move(doc)
	}
	t, err := find(doc, op.path)
	if err != nil {
		return nil, err
	}
	switch op.kind {
	case "add":
		return t.add(doc, op.value), nil
	case "set":
		return t.set(doc, op.value), nil
	case "incr":
		if !t.found {
			return t.set(doc, op.value), nil
		}
		sum, err := plus(doc[t.value:t.end], op.value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op.path, err)
		}
		return t.replace(doc, sum), nil
	}
	if !t.found {
		return nil, fmt.Errorf("there is no %s", op.path)
	}
	if op.kind == "remove" {
		return remove(doc, op.path, t)
	}
	return t.replace(doc, op.value), nil
}

// move removes a value and adds it elsewhere. The path is an index after the removal.
func (op operation) move(doc []byte) ([]byte, error) {
	from, err := find(doc, op.from)
	if err != nil {
		return nil, err
	}
	if !from.found {
		return nil, fmt.Errorf("there is no %s", op.from)
	}
	if slices.Equal(op.from, op.path) {
		return slices.Clone(doc), nil
	}
	value := slices.Clone(doc[from.value:from.end])
	if doc, err = remove(doc, op.from, from); err != nil {
		return nil, err
	}
	to, err := find(doc, op.path)
	if err != nil {
		return nil, err
	}
	return to.add(doc, value), nil
}

// add carries out the operation add: it inserts an element into an array, or adds or
// replaces a member of an object.
func (t target) add(doc, value []byte) []byte {
	if t.object || !t.found {
		return t.set(doc, value)
	}
	return splice(doc, t.from, t.from, value, comma)
}

// set carries out the operation set: it replaces the target, or appends it to its parent
// if it does not exist.
func (t target) set(doc, value []byte) []byte {
	if t.found {
		return t.replace(doc, value)
	}
	var name []byte
	if t.object {
		// Only invalid UTF-8 is an error, and Parse refuses it.
		name, _ = jsontext.AppendQuote(nil, t.name)
		name = append(name, ':')
	}
	if t.last == 0 {
		return splice(doc, t.open, t.open, name, value)
	}
	return splice(doc, t.last, t.last, comma, name, value)
}

func (t target) replace(doc, value []byte) []byte { return splice(doc, t.value, t.end, value) }

// remove deletes the target t, which was found, and a comma next to it. It also deletes
// older members of the same name, because they would become visible.
func remove(doc []byte, path pointer, t target) ([]byte, error) {
	for {
		from, to := t.from, t.end
		switch {
		case t.before > 0:
			from = t.before
		case t.after > 0:
			to = t.after
		}
		doc = splice(doc, from, to)
		if !t.object {
			return doc, nil
		}
		var err error
		if t, err = find(doc, path); err != nil || !t.found {
			return doc, err
		}
	}
}

var comma = []byte(",")

// splice returns doc with doc[from:to] replaced by parts.
func splice(doc []byte, from, to int, parts ...[]byte) []byte {
	size := len(doc) - (to - from)
	for _, p := range parts {
		size += len(p)
	}
	out := append(make([]byte, 0, size), doc[:from]...)
	for _, p := range parts {
		out = append(out, p...)
	}
	return append(out, doc[to:]...)
}

// plus returns the sum of the JSON numbers old and by, in canonical form. Integers are added
// exactly if the sum fits in 64 bits. Other numbers are added as float64, as most readers of
// JSON do.
func plus(old, by []byte) ([]byte, error) {
	if k := jsontext.Value(old).Kind(); k != '0' {
		return nil, fmt.Errorf("%.40s is not a number", old)
	}
	a, errA := strconv.ParseInt(string(old), 10, 64)
	b, errB := strconv.ParseInt(string(by), 10, 64)
	if errA == nil && errB == nil && !(b > 0 && a > math.MaxInt64-b) && !(b < 0 && a < math.MinInt64-b) {
		return strconv.AppendInt(nil, a+b, 10), nil
	}
	x, errX := strconv.ParseFloat(strings.TrimSpace(string(old)), 64)
	y, errY := strconv.ParseFloat(string(by), 64)
	if err := errors.Join(errX, errY); err != nil || math.IsInf(x+y, 0) {
		return nil, errors.New("the sum is beyond the range of a double")
	}
	return canonical.AppendFloat(nil, x+y), nil
}

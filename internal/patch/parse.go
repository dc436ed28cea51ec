package patch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxOperations is how many operations a patch has at most: the service's limit.
const MaxOperations = 10

// Error tells what is wrong with a patch, or why it can't be applied to a document.
type Error struct {
	// Index is the place of the operation, from 0; -1: it is the patch as a whole.
	Index int
	// Detail says what is wrong, in words.
	Detail string
}

// Error names the operation and says what is wrong with it.
func (e *Error) Error() string {
	if e.Index < 0 {
		return "the patch " + e.Detail
	}
	return fmt.Sprintf("operation %d of the patch: %s", e.Index, e.Detail)
}

// Patch is what a request asks for.
type Patch struct {
	// Condition is the text of the condition ("from c where c.v = 3"); empty: there is none. It is not
	// looked at here.
	Condition  string
	operations []operation
}

// operation is one of a patch.
type operation struct {
	kind       string
	path, from pointer
	value      jsontext.Value
}

// pointer is a JSON pointer: its names, decoded.
type pointer []string

// String writes the pointer as it would be sent.
func (p pointer) String() string {
	var b strings.Builder
	for _, name := range p {
		b.WriteByte('/')
		b.WriteString(escapeName.Replace(name))
	}
	return b.String()
}

// Replacers are made once: to make one costs more than a whole patch.
var (
	escapeName     = strings.NewReplacer("~", "~0", "/", "~1")
	unescapeName   = strings.NewReplacer("~1", "/", "~0", "~")
	withoutEscapes = strings.NewReplacer("~0", "", "~1", "")
)

// parsePointer reads a JSON pointer to a part of a document.
func parsePointer(text string) (pointer, error) {
	if !strings.HasPrefix(text, "/") {
		return nil, fmt.Errorf("the path %.100q doesn't begin with a slash", text)
	}
	names := strings.Split(text[1:], "/")
	for i, name := range names {
		if strings.Contains(withoutEscapes.Replace(name), "~") {
			return nil, fmt.Errorf("the path %.100q has a tilde that is neither ~0 nor ~1", text)
		}
		names[i] = unescapeName.Replace(name)
	}
	return names, nil
}

// Parse reads the body of a patch: {"operations":[...],"condition":"..."}, or the operations alone. Errors are
// *[Error]. The patch doesn't share memory with body.
func Parse(body []byte) (Patch, error) {
	p, raw, err := split(body)
	if err != nil {
		return p, err
	}
	if len(raw) == 0 {
		return p, &Error{-1, "has no operations"}
	}
	if len(raw) > MaxOperations {
		return p, &Error{-1, fmt.Sprintf("has %d operations; at most %d are possible", len(raw), MaxOperations)}
	}
	for i, r := range raw {
		op, err := r.operation()
		if err != nil {
			return p, &Error{i, err.Error()}
		}
		p.operations = append(p.operations, op)
	}
	return p, nil
}

// rawOperation is an operation as it is sent.
type rawOperation struct {
	Op    string          `json:"op"`
	Path  *string         `json:"path"`
	From  *string         `json:"from"`
	Value json.RawMessage `json:"value"`
}

// split tells the two forms of a body apart.
func split(body []byte) (p Patch, raw []rawOperation, err error) {
	// The decoder below takes a name twice and bytes that are no UTF-8: both would get into the document.
	if v := jsontext.Value(bytes.TrimSpace(body)); !v.IsValid() {
		return p, nil, &Error{-1, "is no JSON"}
	} else if v.Kind() == '[' {
		err = json.Unmarshal(body, &raw)
	} else {
		spec := struct {
			Operations *[]rawOperation `json:"operations"`
			Condition  string          `json:"condition"`
		}{Operations: &raw}
		err = json.Unmarshal(body, &spec)
		p.Condition = spec.Condition
	}
	if err != nil {
		return p, nil, &Error{-1, "has not the form {\"operations\":[{\"op\":\"set\",\"path\":\"/a\",\"value\":1}]}: " + err.Error()}
	}
	return p, raw, nil
}

func (r rawOperation) operation() (op operation, err error) {
	op.kind, op.value = r.Op, jsontext.Value(r.Value)
	if !slices.Contains([]string{"add", "set", "replace", "remove", "incr", "move"}, op.kind) {
		return op, fmt.Errorf("%.40q is no operation; those are add, set, replace, remove, incr and move", op.kind)
	}
	if r.Path == nil {
		return op, fmt.Errorf("%s has no path", op.kind)
	}
	if op.path, err = parsePointer(*r.Path); err != nil {
		return op, err
	}
	switch op.kind {
	case "move":
		if r.From == nil {
			return op, fmt.Errorf("move has no from")
		}
		if op.from, err = parsePointer(*r.From); err != nil {
			return op, err
		}
		if len(op.path) > len(op.from) && slices.Equal(op.path[:len(op.from)], op.from) {
			return op, fmt.Errorf("%s can't be moved into itself, to %s", op.from, op.path)
		}
	case "remove":
	default:
		if len(op.value) == 0 {
			return op, fmt.Errorf("%s has no value", op.kind)
		}
	}
	if op.kind == "incr" && op.value.Kind() != '0' {
		return op, fmt.Errorf("the value of incr is a number, not %.40s", op.value)
	}
	return op, nil
}

// Check refuses a patch that touches what mustn't be patched: each of the paths, what is below, and what is above.
// The error is an *[Error].
func (p Patch) Check(protected ...[]string) error {
	for i, op := range p.operations {
		for _, path := range protected {
			if op.path.overlaps(path) || op.kind == "move" && op.from.overlaps(path) {
				return &Error{i, fmt.Sprintf("%s can't be patched", pointer(path))}
			}
		}
	}
	return nil
}

// overlaps reports whether one of the two paths leads to the other.
func (p pointer) overlaps(path []string) bool {
	n := min(len(p), len(path))
	return slices.Equal(p[:n], path[:n])
}

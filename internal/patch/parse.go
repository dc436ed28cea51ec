package patch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/internal/canonical"
)

// MaxOperations is the largest number of operations in a patch. It is the service's
// limit.
const MaxOperations = 10

// Error reports an invalid patch, or a patch that cannot be applied to a document.
type Error struct {
	// Index is the index of the operation, from 0. It is -1 if the whole patch is
	// invalid.
	Index int
	// Detail describes the mistake.
	Detail string
}

// Error returns the index of the operation and the mistake.
func (e *Error) Error() string {
	if e.Index < 0 {
		return "the patch " + e.Detail
	}
	return fmt.Sprintf("operation %d of the patch: %s", e.Index, e.Detail)
}

// Patch is a list of operations and a condition. [Parse] returns a Patch.
type Patch struct {
	// Condition is the text of the condition, such as "from c where c.v = 3". It is empty
	// if there is no condition. This package does not evaluate it.
	Condition  string
	operations []operation
}

// operation is one operation of a patch.
type operation struct {
	kind       string
	path, from pointer
	value      jsontext.Value
}

// pointer holds the decoded names of a JSON pointer.
type pointer []string

// String returns the pointer in the form of a request.
func (p pointer) String() string {
	var b strings.Builder
	for _, name := range p {
		b.WriteByte('/')
		b.WriteString(escapeName.Replace(name))
	}
	return b.String()
}

// Replacers are shared, because creating one takes longer than applying a patch.
var (
	escapeName     = strings.NewReplacer("~", "~0", "/", "~1")
	unescapeName   = strings.NewReplacer("~1", "/", "~0", "~")
	withoutEscapes = strings.NewReplacer("~0", "", "~1", "")
)

// parsePointer parses a JSON pointer. It refuses the pointer to the whole document.
func parsePointer(text string) (pointer, error) {
	if !strings.HasPrefix(text, "/") {
		return nil, fmt.Errorf("the path %.100q does not begin with a slash", text)
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

// Parse parses the body of a patch: {"operations":[...],"condition":"..."}, or the list
// of operations. Errors are *[Error]. The patch does not share memory with body.
func Parse(body []byte) (Patch, error) {
	p, raw, err := split(body)
	if err != nil {
		return p, err
	}
	if len(raw) == 0 {
		return p, &Error{-1, "has no operations"}
	}
	if len(raw) > MaxOperations {
		return p, &Error{-1, fmt.Sprintf("has %d operations; at most %d are allowed", len(raw), MaxOperations)}
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

// rawOperation is an operation as it is encoded in a request.
type rawOperation struct {
	Op    string          `json:"op"`
	Path  *string         `json:"path"`
	From  *string         `json:"from"`
	Value json.RawMessage `json:"value"`
}

// split decodes the body of a patch, which is an object or a list of operations.
func split(body []byte) (p Patch, raw []rawOperation, err error) {
	if body, err = canonical.Tolerant(body); err != nil {
		return p, nil, &Error{-1, "cannot be read: " + err.Error()}
	}
	// The decoder below accepts duplicate names and invalid UTF-8. Both would get into
	// the document.
	if v := jsontext.Value(bytes.TrimSpace(body)); !v.IsValid() {
		return p, nil, &Error{-1, "is not JSON"}
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
		return p, nil, &Error{-1, "is not of the form {\"operations\":[{\"op\":\"set\",\"path\":\"/a\",\"value\":1}]}"}
	}
	return p, raw, nil
}

func (r rawOperation) operation() (op operation, err error) {
	op.kind, op.value = r.Op, jsontext.Value(r.Value)
	if !slices.Contains([]string{"add", "set", "replace", "remove", "incr", "move"}, op.kind) {
		return op, fmt.Errorf("%.40q is not an operation; the operations are add, set, replace, remove, incr and move", op.kind)
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
			return op, errors.New("move has no from")
		}
		if op.from, err = parsePointer(*r.From); err != nil {
			return op, err
		}
		if len(op.path) > len(op.from) && slices.Equal(op.path[:len(op.from)], op.from) {
			return op, fmt.Errorf("cannot move %s into itself, to %s", op.from, op.path)
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

// Check returns an *[Error] if the patch changes a protected path, a value below it, or a
// value above it.
func (p Patch) Check(protected ...[]string) error {
	for i, op := range p.operations {
		for _, path := range protected {
			if op.path.overlaps(path) || op.kind == "move" && op.from.overlaps(path) {
				return &Error{i, fmt.Sprintf("%s is protected", pointer(path))}
			}
		}
	}
	return nil
}

// overlaps reports whether p and path are equal, or one of them is a prefix of the other.
func (p pointer) overlaps(path []string) bool {
	n := min(len(p), len(path))
	return slices.Equal(p[:n], path[:n])
}

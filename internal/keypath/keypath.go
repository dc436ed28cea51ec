// Package keypath reads the paths of partition keys and unique keys: /a, /a/b, or
// /"quoted name"/b. [Parse] splits a path into names. [Lookup] returns the value that the
// names lead to in a decoded document, and [Find] the text of that value in one that is not
// decoded.
package keypath

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/changefeed-go/changefeed/internal/jsonscan"
)

// The errors of Parse. They do not contain the path, because the callers of Parse add it.
var (
	errSlash = errors.New("each name begins with a slash")
	errQuote = errors.New("the quoted name is not a JSON string")
	errName  = errors.New("a name is empty or not UTF-8")
)

// Parse returns the names of a path, from the top of the document to the value. A name in
// quotes is a JSON string. The empty path has no names.
func Parse(path string) ([]string, error) {
	var names []string
	for rest := path; rest != ""; {
		var rooted bool
		if rest, rooted = strings.CutPrefix(rest, "/"); !rooted {
			return nil, errSlash
		}
		var name string
		if strings.HasPrefix(rest, `"`) {
			s := jsonscan.New([]byte(rest), 1)
			t, err := s.Text()
			if err != nil {
				return nil, errQuote
			}
			name, rest = t.String(), rest[s.Offset():]
		} else {
			end := strings.IndexByte(rest, '/')
			if end < 0 {
				end = len(rest)
			}
			name, rest = rest[:end], rest[end:]
		}
		if name == "" || !utf8.ValidString(name) {
			return nil, errName
		}
		names = append(names, name)
	}
	return names, nil
}

// Lookup returns the value that names lead to in a decoded JSON value, and whether there
// is one.
func Lookup(value any, names []string) (any, bool) {
	for _, name := range names {
		object, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		if value, ok = object[name]; !ok {
			return nil, false
		}
	}
	return value, true
}

// maxDepth is the deepest nesting of a document that Find reads, which is that of
// encoding/json.
const maxDepth = 10_000

// Find returns the text of the value that names lead to in a JSON document, or nil if there is
// none. If an object has several members of a name, the first one counts. The text after the
// value is not read. The result shares the document's memory.
func Find(document []byte, names []string) ([]byte, error) {
	in := jsonscan.New(document, maxDepth)
	in.Space()
	for depth, name := range names {
		if in.Peek() != '{' {
			return nil, in.Value(depth + 1)
		}
		found, err := enter(in, depth+1, name)
		if err != nil || !found {
			return nil, err
		}
	}
	from := in.Offset()
	if err := in.Value(len(names) + 1); err != nil {
		return nil, err
	}
	return in.Slice(from), nil
}

// enter moves the scanner from the beginning of an object to the value of a member, and reports
// whether there is one.
func enter(in *jsonscan.Scanner, depth int, want string) (found bool, err error) {
	more, err := in.Object(depth)
	for ; more && err == nil; more, err = in.Next('}') {
		name, err := in.Name()
		if err != nil {
			return false, err
		}
		if name.Is(want) {
			return true, nil
		}
		if err := in.Value(depth + 1); err != nil {
			return false, err
		}
	}
	return false, err
}

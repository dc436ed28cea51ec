// Package keypath reads the paths of partition keys and unique keys: /a, /a/b, or
// /"quoted name"/b. [Parse] splits a path into names. [Lookup] returns the value that the
// names lead to in a decoded document.
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

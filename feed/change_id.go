package feed

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// The reasons why topLevelString finds nothing.
var (
	errNotAnObject = errors.New("not a JSON object")
	errNoMember    = errors.New("no such member")
	errNotAString  = errors.New("not a string")
)

// topLevelString returns the string value of the first top-level member called
// name. It steps over what lies before it and looks at nothing behind it, so it
// doesn't validate: on text that isn't JSON it returns an error or some string,
// and never panics.
func topLevelString(object []byte, name string) (string, error) {
	i := skipSpace(object, 0)
	if i >= len(object) || object[i] != '{' {
		return "", errNotAnObject
	}
	for i++; ; i++ {
		start := skipSpace(object, i)
		end := skipString(object, start)
		if end < 0 {
			if start < len(object) && object[start] == '}' {
				return "", errNoMember
			}
			return "", errNotAnObject
		}
		key := object[start:end]
		i = skipSpace(object, end)
		if i >= len(object) || object[i] != ':' {
			return "", errNotAnObject
		}
		i = skipSpace(object, i+1)
		if isText(key, name) {
			end = skipString(object, i)
			if end < 0 {
				return "", errNotAString
			}
			return unquote(object[i:end])
		}
		if i = skipValue(object, i); i < 0 {
			return "", errNotAnObject
		}
		i = skipSpace(object, i)
		if i >= len(object) || object[i] != ',' {
			if i < len(object) && object[i] == '}' {
				return "", errNoMember
			}
			return "", errNotAnObject
		}
	}
}

// isText reports whether the quoted JSON string reads text.
func isText(quoted []byte, text string) bool {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1:len(quoted)-1]) == text
	}
	s, err := unquote(quoted)
	return err == nil && s == text
}

// unquote decodes a JSON string, quotes included.
func unquote(quoted []byte) (string, error) {
	if text := quoted[1 : len(quoted)-1]; isPlain(text) {
		return string(text), nil
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return "", errNotAString
	}
	return s, nil
}

// isPlain reports whether a string stands for itself: ASCII without escapes and
// control characters, as nearly all ids are.
func isPlain(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// skipSpace returns the index of the first byte at or after i that isn't white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index behind the string that starts at i, -1 when none does.
func skipString(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// skipValue returns the index behind the value that starts at i, -1 when it doesn't end.
func skipValue(b []byte, i int) int {
	depth, start := 0, i
	for i < len(b) {
		switch b[i] {
		case '"':
			if i = skipString(b, i); i < 0 {
				return -1
			}
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // the object around a number or a literal ends
				return behindValue(start, i)
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return behindValue(start, i)
			}
		}
		i++
	}
	return -1
}

// behindValue is end, or -1 when nothing stands between start and end.
func behindValue(start, end int) int {
	if end == start {
		return -1
	}
	return end
}

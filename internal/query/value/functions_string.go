package value

import (
	"bytes"
	"time"
	"unicode"
	"unicode/utf8"
)

// stringFunctions holds the string functions. Lengths and positions count characters
// (code points), from 0. The result is undefined if a string or an integer is expected
// and the argument is something else.
var stringFunctions = map[string]Function{
	"CONCAT":          {class: classString, min: 2, max: many, eval: ofKind(String, concat)},
	"CONTAINS":        {class: classString, min: 2, max: 3, eval: onStrings(bytes.Contains, foldContains)},
	"CONTAINS_ALL_CI": {class: classString, min: 2, max: many, prepare: containsEach(true, False, True)},
	"CONTAINS_ALL_CS": {class: classString, min: 2, max: many, prepare: containsEach(false, False, True)},
	"CONTAINS_ANY_CI": {class: classString, min: 2, max: many, prepare: containsEach(true, True, False)},
	"CONTAINS_ANY_CS": {class: classString, min: 2, max: many, prepare: containsEach(false, True, False)},
	"ENDSWITH":        {class: classString, min: 2, max: 3, eval: onStrings(bytes.HasSuffix, foldSuffix)},
	"INDEX_OF":        {class: classString, min: 2, max: 3, eval: indexOf},
	"LASTINDEXOF":     {class: classString, min: 2, max: 3, eval: lastIndexOf},
	"LEFT":            {class: classString, min: 2, max: 2, eval: left},
	"LENGTH":          {class: classString, min: 1, max: 1, eval: ofKind(String, length)},
	"LOWER":           {class: classString, min: 1, max: 1, eval: onString(bytes.ToLower)},
	"LTRIM":           {class: classString, min: 1, max: 2, eval: trimmed(bytes.TrimLeftFunc)},
	"REGEXMATCH":      {class: classString, min: 2, max: 3, prepare: regexMatch},
	"REPLACE":         {class: classString, min: 3, max: 3, eval: ofKind(String, replace)},
	"REPLICATE":       {class: classString, min: 2, max: 2, eval: replicate},
	"REVERSE":         {class: classString, min: 1, max: 1, eval: onString(reverse)},
	"RIGHT":           {class: classString, min: 2, max: 2, eval: right},
	"RTRIM":           {class: classString, min: 1, max: 2, eval: trimmed(bytes.TrimRightFunc)},
	"STARTSWITH":      {class: classString, min: 2, max: 3, eval: onStrings(bytes.HasPrefix, foldPrefix)},
	"STRINGEQUALS":    {class: classString, min: 2, max: 3, eval: onStrings(bytes.Equal, foldEqual)},
	"STRINGJOIN":      {class: classString, min: 2, max: 2, eval: stringJoin},
	"STRINGSPLIT":     {class: classString, min: 2, max: 2, eval: ofKind(String, stringSplit)},
	"SUBSTRING":       {class: classString, min: 3, max: 3, eval: substring},
	"TRIM":            {class: classString, min: 1, max: 2, eval: trimmed(bytes.TrimFunc)},
	"UPPER":           {class: classString, min: 1, max: 1, eval: onString(bytes.ToUpper)},
}

// areStrings reports whether all values are strings.
func areStrings(a []Value) bool {
	for _, v := range a {
		if v.Kind != String {
			return false
		}
	}
	return true
}

func onString(f func(s []byte) []byte) func([]Value) Value {
	return ofKind(String, func(a []Value) Value { return ofBytes(f(a[0].Bytes)) })
}

// onStrings returns an eval function that calls f with two strings. If the third argument
// is true, case is ignored; ascii is a faster f for that case.
func onStrings(f func(s, sub []byte) bool, ascii func(s, sub []byte) (found, done bool)) func([]Value) Value {
	ignoringCase := withoutCase(f, ascii)
	return func(a []Value) Value {
		if !areStrings(a[:2]) {
			return Value{}
		}
		if len(a) == 3 {
			switch a[2].Kind {
			case True:
				return OfBool(ignoringCase(a[0].Bytes, a[1].Bytes))
			case False:
			default:
				return Value{}
			}
		}
		return OfBool(f(a[0].Bytes, a[1].Bytes))
	}
}

// containsEach evaluates CONTAINS_ANY_CI and similar functions. It searches the first
// argument for each of the others, of which there may be thousands. If one search has the
// result decides, the call has it, too.
func containsEach(ignoreCase bool, decides, otherwise Kind) func(time.Time) func(Budget, []Value) Value {
	contains := bytes.Contains
	if ignoreCase {
		contains = withoutCase(bytes.Contains, foldContains)
	}
	each := func(b Budget, a []Value) Value {
		if a[0].Kind != String {
			return Value{}
		}
		result := Value{Kind: otherwise}
		for _, sub := range a[1:] {
			if !b.Spend(len(a[0].Bytes)) {
				return Value{}
			}
			if sub.Kind != String {
				result = Value{}
			} else if v := OfBool(contains(a[0].Bytes, sub.Bytes)); v.Kind == decides {
				return v
			}
		}
		return result
	}
	return func(time.Time) func(Budget, []Value) Value { return each }
}

func concat(a []Value) Value {
	n := 0
	for _, v := range a {
		n += len(v.Bytes)
	}
	if n > maxMade {
		return tooLong()
	}
	b := make([]byte, 0, n)
	for _, v := range a {
		b = append(b, v.Bytes...)
	}
	return ofBytes(b)
}

func length(a []Value) Value {
	return OfInt(int64(utf8.RuneCount(a[0].Bytes)))
}

// offsetOf returns the byte offset of the n-th character of s, or len(s) if s is shorter.
func offsetOf(s []byte, n int64) int {
	at := 0
	for ; n > 0 && at < len(s); n-- {
		_, size := utf8.DecodeRune(s[at:])
		at += size
	}
	return at
}

func left(a []Value) Value {
	n, ok := a[1].Int()
	if a[0].Kind != String || !ok {
		return Value{}
	}
	return ofBytes(a[0].Bytes[:offsetOf(a[0].Bytes, n)])
}

func right(a []Value) Value {
	n, ok := a[1].Int()
	if a[0].Kind != String || !ok {
		return Value{}
	}
	all := int64(utf8.RuneCount(a[0].Bytes))
	if n <= 0 {
		return ofBytes(nil)
	}
	return ofBytes(a[0].Bytes[offsetOf(a[0].Bytes, all-min(n, all)):])
}

// substring evaluates SUBSTRING. For a position outside of the string, or a length that
// is not positive, the result is the empty string.
func substring(a []Value) Value {
	start, ok1 := a[1].Int()
	n, ok2 := a[2].Int()
	if a[0].Kind != String || !ok1 || !ok2 {
		return Value{}
	}
	if start < 0 || n <= 0 {
		return ofBytes(nil)
	}
	s := a[0].Bytes[offsetOf(a[0].Bytes, start):]
	return ofBytes(s[:offsetOf(s, n)])
}

func indexOf(a []Value) Value {
	if !areStrings(a[:2]) {
		return Value{}
	}
	s, from := a[0].Bytes, int64(0)
	if len(a) == 3 {
		var ok bool
		if from, ok = a[2].Int(); !ok || from < 0 {
			return Value{}
		}
		if from > int64(utf8.RuneCount(s)) {
			return OfInt(-1)
		}
		s = s[offsetOf(s, from):]
	}
	i := bytes.Index(s, a[1].Bytes)
	if i < 0 {
		return OfInt(-1)
	}
	return OfInt(from + int64(utf8.RuneCount(s[:i])))
}

// lastIndexOf evaluates LASTINDEXOF: it returns the position of the last match. The third
// argument is the position at or before which the match must end.
func lastIndexOf(a []Value) Value {
	if !areStrings(a[:2]) {
		return Value{}
	}
	s := a[0].Bytes
	if len(a) == 3 {
		from, ok := a[2].Int()
		if !ok || from < 0 {
			return Value{}
		}
		if from < int64(len(s)) {
			s = s[:offsetOf(s, from+1)]
		}
	}
	i := bytes.LastIndex(s, a[1].Bytes)
	if i < 0 {
		return OfInt(-1)
	}
	return OfInt(int64(utf8.RuneCount(s[:i])))
}

// trimmed evaluates TRIM, LTRIM and RTRIM. It removes white space, or the characters in
// the second argument.
func trimmed(trim func(s []byte, f func(rune) bool) []byte) func([]Value) Value {
	return ofKind(String, func(a []Value) Value {
		away := unicode.IsSpace
		if len(a) == 2 {
			away = oneOf(a[1].Bytes)
		}
		return ofBytes(trim(a[0].Bytes, away))
	})
}

// oneOf returns a function that reports whether a character is one of several. It uses a
// map for many of them, because a linear search for each character of a long string would
// take too long.
func oneOf(characters []byte) func(rune) bool {
	if len(characters) <= maxFolded {
		return func(r rune) bool { return bytes.ContainsRune(characters, r) }
	}
	set := map[rune]bool{}
	for _, r := range string(characters) {
		set[r] = true
	}
	return func(r rune) bool { return set[r] }
}

// replace evaluates REPLACE. Replacing the empty string has no defined result, because
// the empty string is at every position.
func replace(a []Value) Value {
	if len(a[1].Bytes) == 0 {
		return Value{}
	}
	s, old, with := a[0].Bytes, a[1].Bytes, a[2].Bytes
	n := bytes.Count(s, old)
	if n == 0 {
		return a[0]
	}
	if len(s)+n*(len(with)-len(old)) > maxMade {
		return tooLong()
	}
	return ofBytes(bytes.ReplaceAll(s, old, with))
}

// maxReplicated is the service's limit of the result of REPLICATE, in characters.
const maxReplicated = 10_000

func replicate(a []Value) Value {
	n := a[1].float
	if a[0].Kind != String || a[1].Kind != Number || !(n >= 0) {
		return Value{}
	}
	if len(a[0].Bytes) == 0 {
		return ofBytes(nil)
	}
	if n > maxReplicated || utf8.RuneCount(a[0].Bytes)*int(n) > maxReplicated {
		return Value{}
	}
	return ofBytes(bytes.Repeat(a[0].Bytes, int(n)))
}

func reverse(s []byte) []byte {
	out := make([]byte, 0, len(s))
	for len(s) > 0 {
		_, size := utf8.DecodeLastRune(s)
		out = append(out, s[len(s)-size:]...)
		s = s[:len(s)-size]
	}
	return out
}

func stringJoin(a []Value) Value {
	if a[0].Kind != Array || a[1].Kind != String {
		return Value{}
	}
	var out []byte
	v := ofBytes(nil)
	EachElement(a[0].Bytes, func(i int, raw []byte) bool {
		s := Decode(raw)
		switch {
		case s.Kind != String:
			v = Value{}
			return false
		case len(out)+len(a[1].Bytes)+len(s.Bytes) > maxMade:
			v = tooLong()
			return false
		}
		if i > 0 {
			out = append(out, a[1].Bytes...)
		}
		out = append(out, s.Bytes...)
		return true
	})
	if v.Kind == String {
		v.Bytes = out
	}
	return v
}

// stringSplit evaluates STRINGSPLIT. With an empty separator, the result has the whole
// string as its only element.
func stringSplit(a []Value) Value {
	var out arrayBuilder
	rest, separator := a[0].Bytes, a[1].Bytes
	for more := true; more && !out.full(); {
		part := rest
		if more = len(separator) > 0; more {
			part, rest, more = bytes.Cut(rest, separator)
		}
		out.add(ofBytes(part))
	}
	return out.value()
}

package query

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// stringFunctions are the functions of strings. Lengths and places count
// characters (code points), from 0. What isn't a string makes the result
// undefined, and so does a number that should be an integer and isn't.
var stringFunctions = map[string]function{
	"CONCAT":          {class: classString, min: 2, max: many, eval: concat},
	"CONTAINS":        {class: classString, min: 2, max: 3, eval: onStrings(bytes.Contains, foldContains)},
	"CONTAINS_ALL_CI": {class: classString, min: 2, max: many, prepare: containsAll(true)},
	"CONTAINS_ALL_CS": {class: classString, min: 2, max: many, prepare: containsAll(false)},
	"CONTAINS_ANY_CI": {class: classString, min: 2, max: many, prepare: containsAny(true)},
	"CONTAINS_ANY_CS": {class: classString, min: 2, max: many, prepare: containsAny(false)},
	"ENDSWITH":        {class: classString, min: 2, max: 3, eval: onStrings(bytes.HasSuffix, foldSuffix)},
	"INDEX_OF":        {class: classString, min: 2, max: 3, eval: indexOf},
	"LASTINDEXOF":     {class: classString, min: 2, max: 3, eval: lastIndexOf},
	"LEFT":            {class: classString, min: 2, max: 2, eval: left},
	"LENGTH":          {class: classString, min: 1, max: 1, eval: length},
	"LOWER":           {class: classString, min: 1, max: 1, eval: onString(bytes.ToLower)},
	"LTRIM":           {class: classString, min: 1, max: 2, eval: trimmed(bytes.TrimLeftFunc)},
	"REGEXMATCH":      {class: classString, min: 2, max: 3, prepare: regexMatch},
	"REPLACE":         {class: classString, min: 3, max: 3, eval: replace},
	"REPLICATE":       {class: classString, min: 2, max: 2, eval: replicate},
	"REVERSE":         {class: classString, min: 1, max: 1, eval: onString(reverse)},
	"RIGHT":           {class: classString, min: 2, max: 2, eval: right},
	"RTRIM":           {class: classString, min: 1, max: 2, eval: trimmed(bytes.TrimRightFunc)},
	"STARTSWITH":      {class: classString, min: 2, max: 3, eval: onStrings(bytes.HasPrefix, foldPrefix)},
	"STRINGEQUALS":    {class: classString, min: 2, max: 3, eval: onStrings(bytes.Equal, foldEqual)},
	"STRINGJOIN":      {class: classString, min: 2, max: 2, eval: stringJoin},
	"STRINGSPLIT":     {class: classString, min: 2, max: 2, eval: stringSplit},
	"SUBSTRING":       {class: classString, min: 3, max: 3, eval: substring},
	"TRIM":            {class: classString, min: 1, max: 2, eval: trimmed(bytes.TrimFunc)},
	"UPPER":           {class: classString, min: 1, max: 1, eval: onString(bytes.ToUpper)},
}

// areStrings says whether all values are strings.
func areStrings(a []value) bool {
	for _, v := range a {
		if v.kind != kindString {
			return false
		}
	}
	return true
}

func onString(f func(s []byte) []byte) func([]value) value {
	return func(a []value) value {
		if !areStrings(a) {
			return value{}
		}
		return stringValue(f(a[0].b))
	}
}

// onStrings is a function of two strings; a third argument of true ignores case.
func onStrings(f func(s, sub []byte) bool, ascii func(s, sub []byte) (found, done bool)) func([]value) value {
	ignoringCase := withoutCase(f, ascii)
	return func(a []value) value {
		if !areStrings(a[:2]) {
			return value{}
		}
		if len(a) == 3 {
			switch a[2].kind {
			case kindTrue:
				return boolOf(ignoringCase(a[0].b, a[1].b))
			case kindFalse:
			default:
				return value{}
			}
		}
		return boolOf(f(a[0].b, a[1].b))
	}
}

// containsAll is CONTAINS of each further argument, joined by AND.
func containsAll(ignoreCase bool) func(site) func(budget, []value) value {
	return containsEach(ignoreCase, kindFalse, kindTrue)
}

// containsAny is CONTAINS of each further argument, joined by OR.
func containsAny(ignoreCase bool) func(site) func(budget, []value) value {
	return containsEach(ignoreCase, kindTrue, kindFalse)
}

// containsEach goes over the first argument once for each of the others, of which there may be thousands.
func containsEach(ignoreCase bool, decides, otherwise kind) func(site) func(budget, []value) value {
	contains := bytes.Contains
	if ignoreCase {
		contains = withoutCase(bytes.Contains, foldContains)
	}
	each := func(b budget, a []value) value {
		if a[0].kind != kindString {
			return value{}
		}
		result := value{kind: otherwise}
		for _, sub := range a[1:] {
			if !b.spend(len(a[0].b)) {
				return value{}
			}
			if sub.kind != kindString {
				result = value{}
			} else if v := boolOf(contains(a[0].b, sub.b)); v.kind == decides {
				return v
			}
		}
		return result
	}
	return func(site) func(budget, []value) value { return each }
}

func concat(a []value) value {
	if !areStrings(a) {
		return value{}
	}
	n := 0
	for _, v := range a {
		n += len(v.b)
	}
	if n > maxMade {
		return tooLong()
	}
	b := make([]byte, 0, n)
	for _, v := range a {
		b = append(b, v.b...)
	}
	return stringValue(b)
}

func length(a []value) value {
	if !areStrings(a) {
		return value{}
	}
	return numberOf(float64(utf8.RuneCount(a[0].b)))
}

// placeOf returns where the n-th character of s begins, len(s) if there are
// fewer.
func placeOf(s []byte, n int64) int {
	at := 0
	for ; n > 0 && at < len(s); n-- {
		_, size := utf8.DecodeRune(s[at:])
		at += size
	}
	return at
}

func left(a []value) value {
	n, ok := integer(a[1])
	if a[0].kind != kindString || !ok {
		return value{}
	}
	return stringValue(a[0].b[:placeOf(a[0].b, n)])
}

func right(a []value) value {
	n, ok := integer(a[1])
	if a[0].kind != kindString || !ok {
		return value{}
	}
	all := int64(utf8.RuneCount(a[0].b))
	if n <= 0 {
		return stringValue(nil)
	}
	return stringValue(a[0].b[placeOf(a[0].b, all-min(n, all)):])
}

// substring is the empty string where there is none: before the string, behind
// it, or of no length.
func substring(a []value) value {
	start, ok1 := integer(a[1])
	n, ok2 := integer(a[2])
	if a[0].kind != kindString || !ok1 || !ok2 {
		return value{}
	}
	if start < 0 || n <= 0 {
		return stringValue(nil)
	}
	s := a[0].b[placeOf(a[0].b, start):]
	return stringValue(s[:placeOf(s, n)])
}

func indexOf(a []value) value {
	if !areStrings(a[:2]) {
		return value{}
	}
	s, from := a[0].b, int64(0)
	if len(a) == 3 {
		var ok bool
		if from, ok = integer(a[2]); !ok || from < 0 {
			return value{}
		}
		if from > int64(utf8.RuneCount(s)) {
			return numberOf(-1)
		}
		s = s[placeOf(s, from):]
	}
	i := bytes.Index(s, a[1].b)
	if i < 0 {
		return numberOf(-1)
	}
	return numberOf(float64(from + int64(utf8.RuneCount(s[:i]))))
}

// lastIndexOf looks backwards; of the place where it begins, what is found lies
// wholly before it, or ends there.
func lastIndexOf(a []value) value {
	if !areStrings(a[:2]) {
		return value{}
	}
	s := a[0].b
	if len(a) == 3 {
		from, ok := integer(a[2])
		if !ok || from < 0 {
			return value{}
		}
		if from < int64(len(s)) {
			s = s[:placeOf(s, from+1)]
		}
	}
	i := bytes.LastIndex(s, a[1].b)
	if i < 0 {
		return numberOf(-1)
	}
	return numberOf(float64(utf8.RuneCount(s[:i])))
}

// trimmed takes away white space, or the characters of a second argument.
func trimmed(trim func(s []byte, f func(rune) bool) []byte) func([]value) value {
	return func(a []value) value {
		if !areStrings(a) {
			return value{}
		}
		away := unicode.IsSpace
		if len(a) == 2 {
			away = oneOf(a[1].b)
		}
		return stringValue(trim(a[0].b, away))
	}
}

// oneOf says whether a character is one of several. A search of many of them, for
// each character of a long string, would take for ever.
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

// replace of nothing is undefined: it is nowhere and everywhere.
func replace(a []value) value {
	if !areStrings(a) || len(a[1].b) == 0 {
		return value{}
	}
	s, old, with := a[0].b, a[1].b, a[2].b
	n := bytes.Count(s, old)
	if n == 0 {
		return a[0]
	}
	if len(s)+n*(len(with)-len(old)) > maxMade {
		return tooLong()
	}
	return stringValue(bytes.ReplaceAll(s, old, with))
}

// maxReplicated is the service's bound of REPLICATE's result, in characters.
const maxReplicated = 10_000

func replicate(a []value) value {
	if a[0].kind != kindString || a[1].kind != kindNumber || !(a[1].num >= 0) {
		return value{}
	}
	if len(a[0].b) == 0 {
		return stringValue(nil)
	}
	if a[1].num > maxReplicated || utf8.RuneCount(a[0].b)*int(a[1].num) > maxReplicated {
		return value{}
	}
	return stringValue(bytes.Repeat(a[0].b, int(a[1].num)))
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

func stringJoin(a []value) value {
	if a[0].kind != kindArray || a[1].kind != kindString {
		return value{}
	}
	var out []byte
	v := stringValue(nil)
	eachElement(a[0].b, func(i int, raw []byte) bool {
		s := decode(raw)
		switch {
		case s.kind != kindString:
			v = value{}
			return false
		case len(out)+len(a[1].b)+len(s.b) > maxMade:
			v = tooLong()
			return false
		}
		if i > 0 {
			out = append(out, a[1].b...)
		}
		out = append(out, s.b...)
		return true
	})
	if v.kind == kindString {
		v.b = out
	}
	return v
}

// stringSplit between nothing is the whole string.
func stringSplit(a []value) value {
	if !areStrings(a) {
		return value{}
	}
	var out arrayBuilder
	rest, separator := a[0].b, a[1].b
	for more := true; more && !out.full(); {
		part := rest
		if more = len(separator) > 0; more {
			part, rest, more = bytes.Cut(rest, separator)
		}
		out.add(stringValue(part))
	}
	return out.value()
}

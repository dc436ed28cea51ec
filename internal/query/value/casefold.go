package value

import "bytes"

// Comparisons that ignore case compare the results of bytes.ToUpper. Most strings are
// ASCII and are compared without creating these results.

// withoutCase returns a comparison of two strings that ignores case. It first calls
// ascii, which is fast but works only for ASCII strings. If that returns done as false,
// it calls compare with both strings in upper case.
func withoutCase(compare func(s, sub []byte) bool, ascii func(s, sub []byte) (found, done bool)) func(s, sub []byte) bool {
	return func(s, sub []byte) bool {
		if found, done := ascii(s, sub); done {
			return found
		}
		return compare(bytes.ToUpper(s), bytes.ToUpper(sub))
	}
}

func isASCII(s []byte) bool {
	for _, c := range s {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

func upper(c byte) byte {
	if c >= 'a' && c <= 'z' {
		return c - ('a' - 'A')
	}
	return c
}

// sameASCII reports whether two ASCII strings of equal length are equal without regard to
// case.
func sameASCII(a, b []byte) bool {
	for i, c := range a {
		if c != b[i] && upper(c) != upper(b[i]) {
			return false
		}
	}
	return true
}

func foldEqual(a, b []byte) (found, done bool) {
	if !isASCII(a) || !isASCII(b) {
		return false, false
	}
	return len(a) == len(b) && sameASCII(a, b), true
}

func foldPrefix(s, prefix []byte) (found, done bool) {
	return foldEqual(s[:min(len(s), len(prefix))], prefix)
}

func foldSuffix(s, suffix []byte) (found, done bool) {
	return foldEqual(s[max(0, len(s)-len(suffix)):], suffix)
}

// maxFolded is the length in bytes of the longest string for which the fast search is
// used. The fast search compares the string at every position, so it is slow for long
// strings.
const maxFolded = 32

func foldContains(s, sub []byte) (found, done bool) {
	if len(sub) > maxFolded || !isASCII(s) || !isASCII(sub) {
		return false, false
	}
	if len(sub) == 0 {
		return true, true
	}
	first := upper(sub[0])
	for i := 0; i+len(sub) <= len(s); i++ {
		if upper(s[i]) == first && sameASCII(s[i:i+len(sub)], sub) {
			return true, true
		}
	}
	return false, true
}

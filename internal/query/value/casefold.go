package value

import "bytes"

// Comparisons that ignore case compare the results of bytes.ToUpper. Most strings are
// ASCII and are compared without creating these results.

// withoutCase returns a comparison that ignores case. ascii is its fast form for ASCII
// strings; done is false if it does not apply.
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

// sameASCII compares two ASCII strings of equal length.
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

// maxFolded is the length in bytes of the longest string that is searched for at every
// position. At each position, the search takes at most as many steps as that length.
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

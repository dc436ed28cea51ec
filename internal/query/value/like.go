package value

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// In a pattern of LIKE, % matches any text and _ one character. [abc] and [a-f] match one
// of these characters, and [^abc] matches any other character. ESCAPE names a character
// that removes the special meaning of the next one.
//
// The % divide a pattern into segments. The first segment must be at the beginning of the
// text and the last at its end. Those between are searched from left to right, each at
// its first match. So matching never backtracks. It takes at most the length of the text
// times that of the longest segment.

// LikePattern is a parsed pattern. The zero value is invalid; use [ParseLike].
type LikePattern struct {
	// segments are the parts between the %. There is always at least one.
	segments []likeSegment
}

// likeSegment is the part of a pattern between two % signs. Each of its elements matches
// exactly one character.
type likeSegment struct {
	literal []byte // set if no character has a special meaning
	chars   []likeChar
}

// likeChar matches one character: a certain one, any one, or one of a set.
type likeChar struct {
	plain rune
	any   bool
	set   []runeRange
	isSet bool
	not   bool
}

type runeRange struct{ low, high rune }

func (c *likeChar) matches(r rune) bool {
	switch {
	case c.any:
		return true
	case c.isSet:
		return slices.ContainsFunc(c.set, func(x runeRange) bool { return x.low <= r && r <= x.high }) != c.not
	}
	return c.plain == r
}

// NoEscape is the escape of a pattern without ESCAPE. No text contains it.
const NoEscape rune = -1

// ParseLike parses a pattern. Every text is a valid one. An unclosed [ and an escape at
// the end match themselves.
func ParseLike(pattern []byte, escape rune) LikePattern {
	text := []rune(string(pattern))
	var p LikePattern
	var chars []likeChar
	for i := 0; i < len(text); i++ {
		switch r := text[i]; {
		case r == escape && i+1 < len(text):
			i++
			chars = append(chars, likeChar{plain: text[i]})
		case r == '%':
			p.segments = append(p.segments, segmentOf(chars))
			chars = nil
		case r == '_':
			chars = append(chars, likeChar{any: true})
		case r == '[':
			c, n := parseSet(text[i:], escape)
			if n == 0 {
				c, n = likeChar{plain: r}, 1
			}
			chars = append(chars, c)
			i += n - 1
		default:
			chars = append(chars, likeChar{plain: r})
		}
	}
	p.segments = append(p.segments, segmentOf(chars))
	return p
}

// parseSet parses a set such as [abc], [a-f] or [^abc] at the beginning of text. n is its
// length in characters, or 0 if the bracket is not closed.
func parseSet(text []rune, escape rune) (c likeChar, n int) {
	c.isSet = true
	i := 1
	if i < len(text) && text[i] == '^' {
		c.not = true
		i++
	}
	next := func() (rune, bool) {
		if text[i] == escape && i+1 < len(text) {
			i++
		}
		i++
		return text[i-1], i < len(text)
	}
	for i < len(text) && text[i] != ']' {
		low, more := next()
		high := low
		if more && text[i] == '-' && i+1 < len(text) && text[i+1] != ']' {
			i++
			high, _ = next()
		}
		c.set = append(c.set, runeRange{low, high})
	}
	if i >= len(text) {
		return likeChar{}, 0
	}
	return c, i + 1
}

func segmentOf(chars []likeChar) likeSegment {
	s := likeSegment{chars: chars, literal: []byte{}}
	for _, c := range chars {
		if c.any || c.isSet {
			return likeSegment{chars: chars}
		}
		s.literal = utf8.AppendRune(s.literal, c.plain)
	}
	return s
}

// Match reports whether the pattern matches the whole text.
func (p LikePattern) Match(b Budget, text []byte) bool {
	first, last := p.segments[0], len(p.segments)-1
	n, ok := first.prefix(text)
	if !ok {
		return false
	}
	if text = text[n:]; last == 0 {
		return len(text) == 0
	}
	for _, s := range p.segments[1:last] {
		end := s.find(b, text)
		if end < 0 {
			return false
		}
		text = text[end:]
	}
	return p.segments[last].suffix(text)
}

// prefix reports whether text begins with a match of the segment. n is the length of that
// match in bytes.
func (s likeSegment) prefix(text []byte) (n int, ok bool) {
	if s.literal != nil {
		return len(s.literal), bytes.HasPrefix(text, s.literal)
	}
	for i := range s.chars {
		r, size := utf8.DecodeRune(text[n:])
		if size == 0 || !s.chars[i].matches(r) {
			return 0, false
		}
		n += size
	}
	return n, true
}

// find returns the position after the first match of the segment in text, in bytes. It
// returns -1 if there is no match.
func (s likeSegment) find(b Budget, text []byte) int {
	if s.literal != nil {
		if i := bytes.Index(text, s.literal); i >= 0 {
			return i + len(s.literal)
		}
		return -1
	}
	for i := 0; i <= len(text) && b.Spend(len(s.chars)); {
		if n, ok := s.prefix(text[i:]); ok {
			return i + n
		}
		_, size := utf8.DecodeRune(text[i:])
		i += max(size, 1)
	}
	return -1
}

// suffix reports whether text ends with a match of the segment.
func (s likeSegment) suffix(text []byte) bool {
	if s.literal != nil {
		return bytes.HasSuffix(text, s.literal)
	}
	end := len(text)
	for range s.chars {
		_, size := utf8.DecodeLastRune(text[:end])
		if size == 0 {
			return false
		}
		end -= size
	}
	_, ok := s.prefix(text[end:])
	return ok
}

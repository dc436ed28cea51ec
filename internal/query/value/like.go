package value

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// LIKE. In a pattern % stands for any text, _ for one character, [abc] and [a-f]
// for one of these and [^abc] for one of all others; ESCAPE names the character
// behind which the next one stands for itself. A pattern is cut at its % into
// segments: the first has to be at the beginning of the text, the last at its
// end, and those between are looked for from left to right, each where it is
// found first. So a text is matched without going back, in the length of the text
// times that of the longest segment.

// LikePattern is a pattern that was read. The zero value is that of "".
type LikePattern struct {
	// segments are what stands between the %; without any % it is one.
	segments []likeSegment
}

// likeSegment is a sequence of single characters.
type likeSegment struct {
	literal []byte // when there are only plain ones
	chars   []likeChar
}

// likeChar matches one character.
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

// NoEscape is the escape of a pattern without one: no text has it.
const NoEscape rune = -1

// ParseLike reads a pattern. Any text is one: a [ that isn't closed, and an escape
// at the end, stand for themselves.
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

// parseSet reads [abc], [a-f] or [^abc]; n is its length, 0 when it isn't closed.
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

// Match says whether a whole text is as the pattern has it.
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

// prefix returns how long the segment is at the beginning of a text.
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

// find returns where the segment's first place in a text ends, or -1.
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

// suffix says whether the segment is at the end of a text.
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

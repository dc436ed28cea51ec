package value

import "strings"

// maxFormat limits the length of the format argument of DATETIMEFORMAT, in bytes.
const maxFormat = 4 << 10

// format writes a time by the letters of .NET's custom formats:
//
//	yyyy yyy yy y      year; with one or two letters its last two digits
//	MMMM MMM MM M      month, by its name, short name or number
//	dddd ddd dd d      day, by the name or short name of its weekday, or by number
//	HH H hh h          hour of 24, hour of 12
//	mm m ss s          minute, second
//	f to fffffff       that many digits of the fraction of a second
//	F to FFFFFFF       the same without trailing zeros
//	tt t               AM or PM, A or P
//	\x  'text' "text"  x or text unchanged
//
// All other characters are copied.
func (t ticks) format(format []byte) Value {
	if len(format) > maxFormat {
		return problem("its format is longer than 4096 bytes")
	}
	var out []byte
	for i := 0; i < len(format); {
		c := format[i]
		switch {
		case c == '\\' && i+1 < len(format):
			out = append(out, format[i+1])
			i += 2
		case c == '\'' || c == '"':
			end := i + 1
			for end < len(format) && format[end] != c {
				end++
			}
			out = append(out, format[i+1:end]...)
			i = min(end+1, len(format))
		default:
			n := 1
			for i+n < len(format) && format[i+n] == c {
				n++
			}
			var ok bool
			if out, ok = t.appendLetters(out, c, n); !ok {
				out = append(out, format[i:i+n]...)
			}
			i += n
		}
	}
	return ofBytes(out)
}

// appendLetters appends the value that n equal letters of a format stand for, such as the
// year for yyyy. ok is false if the letters have no meaning and must be copied.
func (t ticks) appendLetters(dst []byte, letter byte, n int) (_ []byte, ok bool) {
	c := t.time()
	number := func(v int) []byte { return appendPadded(dst, int64(v), min(n, 2)) }
	named := func(name string, v int) []byte {
		switch {
		case n > 3:
			return append(dst, name...)
		case n == 3:
			return append(dst, name[:3]...)
		}
		return number(v)
	}
	switch letter {
	case 'y':
		if n <= 2 {
			return number(c.Year() % 100), true
		}
		return appendPadded(dst, int64(c.Year()), min(n, 8)), true
	case 'M':
		return named(c.Month().String(), int(c.Month())), true
	case 'd':
		return named(c.Weekday().String(), c.Day()), true
	case 'H':
		return number(c.Hour()), true
	case 'h':
		return number((c.Hour()+11)%12 + 1), true
	case 'm':
		return number(c.Minute()), true
	case 's':
		return number(c.Second()), true
	case 't':
		return append(dst, c.Format("PM")[:min(n, 2)]...), true
	case 'f', 'F':
		if n > digits {
			return dst, false
		}
		fraction := string(appendPadded(nil, t.fraction(), digits))[:n]
		if letter == 'F' {
			fraction = strings.TrimRight(fraction, "0")
		}
		return append(dst, fraction...), true
	}
	return dst, false
}

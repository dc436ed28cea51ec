package value

import (
	"math"
	"strconv"
	"time"
)

// ticks is a time in units of 100 ns since 1970, in UTC.
type ticks int64

// firstTicks and lastTicks are the first and the last time whose year has four digits.
// windowsEpoch is the earliest time at which bins may begin.
const (
	firstTicks   ticks = -621355968000000000 // 0001-01-01T00:00:00.0000000Z
	lastTicks    ticks = 253402300799_9999999
	windowsEpoch ticks = -116444736000000000 // 1601-01-01T00:00:00.0000000Z
)

func (t ticks) valid() bool { return t >= firstTicks && t <= lastTicks }

const (
	ticksPerSecond = 10_000_000
	ticksPerDay    = 24 * 3600 * ticksPerSecond
	digits         = 7 // of a fraction of a second
)

func now() ticks { return ticksOf(time.Now()) }

func ticksOf(t time.Time) ticks { return ticks(t.Unix()*ticksPerSecond + int64(t.Nanosecond())/100) }

// floorDiv returns a / b, rounded down. The operator / rounds toward zero.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// time converts t to a time.Time in UTC.
func (t ticks) time() time.Time {
	seconds := floorDiv(int64(t), ticksPerSecond)
	return time.Unix(seconds, (int64(t)-seconds*ticksPerSecond)*100).UTC()
}

// fraction returns the part of t after the last full second, in ticks.
func (t ticks) fraction() int64 {
	return int64(t) - floorDiv(int64(t), ticksPerSecond)*ticksPerSecond
}

// value returns t as a string in the format of the service, or undefined if t is out of
// range.
func (t ticks) value() Value {
	if !t.valid() {
		return Value{}
	}
	b := t.time().AppendFormat(make([]byte, 0, 28), "2006-01-02T15:04:05.")
	b = appendPadded(b, t.fraction(), digits)
	return ofBytes(append(b, 'Z'))
}

// appendPadded appends n with at least width digits.
func appendPadded(dst []byte, n int64, width int) []byte {
	s := strconv.FormatInt(n, 10)
	for range width - len(s) {
		dst = append(dst, '0')
	}
	return append(dst, s...)
}

// date returns the time with the given year, month and so on. fraction is in ticks. ok is
// false if the numbers are not a valid date and time.
func date(year, month, day, hour, minute, second, fraction int64) (t ticks, ok bool) {
	if year < 1 || year > 9999 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) ||
		hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 || fraction < 0 || fraction >= ticksPerSecond {
		return 0, false
	}
	seconds := time.Date(int(year), time.Month(month), int(day), int(hour), int(minute), int(second), 0, time.UTC).Unix()
	return ticks(seconds*ticksPerSecond + fraction), true
}

func daysIn(year, month int64) int64 {
	return int64(time.Date(int(year), time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day())
}

// parseDateTime parses 2006-01-02, optionally followed by T or a blank, 15:04:05 and a
// fraction of up to seven digits. A final Z is optional.
func parseDateTime(b []byte) (t ticks, ok bool) {
	p := dateParser{b: b}
	var hour, minute, second, fraction int64
	year := p.number(4)
	p.skip("-")
	month := p.number(2)
	p.skip("-")
	day := p.number(2)
	if len(p.b) > 0 && p.b[0] != 'Z' {
		p.skip("T ")
		hour = p.number(2)
		p.skip(":")
		minute = p.number(2)
		p.skip(":")
		second = p.number(2)
		if len(p.b) > 0 && p.b[0] == '.' {
			p.skip(".")
			n := 0
			for n < digits && n < len(p.b) && isDecimal(p.b[n]) {
				n++
			}
			if p.bad = p.bad || n == 0; !p.bad {
				fraction = p.number(n)
				for range digits - n {
					fraction *= 10
				}
			}
		}
	}
	if len(p.b) > 0 {
		p.skip("Z")
	}
	if p.bad || len(p.b) > 0 {
		return 0, false
	}
	return date(year, month, day, hour, minute, second, fraction)
}

// dateParser parses a text from the beginning of b. bad is set at the first error, and
// all later calls then do nothing.
type dateParser struct {
	b   []byte
	bad bool
}

func (p *dateParser) number(width int) (n int64) {
	if p.bad = p.bad || len(p.b) < width; p.bad {
		return 0
	}
	for _, c := range p.b[:width] {
		p.bad = p.bad || !isDecimal(c)
		n = n*10 + int64(c-'0')
	}
	p.b = p.b[width:]
	return n
}

// skip removes the next character, which must be one of set.
func (p *dateParser) skip(set string) {
	if p.bad = p.bad || len(p.b) == 0; p.bad {
		return
	}
	for i := range len(set) {
		if p.b[0] == set[i] {
			p.b = p.b[1:]
			return
		}
	}
	p.bad = true
}

// datePart is a unit of time, such as a month or a second, that functions of dates take
// as an argument.
type datePart uint8

const (
	partNone datePart = iota
	partYear
	partMonth
	partDay
	partHour
	partMinute
	partSecond
	partMillisecond
	partMicrosecond
	partNanosecond
)

// dateParts maps the names of the service for units of time to constants.
var dateParts = map[string]datePart{
	"year": partYear, "yyyy": partYear, "yy": partYear,
	"month": partMonth, "mm": partMonth, "m": partMonth,
	"day": partDay, "dd": partDay, "d": partDay,
	"hour": partHour, "hh": partHour,
	"minute": partMinute, "mi": partMinute, "n": partMinute,
	"second": partSecond, "ss": partSecond, "s": partSecond,
	"millisecond": partMillisecond, "ms": partMillisecond,
	"microsecond": partMicrosecond, "mcs": partMicrosecond,
	"nanosecond": partNanosecond, "ns": partNanosecond,
}

// units describes the units of time that have a fixed length; years and months have none.
// length is the length in ticks, which is 1 for a nanosecond. perTick is 1, except for a
// nanosecond: a tick has 100 nanoseconds.
var units = [...]struct{ length, perTick int64 }{
	partDay: {ticksPerDay, 1}, partHour: {3600 * ticksPerSecond, 1}, partMinute: {60 * ticksPerSecond, 1}, partSecond: {ticksPerSecond, 1},
	partMillisecond: {ticksPerSecond / 1000, 1}, partMicrosecond: {10, 1}, partNanosecond: {1, 100},
}

func (p datePart) unit() (length, perTick int64) {
	return units[p].length, max(units[p].perTick, 1)
}

// of returns the value of a unit of time in t, such as the month from 1 to 12. Units
// below a second include larger ones: the microseconds include the milliseconds.
func (p datePart) of(t ticks) int64 {
	c := t.time()
	switch p {
	case partYear:
		return int64(c.Year())
	case partMonth:
		return int64(c.Month())
	case partDay:
		return int64(c.Day())
	case partHour:
		return int64(c.Hour())
	case partMinute:
		return int64(c.Minute())
	case partSecond:
		return int64(c.Second())
	default:
		return p.count(ticks(t.fraction()))
	}
}

// count returns the number of unit boundaries between a fixed time and t. The difference
// of two counts is the result of DATETIMEDIFF. The fixed time is the year 0 for years and
// months, and 1970 for other units.
func (p datePart) count(t ticks) int64 {
	switch c := t.time(); p {
	case partYear:
		return int64(c.Year())
	case partMonth:
		return int64(c.Year())*12 + int64(c.Month()) - 1
	case partNone, partDay, partHour, partMinute, partSecond, partMillisecond, partMicrosecond, partNanosecond:
	}
	length, perTick := p.unit()
	if length == 0 {
		return 0
	}
	return floorDiv(int64(t), length) * perTick
}

// add returns t plus n units of p. If the day does not exist in the resulting month, the
// last day of that month is used. ok is false if the result is out of range.
func (p datePart) add(t ticks, n int64) (sum ticks, ok bool) {
	if p == partYear || p == partMonth {
		if n > math.MaxInt32 || n < math.MinInt32 {
			return 0, false
		}
		if p == partYear {
			n *= 12
		}
		months := partMonth.count(t) + n
		year, month := floorDiv(months, 12), months-floorDiv(months, 12)*12+1
		if year < 1 || year > 9999 {
			return 0, false
		}
		c := t.time()
		return date(year, month, min(int64(c.Day()), daysIn(year, month)), int64(c.Hour()), int64(c.Minute()), int64(c.Second()), t.fraction())
	}
	length, perTick := p.unit()
	if length == 0 {
		return 0, false
	}
	// If n units exceed the whole range of times, the result is out of range. Checking
	// this first prevents an overflow of the product below.
	if n /= perTick; n > int64(lastTicks-firstTicks)/length || n < -int64(lastTicks-firstTicks)/length {
		return 0, false
	}
	sum = t + ticks(n*length)
	return sum, sum.valid()
}

func isDecimal(c byte) bool { return c >= '0' && c <= '9' }

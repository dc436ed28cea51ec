package value

import (
	"math"
	"strconv"
	"time"
)

// ticks is a time as queries count it: units of 100 ns since 1970, in UTC.
type ticks int64

// The first and the last time that is written in four digits of a year, and the
// earliest that bins are counted from (the epoch of Windows).
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

// floorDiv rounds towards the past.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// time is t in the calendar.
func (t ticks) time() time.Time {
	seconds := floorDiv(int64(t), ticksPerSecond)
	return time.Unix(seconds, (int64(t)-seconds*ticksPerSecond)*100).UTC()
}

// fraction is what t has of a second.
func (t ticks) fraction() int64 {
	return int64(t) - floorDiv(int64(t), ticksPerSecond)*ticksPerSecond
}

// value is t as the service writes it.
func (t ticks) value() Value {
	if !t.valid() {
		return Value{}
	}
	b := t.time().AppendFormat(make([]byte, 0, 28), "2006-01-02T15:04:05.")
	b = appendPadded(b, t.fraction(), digits)
	return ofBytes(append(b, 'Z'))
}

// appendPadded writes n with at least width digits.
func appendPadded(dst []byte, n int64, width int) []byte {
	s := strconv.FormatInt(n, 10)
	for range width - len(s) {
		dst = append(dst, '0')
	}
	return append(dst, s...)
}

// date makes a time of numbers that may be anything; ok is false when no calendar
// has them.
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

// parseDateTime reads 2006-01-02, and if there is more, T or a blank, 15:04:05 and
// maybe a fraction of up to seven digits. A Z may follow.
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

// dateParser reads from the front of b until something is bad.
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

// skip goes over one character of several.
func (p *dateParser) skip(any string) {
	if p.bad = p.bad || len(p.b) == 0; p.bad {
		return
	}
	for i := range len(any) {
		if p.b[0] == any[i] {
			p.b = p.b[1:]
			return
		}
	}
	p.bad = true
}

// datePart is a part of a date or time, by which it is counted.
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

// dateParts are the names of parts, as the service writes them.
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

// units are the lengths of parts in ticks; a nanosecond is a tick with perTick 100. Years and
// months have no length.
var units = [...]struct{ length, perTick int64 }{
	partDay: {ticksPerDay, 1}, partHour: {3600 * ticksPerSecond, 1}, partMinute: {60 * ticksPerSecond, 1}, partSecond: {ticksPerSecond, 1},
	partMillisecond: {ticksPerSecond / 1000, 1}, partMicrosecond: {10, 1}, partNanosecond: {1, 100},
}

func (p datePart) unit() (length, perTick int64) {
	return units[p].length, max(units[p].perTick, 1)
}

// of is what the calendar and the clock say of a part. Parts of a second are all
// of it.
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

// count is how many boundaries of a part there are from a fixed one to t, of years
// and months from the year 0, of others from 1970.
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

// add adds n of a part. A day that the new month doesn't have becomes its last.
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
	// Nothing longer than all time is added, so nothing overflows.
	if n /= perTick; n > int64(lastTicks-firstTicks)/length || n < -int64(lastTicks-firstTicks)/length {
		return 0, false
	}
	sum = t + ticks(n*length)
	return sum, sum.valid()
}

func isDecimal(c byte) bool { return c >= '0' && c <= '9' }

package value

import "time"

// dateFunctions holds the functions of dates and times. Times are strings as in
// parseDateTime, ticks of 100 ns since 1970, or milliseconds since 1970. The result is
// undefined for an invalid time or part, and for a time before the year 1 or after 9999.
var dateFunctions = map[string]Function{
	"AGO":                       {class: classDate, min: 2, max: 2, Volatile: true, eval: ago},
	"DATETIMEADD":               {class: classDate, min: 3, max: 3, eval: dateTimeAdd},
	"DATETIMEBIN":               {class: classDate, min: 2, max: 4, eval: dateTimeBin},
	"DATETIMEDIFF":              {class: classDate, min: 3, max: 3, eval: dateTimeDiff},
	"DATETIMEFORMAT":            {class: classDate, min: 2, max: 2, eval: dateTimeFormat},
	"DATETIMEFROMPARTS":         {class: classDate, min: 3, max: 7, eval: dateTimeFromParts},
	"DATETIMEPART":              {class: classDate, min: 2, max: 2, eval: dateTimePart},
	"DATETIMETOTICKS":           {class: classDate, min: 1, max: 1, eval: onDateTime(ticks.ticksValue)},
	"DATETIMETOTIMESTAMP":       {class: classDate, min: 1, max: 1, eval: onDateTime(ticks.timestamp)},
	"DAY":                       {class: classDate, min: 1, max: 1, eval: onDateTime(partDay.valueOf)},
	"GETCURRENTDATETIME":        {class: classDate, min: 0, max: 0, Volatile: true, eval: current(ticks.value)},
	"GETCURRENTDATETIMESTATIC":  {class: classDate, min: 0, max: 0, Volatile: true, prepare: static(ticks.value)},
	"GETCURRENTTICKS":           {class: classDate, min: 0, max: 0, Volatile: true, eval: current(ticks.ticksValue)},
	"GETCURRENTTICKSSTATIC":     {class: classDate, min: 0, max: 0, Volatile: true, prepare: static(ticks.ticksValue)},
	"GETCURRENTTIMESTAMP":       {class: classDate, min: 0, max: 0, Volatile: true, eval: current(ticks.timestamp)},
	"GETCURRENTTIMESTAMPSTATIC": {class: classDate, min: 0, max: 0, Volatile: true, prepare: static(ticks.timestamp)},
	"MONTH":                     {class: classDate, min: 1, max: 1, eval: onDateTime(partMonth.valueOf)},
	"NOW":                       {class: classDate, min: 0, max: 2, pairs: true, Volatile: true, eval: nowPlus},
	"TICKSTODATETIME":           {class: classDate, min: 1, max: 1, eval: ticksToDateTime},
	"TIMESTAMPTODATETIME":       {class: classDate, min: 1, max: 1, eval: timestampToDateTime},
	"YEAR":                      {class: classDate, min: 1, max: 1, eval: onDateTime(partYear.valueOf)},
}

// ticksPerMillisecond is the number of ticks in a millisecond, the unit of the service's
// timestamps.
const ticksPerMillisecond = ticksPerSecond / 1000

func (t ticks) ticksValue() Value { return OfInt(int64(t)) }
func (t ticks) timestamp() Value  { return OfInt(int64(floorDiv(int64(t), ticksPerMillisecond))) }

func (p datePart) valueOf(t ticks) Value { return OfInt(int64(p.of(t))) }

// dateTime parses an argument that must be a string with a date and time.
func dateTime(v Value) (t ticks, ok bool) {
	if v.Kind != String {
		return 0, false
	}
	return parseDateTime(v.Bytes)
}

// partNamed returns the unit of time that an argument names.
func partNamed(v Value) (p datePart, ok bool) {
	if v.Kind != String {
		return partNone, false
	}
	p, ok = dateParts[string(v.Bytes)]
	return p, ok
}

func onDateTime(f func(t ticks) Value) func([]Value) Value {
	return func(a []Value) Value {
		t, ok := dateTime(a[0])
		if !ok {
			return Value{}
		}
		return f(t)
	}
}

// current returns an eval function that calls f with the time of the call. So the result
// differs from row to row.
func current(f func(t ticks) Value) func([]Value) Value {
	return func([]Value) Value { return f(now()) }
}

// static returns a prepare function that calls f with the time at which the query was
// bound. So the result is the same for all rows of a page.
func static(f func(t ticks) Value) func(time.Time) func(Budget, []Value) Value {
	return func(now time.Time) func(Budget, []Value) Value {
		v := f(ticksOf(now))
		return func(Budget, []Value) Value { return v }
	}
}

func moved(t ticks, part, n Value, direction int64) Value {
	p, ok1 := partNamed(part)
	count, ok2 := n.Int()
	if !ok1 || !ok2 {
		return Value{}
	}
	sum, ok := p.add(t, direction*count)
	if !ok {
		return Value{}
	}
	return sum.value()
}

func ago(a []Value) Value { return moved(now(), a[0], a[1], -1) }

func nowPlus(a []Value) Value {
	if len(a) == 0 {
		return now().value()
	}
	return moved(now(), a[0], a[1], 1)
}

func dateTimeAdd(a []Value) Value {
	t, ok := dateTime(a[2])
	if !ok {
		return Value{}
	}
	return moved(t, a[0], a[1], 1)
}

// dateTimeBin evaluates DATETIMEBIN: it returns the beginning of the bin that contains a
// time. A bin has the length of several days or shorter units. Bins begin at 1970 or at
// the fourth argument.
func dateTimeBin(a []Value) Value {
	t, ok1 := dateTime(a[0])
	p, ok2 := partNamed(a[1])
	length, perTick := p.unit()
	if !ok1 || !ok2 || length == 0 {
		return Value{}
	}
	size, start := int64(1), ticks(0)
	if len(a) > 2 {
		var ok bool
		if size, ok = a[2].Int(); !ok || size <= 0 {
			return Value{}
		}
	}
	if len(a) > 3 {
		var ok bool
		if start, ok = dateTime(a[3]); !ok || start < windowsEpoch {
			return Value{}
		}
	}
	// A bin must have at least one tick, and at most the whole range of times.
	size = max(1, min(size/perTick, int64(lastTicks-firstTicks)/length+1)) * length
	return (start + ticks(floorDiv(int64(t-start), size)*size)).value()
}

// dateTimeDiff evaluates DATETIMEDIFF: it counts the unit boundaries between two times.
// So a second before midnight and a second after it differ by one day.
func dateTimeDiff(a []Value) Value {
	p, ok1 := partNamed(a[0])
	start, ok2 := dateTime(a[1])
	end, ok3 := dateTime(a[2])
	if !ok1 || !ok2 || !ok3 {
		return Value{}
	}
	return OfInt(int64(p.count(end) - p.count(start)))
}

func dateTimePart(a []Value) Value {
	p, ok1 := partNamed(a[0])
	t, ok2 := dateTime(a[1])
	if !ok1 || !ok2 {
		return Value{}
	}
	return p.valueOf(t)
}

func dateTimeFromParts(a []Value) Value {
	var n [7]int64
	for i, v := range a {
		var ok bool
		if n[i], ok = v.Int(); !ok {
			return Value{}
		}
	}
	t, ok := date(n[0], n[1], n[2], n[3], n[4], n[5], n[6])
	if !ok {
		return Value{}
	}
	return t.value()
}

func ticksToDateTime(a []Value) Value {
	n, ok := a[0].Int()
	if !ok {
		return Value{}
	}
	return ticks(n).value()
}

func timestampToDateTime(a []Value) Value {
	n, ok := a[0].Int()
	if !ok || n > int64(lastTicks)/ticksPerMillisecond || n < int64(firstTicks)/ticksPerMillisecond {
		return Value{}
	}
	return ticks(n * ticksPerMillisecond).value()
}

func dateTimeFormat(a []Value) Value {
	t, ok := dateTime(a[0])
	if !ok || a[1].Kind != String {
		return Value{}
	}
	return t.format(a[1].Bytes)
}

package value

import (
	"math/rand/v2"
	"testing"
	"time"
)

// For random times, parsing, units, addition and counting must have the same results as
// package time.
func TestTicksAgreeWithPackageTime(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9)) //nolint:gosec // a repeatable test
	random := func() ticks { return firstTicks + ticks(r.Int64N(int64(lastTicks-firstTicks)+1)) }
	times := []ticks{firstTicks, lastTicks, -1, 0, 1, windowsEpoch}
	for range 3000 {
		times = append(times, random())
	}
	for _, at := range times {
		c := at.time()
		text := c.Format("2006-01-02T15:04:05.0000000Z")
		if got := string(at.value().Bytes); got != text {
			t.Fatalf("%d is %s, want %s", at, got, text)
		}
		if back, ok := parseDateTime([]byte(text)); !ok || back != at {
			t.Fatalf("%s is read as %d (%v), want %d", text, back, ok, at)
		}
		if short, ok := parseDateTime([]byte(c.Format("2006-01-02 15:04:05"))); !ok || ticksOf(c.Truncate(time.Second)) != short {
			t.Fatalf("%s without a fraction is read as %d (%v)", text, short, ok)
		}
		if got := partNanosecond.of(at); got != int64(c.Nanosecond()) {
			t.Fatalf("%s has %d nanoseconds", text, got)
		}
		n, other := r.Int64N(40_000)-20_000, random()
		for part, length := range map[datePart]time.Duration{partDay: 24 * time.Hour, partHour: time.Hour, partMinute: time.Minute, partSecond: time.Second, partMillisecond: time.Millisecond} {
			sum, ok := part.add(at, n)
			want := c.Add(time.Duration(n) * length)
			if inside := want.Year() >= 1 && want.Year() <= 9999; ok != inside || ok && sum != ticksOf(want) {
				t.Fatalf("%s and %d of %v is %d (%v)", text, n, length, sum, ok)
			}
			// Counting the boundaries up to a time or up to the beginning of its bin must
			// give the same number.
			bin := ticks(floorDiv(int64(other), int64(length)/100) * (int64(length) / 100))
			if part.count(other)-part.count(at) != part.count(bin)-part.count(at) {
				t.Fatalf("from %s to %s there are not as many of %v as to %s", text, other.time(), length, bin.time())
			}
		}
		months := r.Int64N(50_000) - 25_000
		sum, ok := partMonth.add(at, months)
		year := floorDiv(int64(c.Year())*12+int64(c.Month())-1+months, 12)
		if ok != (year >= 1 && year <= 9999) || ok && (partMonth.count(sum)-partMonth.count(at) != months || sum.time().Day() > c.Day() || sum.fraction() != at.fraction()) {
			t.Fatalf("%s and %d months is %s (%v)", text, months, sum.time(), ok)
		}
	}
}

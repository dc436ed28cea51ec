package view

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Table writes rows as a table with aligned columns. Empty cells at the end of a row add
// no spaces.
func Table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		if _, err := fmt.Fprintln(t, strings.TrimRight(strings.Join(cells, "\t"), "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}

// Plural returns n with the noun one if n is 1, and with the noun many otherwise.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// clock formats a duration as minutes, seconds and tenths of a second.
func clock(d time.Duration) string {
	tenths := d.Milliseconds() / 100
	return fmt.Sprintf("%02d:%02d.%d", tenths/600, tenths/10%60, tenths%10)
}

// Thousands formats n with a comma between each group of three digits.
func Thousands[T int | int64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// RangeName returns a short name of a range: the first eight digits of each bound.
func RangeName(r feed.Range) string {
	short := func(s string) string { return s[:min(len(s), 8)] }
	return short(r.Min) + "-" + short(r.Max)
}

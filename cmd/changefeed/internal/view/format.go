package view

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/changefeed-go/changefeed/feed"
)

// ClearScreen is the control sequence that erases a terminal and moves to its first line
// (ECMA-48: ED, CUP).
const ClearScreen = "\x1b[2J\x1b[H"

// Table writes rows of the same length as a table with aligned columns. Empty cells at the
// end of a row add no spaces. Cells are escaped by [OneLine] before their widths are measured.
func Table(w io.Writer, rows [][]string) error {
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		line := make([]string, len(cells))
		for i, cell := range cells {
			line[i] = OneLine(cell)
		}
		// A row without its last tabs would end the columns, and those below it would begin
		// elsewhere.
		if _, err := fmt.Fprintln(t, strings.Join(line, "\t")); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// nameWidth is the width of a host's name in a table.
const nameWidth = 20

// HostName returns the name of a host for a table, escaped by [OneLine]. Of a longer one it has the beginning and
// the end, because a machine's name often ends in what tells it from others. No escape is cut,
// since what is left of one would look like letters of the name.
func HostName(name string) string {
	if whole := OneLine(name); utf8.RuneCountInString(whole) <= nameWidth {
		return whole
	}
	const headWidth = 8
	letters := []rune(name)
	var head, tail string
	for _, r := range letters {
		next := OneLine(string(r))
		if utf8.RuneCountInString(head+next) > headWidth {
			break
		}
		head += next
	}
	for _, r := range slices.Backward(letters) {
		next := OneLine(string(r))
		if utf8.RuneCountInString(next+tail) > nameWidth-headWidth-len("...") {
			break
		}
		tail = next + tail
	}
	return head + "..." + tail
}

// Shortened returns the beginning of a text of one line that is longer than width.
func Shortened(text string, width int) string {
	if letters := []rune(text); len(letters) > width {
		return string(letters[:width-len("...")]) + "..."
	}
	return text
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

// LSN returns the text of a position that is an LSN.
func LSN(n int64) string { return "LSN " + strconv.FormatInt(n, 10) }

// LeaseName returns a short name of a lease: its token, or the short name of the range if
// the token is a range.
func LeaseName(token string) string {
	if lower, upper, ok := strings.Cut(token, "-"); ok && isHex(lower) && isHex(upper) {
		return RangeName(feed.Range{Min: lower, Max: upper})
	}
	return token
}

func isHex(s string) bool { return strings.Trim(s, "0123456789ABCDEF") == "" }

// RangeName returns a short name of a range: the first eight digits of each bound.
func RangeName(r feed.Range) string {
	short := func(s string) string { return s[:min(len(s), 8)] }
	return short(r.Min) + "-" + short(r.Max)
}

// ShortNames has the short names of the ranges in a command's texts, by their long ones. Two
// ranges that would look alike have none.
type ShortNames map[string]string

// NamesIn returns the short names of the ranges in texts: all texts that a reader sees
// together.
func NamesIn(texts ...string) ShortNames {
	ranges := map[string]string{} // by their short names; "" for several
	for _, text := range texts {
		for _, word := range words.FindAllString(text, -1) {
			short := LeaseName(word)
			if other, taken := ranges[short]; !taken {
				ranges[short] = word
			} else if other != word {
				ranges[short] = ""
			}
		}
	}
	names := ShortNames{}
	for short, word := range ranges {
		names[word] = short
	}
	return names
}

// In returns text with the short names. A range within a longer word, such as the id of a
// document, stays as it is.
func (n ShortNames) In(text string) string {
	return words.ReplaceAllStringFunc(text, func(word string) string { return cmp.Or(n[word], word) })
}

// words matches what may be a range in a text.
var words = regexp.MustCompile("[^\\s,;:()\"`]+")

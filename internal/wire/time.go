package wire

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// FormatTime returns a time in the form of the protocol: RFC 1123, in GMT.
func FormatTime(t time.Time) string { return t.UTC().Format(http.TimeFormat) }

// AppendTime appends a time as FormatTime returns it.
func AppendTime(dst []byte, t time.Time) []byte { return t.UTC().AppendFormat(dst, http.TimeFormat) }

// ParseTime parses the time in a header. It accepts the forms of net/http, and RFC 1123
// with any name for UTC, because azcosmos for Go writes "UTC" instead of "GMT". As in the
// service, the case of letters does not matter: some clients send the date in the lower case
// in which it is signed.
func ParseTime(s string) (time.Time, error) {
	upper := strings.ToUpper(s) // package time ignores the case of months and days, but not that of zones
	if t, err := http.ParseTime(upper); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC1123, upper)
	if err != nil {
		return time.Time{}, fmt.Errorf("%.60q is not a time of the form %q", s, http.TimeFormat)
	}
	return t, nil
}

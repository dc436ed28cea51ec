package wire

import (
	"fmt"
	"net/http"
	"time"
)

// FormatTime returns a time in the form of the protocol: RFC 1123, in GMT.
func FormatTime(t time.Time) string { return t.UTC().Format(http.TimeFormat) }

// ParseTime parses the time in a header. It accepts the forms of net/http, and RFC 1123
// with any name for UTC, because azcosmos for Go writes "UTC" instead of "GMT".
func ParseTime(s string) (time.Time, error) {
	if t, err := http.ParseTime(s); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC1123, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%.60q is not a time of the form %q", s, http.TimeFormat)
	}
	return t, nil
}

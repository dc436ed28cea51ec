package wire

import (
	"fmt"
	"net/http"
	"time"
)

// FormatTime writes a time as the protocol does: RFC 1123, in GMT.
func FormatTime(t time.Time) string { return t.UTC().Format(http.TimeFormat) }

// ParseTime reads a time of a header. It takes what net/http takes, and RFC 1123
// with any name for UTC, since azcosmos for Go writes "UTC" where others write "GMT".
func ParseTime(s string) (time.Time, error) {
	if t, err := http.ParseTime(s); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC1123, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%.60q is no time of the form %q", s, http.TimeFormat)
	}
	return t, nil
}

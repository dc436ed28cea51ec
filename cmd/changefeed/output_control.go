package main

import (
	"io"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
)

// harmless writes text to a terminal, or to a file that may be shown on one later, without
// what a terminal would execute. It cannot tell a line break in a name from the end of a
// line. Texts with names therefore go through [view.OneLine] before.
type harmless struct{ io.Writer }

func (h harmless) Write(p []byte) (int, error) {
	if _, err := h.Writer.Write(view.Visible(p)); err != nil {
		return 0, err // how much of p was written is unknown
	}
	return len(p), nil
}

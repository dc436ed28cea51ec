package canonical

import (
	"bytes"

	"github.com/changefeed-go/changefeed/internal/jsonscan"
)

// Tolerant returns the canonical form of a JSON text, which may have escapes of half a
// surrogate pair. A stricter decoder accepts the result. Text that is not JSON is returned
// unchanged, so that the decoder reports it. Tolerant returns a *[RangeError] for a number
// beyond a float64.
func Tolerant(text []byte) ([]byte, error) {
	const maxDepth = 1000 // deeper text is the decoder's
	text = bytes.TrimSpace(text)
	s := jsonscan.New(text, maxDepth)
	s.AcceptHalves()
	if s.Value(0) != nil || s.End() != nil || !s.Loose() {
		return text, nil
	}
	return Append(nil, text)
}

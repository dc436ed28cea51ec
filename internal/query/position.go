package query

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"github.com/changefeed-go/changefeed/internal/query/value"
)

// Resume returns the position that the rows of a query with ORDER BY go on from, for clients that merge the rows of several ranges
// and tell where they are by values. values are those of the sort keys, as JSON; an empty array is undefined.
//
// The rows behind the position are those after the values, and those with equal ones: all of them, or with from greater than 0
// the ones from that document number on; with exclude none. Errors: a number of values that isn't that of the sort
// keys, and an array or object, which clients send as a hash of theirs.
func (b *Bound) Resume(values []json.RawMessage, from uint64, exclude bool) (*Position, error) {
	order := b.shape.OrderBy
	if len(values) != len(order) {
		return nil, fmt.Errorf("there are %d values, and ORDER BY has %d", len(values), len(order))
	}
	var key []byte
	for i, raw := range values {
		v := value.Decode(bytes.TrimSpace(raw))
		switch {
		case v.Kind == value.Array && len(bytes.TrimSpace(v.Bytes[1:len(v.Bytes)-1])) == 0:
			v = value.Value{}
		case v.Kind == value.Array || v.Kind == value.Object:
			return nil, fmt.Errorf("value %d is an array or object, or the hash of one, which is not supported: sort by numbers, strings or booleans", i)
		}
		key = appendOrderKey(key, v, order[i].Descending)
	}
	// Documents are numbered from 1, and what is behind a position is behind all rows of its document.
	p := &Position{Key: key, Row: math.MaxUint64}
	descending := len(order) > 0 && order[0].Descending
	if exclude != descending {
		p.Tie = math.MaxUint64
	}
	if from > 0 && !exclude {
		if p.Tie = from - 1; descending {
			p.Tie = from + 1
		}
	}
	return p, nil
}

// Position is a place in the order of a query's rows: a row's sort key and the
// number of its document, which tells rows with equal keys apart.
type Position struct {
	// Key is what [Rows.OrderKey] returned; nil without ORDER BY.
	Key []byte
	// Tie is the document's number in its container (the one in its rid).
	Tie uint64
	// Row counts the rows of one document from 0, where it makes several ([Shape.Several]).
	Row uint64
}

// SortedRow is a row at its place.
type SortedRow struct {
	Position
	// Row is the row's JSON.
	Row []byte
}

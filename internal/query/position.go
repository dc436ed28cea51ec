package query

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"github.com/changefeed-go/changefeed/internal/query/value"
)

// Resume returns the position after which the rows of a query with ORDER BY continue. It
// is for clients that merge the rows of several ranges and resume by the values of the
// sort keys. values are these values as JSON. An empty array is undefined, and an object is
// the hash of an array or an object: {"type":"array","low":1,"high":2}.
//
// The rows after the position are those whose values come later in the order, and rows
// with equal values as follows. If exclude is true, no such row follows. If from is
// greater than 0, the rows from that document number on follow. Otherwise all of them
// follow.
//
// Resume returns an error if the number of values differs from the number of sort keys, or if
// a value has another form.
func (b *Bound) Resume(values []json.RawMessage, from uint64, exclude bool) (*Position, error) {
	order := b.shape.OrderBy
	if len(values) != len(order) {
		return nil, fmt.Errorf("there are %d values, and ORDER BY has %d", len(values), len(order))
	}
	var key []byte
	for i, raw := range values {
		v := value.Decode(bytes.TrimSpace(raw))
		mark := len(key)
		switch {
		case v.Kind == value.Object:
			var err error
			if key, err = appendHashed(key, v.Bytes); err != nil {
				return nil, fmt.Errorf("value %d: %w", i, err)
			}
		case v.Kind == value.Array && len(bytes.TrimSpace(v.Bytes[1:len(v.Bytes)-1])) > 0:
			return nil, fmt.Errorf("value %d is an array; clients send the hash of one, %s", i, hashedForm)
		case v.Kind == value.Array:
			key = value.AppendOrderKey(key, value.Value{})
		default:
			key = value.AppendOrderKey(key, v)
		}
		invert(key[mark:], order[i].Descending)
	}
	// Documents are numbered from 1. The position is after all rows of its document.
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

const hashedForm = `{"type": "array" or "object", "low": integer, "high": integer}`

// appendHashed appends the sort key of an array or an object whose hash is given as JSON.
func appendHashed(key, text []byte) ([]byte, error) {
	var h struct {
		Type string `json:"type"`
		Low  *int64 `json:"low"`
		High *int64 `json:"high"`
	}
	err := json.Unmarshal(text, &h)
	kind := map[string]value.Kind{"array": value.Array, "object": value.Object}[h.Type]
	if err != nil || kind == value.Undefined || h.Low == nil || h.High == nil {
		return nil, fmt.Errorf("%.60s is not the hash of an array or an object, %s", text, hashedForm)
	}
	return value.AppendHashedKey(key, kind, uint64(*h.Low), uint64(*h.High)), nil //nolint:gosec // the SDK writes the unsigned bits as an int64
}

// Position is the position of a row in the order of a query. It consists of the row's
// sort key, and of the number of its document, which distinguishes rows with equal keys.
type Position struct {
	// Key is the result of [Rows.OrderKey]. It is nil without ORDER BY.
	Key []byte
	// Tie is the document's number in its container, which is part of its rid.
	Tie uint64
	// Row is the index of the row among those of its document ([Shape.Several]), from 0.
	Row uint64
}

// SortedRow is a row with its position.
type SortedRow struct {
	Position
	// Row is the row's JSON.
	Row []byte
}

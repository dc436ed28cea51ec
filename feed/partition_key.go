package feed

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Undefined stands in a [PartitionKey] for a property that the document does not have.
var Undefined = undefined{}

type undefined struct{}

// MarshalJSON returns {}, the protocol's form of the undefined component.
func (undefined) MarshalJSON() ([]byte, error) { return []byte("{}"), nil }

// PartitionKey is a logical partition key, for instance PartitionKey{"ada"}. It has one
// component for each of the container's key paths, or fewer for a prefix of a
// hierarchical key. A component is a string, a bool, nil, [Undefined], or a number of any
// Go integer or float type, which engines convert to a float64.
type PartitionKey []any

// String returns the key as a JSON array, as in the protocol's header, with {} for an
// undefined component.
func (k PartitionKey) String() string {
	b, err := json.Marshal([]any(k))
	if err != nil {
		return fmt.Sprintf("%v", []any(k))
	}
	return string(b)
}

var errPartitionKey = errors.New("a partition key is a JSON array of strings, numbers, true, false, null or {}")

// ParsePartitionKey parses what [PartitionKey.String] returned. Every number becomes a
// float64.
func ParsePartitionKey(s string) (PartitionKey, error) {
	if text, is := plainKey(s); is {
		return PartitionKey{text}, nil
	}
	var parts []any
	if err := json.Unmarshal([]byte(s), &parts); err != nil {
		return nil, fmt.Errorf("%w: %w", errPartitionKey, err)
	}
	if parts == nil { // the text is "null"
		return nil, errPartitionKey
	}
	key := make(PartitionKey, len(parts))
	for i, p := range parts {
		switch v := p.(type) {
		case nil, bool, string, float64:
			key[i] = v
		case map[string]any:
			if len(v) > 0 {
				return nil, errPartitionKey
			}
			key[i] = Undefined
		default:
			return nil, errPartitionKey
		}
	}
	return key, nil
}

// plainKey parses a partition key that consists of one ASCII string without escapes.
// Nearly all keys have this form. A server parses one in each request, and encoding/json
// takes ten times as long.
func plainKey(s string) (text string, is bool) {
	const begin, end = `["`, `"]`
	if len(s) < len(begin)+len(end) || !strings.HasPrefix(s, begin) || !strings.HasSuffix(s, end) {
		return "", false
	}
	text = s[len(begin) : len(s)-len(end)]
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return "", false
		}
	}
	return text, true
}

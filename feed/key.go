package feed

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Undefined is the component of a PartitionKey whose property is missing from
// the document.
var Undefined = undefined{}

type undefined struct{}

// MarshalJSON writes the undefined component as the protocol does: {}.
func (undefined) MarshalJSON() ([]byte, error) { return []byte("{}"), nil }

// PartitionKey is the value of a logical partition key: one component for each
// key path of the container, or fewer for a prefix of a hierarchical key. A
// component is a string, a bool, nil, [Undefined], or a number (any Go integer
// or float type; engines see it as a float64).
type PartitionKey []any

// String writes the key as a JSON array, the form of the protocol's header, with
// {} for an undefined component.
func (k PartitionKey) String() string {
	b, err := json.Marshal([]any(k))
	if err != nil {
		return fmt.Sprintf("%v", []any(k))
	}
	return string(b)
}

var errPartitionKey = errors.New("a partition key is a JSON array of strings, numbers, true, false, null or {}")

// ParsePartitionKey reads what [PartitionKey.String] writes; every number
// becomes a float64.
func ParsePartitionKey(s string) (PartitionKey, error) {
	var parts []any
	if err := json.Unmarshal([]byte(s), &parts); err != nil {
		return nil, fmt.Errorf("%w: %w", errPartitionKey, err)
	}
	if parts == nil { // the text null
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

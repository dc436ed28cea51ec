package layout

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/canonical"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/internal/keypath"
	"github.com/changefeed-go/changefeed/storetype"
)

// Limits of keys.
const (
	// MaxKeyPaths is the largest number of partition key paths of a container.
	MaxKeyPaths = 3
	// MaxKeySize is the largest size of a partition key in bytes, which is the sum of its
	// components: strings in UTF-8, numbers 8, others 1.
	MaxKeySize = 2 << 10
)

// KeyPaths are the 1 to 3 partition key paths of a container. Each path is split into the
// names that lead from the top of the document to the value.
type KeyPaths [][]string

// ParseKeyPaths parses paths such as /a, /a/b and /"quoted name"/x. A quoted name is a
// JSON string. It returns a *[storetype.BadRequestError] of the kind BadProperties for no path,
// more than three paths, an empty name, a system property, and a path that is a prefix of
// another one.
func ParseKeyPaths(paths []string) (KeyPaths, error) {
	if len(paths) == 0 || len(paths) > MaxKeyPaths {
		return nil, BadRequest(storetype.BadProperties, "a container has 1 to %d partition key paths, not %d", MaxKeyPaths, len(paths))
	}
	parsed := make(KeyPaths, len(paths))
	for i, path := range paths {
		names, err := ParsePath("partition key path", path)
		if err != nil {
			return nil, err
		}
		for j, other := range parsed[:i] {
			n := min(len(names), len(other))
			if slices.Equal(names[:n], other[:n]) {
				return nil, BadRequest(storetype.BadProperties, "partition key path %s overlaps %s", path, paths[j])
			}
		}
		parsed[i] = names
	}
	return parsed, nil
}

// ParsePath splits a path into its names. Errors contain the parameter what, which
// describes the kind of path.
func ParsePath(what, path string) ([]string, error) {
	names, err := keypath.Parse(path)
	switch {
	case err != nil:
		return nil, BadRequest(storetype.BadProperties, "%s %q: %v", what, path, err)
	case len(names) == 0 || len(names) >= MaxDepth:
		return nil, BadRequest(storetype.BadProperties, "%s %q: it has %d names", what, path, len(names))
	case slices.Contains(systemNames[:], names[0]), names[0] == "_lsn": // a feed shows two members _lsn
		return nil, BadRequest(storetype.BadProperties, "%s %q: a system property cannot be part of a key", what, path)
	}
	return names, nil
}

// KeyComponents converts a partition key from a caller to components. Numbers of all Go
// types become float64. It returns a BadKey error for another type, a text that is not
// UTF-8, a NaN or an infinity. It returns a *[storetype.TooLargeError] above MaxKeySize. It does
// not check the number of components.
func KeyComponents(k feed.PartitionKey) ([]epk.Component, error) {
	components := make([]epk.Component, len(k))
	for i, v := range k {
		c, err := keyComponent(v)
		if err != nil {
			return nil, err
		}
		components[i] = c
	}
	return components, checkKeySize(components)
}

func keyComponent(v any) (epk.Component, error) {
	switch v := v.(type) {
	case nil:
		return epk.Component{Kind: epk.Null}, nil
	case bool:
		return epk.OfBool(v), nil
	case string:
		if !utf8.ValidString(v) {
			return epk.Component{}, BadRequest(storetype.BadKey, "%q is not UTF-8", v)
		}
		return epk.OfString(v), nil
	case json.Number:
		f, err := strconv.ParseFloat(string(v), 64)
		if errors.Is(err, strconv.ErrRange) {
			return epk.Component{}, BadRequestBy(&canonical.RangeError{Text: string(v)}, storetype.BadKey, "%s is beyond the range of a double", v)
		} else if err != nil {
			return epk.Component{}, BadRequest(storetype.BadKey, "%q is not a number", string(v))
		}
		return numberComponent(f)
	case float64:
		return numberComponent(v)
	case float32:
		return numberComponent(float64(v))
	case int, int8, int16, int32, int64:
		return epk.OfNumber(float64(reflect.ValueOf(v).Int())), nil
	case uint, uint8, uint16, uint32, uint64:
		return epk.OfNumber(float64(reflect.ValueOf(v).Uint())), nil
	}
	if v == any(feed.Undefined) {
		return epk.Component{}, nil
	}
	return epk.Component{}, BadRequest(storetype.BadKey, "a value of type %T cannot be a component of a partition key", v)
}

func numberComponent(f float64) (epk.Component, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return epk.Component{}, BadRequest(storetype.BadKey, "%v cannot be a component of a partition key", f)
	}
	return epk.OfNumber(f), nil
}

// checkKeySize returns a *[storetype.TooLargeError] if a key is larger than MaxKeySize.
func checkKeySize(components []epk.Component) error {
	size := 0
	for _, c := range components {
		switch c.Kind {
		case epk.String:
			size += len(c.Text)
		case epk.Number:
			size += 8
		case epk.Undefined, epk.Null, epk.False, epk.True:
			size++
		}
	}
	if size > MaxKeySize {
		return &storetype.TooLargeError{What: "partition key", Size: size, Limit: MaxKeySize}
	}
	return nil
}

// PartitionKey is the inverse of KeyComponents: it returns components as a key for
// callers.
func PartitionKey(components []epk.Component) feed.PartitionKey {
	k := make(feed.PartitionKey, len(components))
	for i, c := range components {
		switch c.Kind {
		case epk.Null:
			k[i] = nil
		case epk.False, epk.True:
			k[i] = c.Kind == epk.True
		case epk.Number:
			k[i] = c.Number
		case epk.String:
			k[i] = c.Text
		case epk.Undefined:
			k[i] = feed.Undefined
		}
	}
	return k
}

// FullKey converts a complete partition key to components. It returns a KeyMismatch error
// unless the key has a component for each of the paths.
func (p KeyPaths) FullKey(k feed.PartitionKey) ([]epk.Component, error) {
	if len(k) != len(p) {
		var cause error
		if len(k) < len(p) {
			cause = ErrFewComponents
		}
		return nil, BadRequestBy(cause, storetype.KeyMismatch, "the key %s has %d components, and the container has %d key paths", k, len(k), len(p))
	}
	return KeyComponents(k)
}

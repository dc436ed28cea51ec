package store

import (
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
)

// Limits of keys.
const (
	// MaxKeyPaths is how many partition key paths a container has at most.
	MaxKeyPaths = 3
	// MaxKeySize is the size in bytes of all components of a partition key
	// together: strings in UTF-8, numbers 8, others 1.
	MaxKeySize = 2 << 10
)

// keyPaths are a container's partition key paths, parsed: 1 to 3 of them, each
// the names from the document's top to the component.
type keyPaths [][]string

// parseKeyPaths reads paths such as /a, /a/b and /"quoted name"/x (the quoted form is
// a JSON string's, with its escapes). Refused with BadProperties: none, more than three, an
// empty name, a path that is the same as or leads through another one, a system property.
func parseKeyPaths(paths []string) (keyPaths, error) { panic("to do") }

// keyComponents converts a key as callers give it. A number of any Go type becomes
// a float64. Refused: another type, a NaN or an infinity (BadKey), more than
// 2 KB (*TooLargeError). It does not judge the number of components.
func keyComponents(k feed.PartitionKey) ([]epk.Component, error) { panic("to do") }

// partitionKey is the reverse of keyComponents, for AVAD deletes.
func partitionKey(components []epk.Component) feed.PartitionKey { panic("to do") }

// fullKey converts k, which must have a component for each path (KeyMismatch).
func (p keyPaths) fullKey(k feed.PartitionKey) ([]epk.Component, error) { panic("to do") }

// matchKey tells whether the key in a document is the given one; nil matches. Its
// error is KeyMismatch and names both.
func (p keyPaths) matchKey(given feed.PartitionKey, d *document) error { panic("to do") }

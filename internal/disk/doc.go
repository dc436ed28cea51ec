// Package disk opens Pebble in the directory of a store and decides what its failures mean.
//
// A [Directory] is locked for one process, private to its owner, and checked by witnesses
// before Pebble may change it. A [Pebble] is one opening: when the disk refuses a write that
// Pebble cannot do without, the opening is cut off from the disk, can still be read, and
// another takes its place. The package knows nothing of documents.
package disk

// Package engine is the storage engine under package store, on Pebble. Package store is
// the users' view of it; package server works on the engine itself.
//
// A write passes the sequencer, which assigns LSNs and commits groups. Reads and feeds use
// the snapshot that the sequencer published last. store/FORMAT.md describes the keys and
// values on disk.
package engine

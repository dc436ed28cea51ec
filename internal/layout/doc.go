// Package layout is the form in which the engine stores documents: how the text of a
// document is parsed and completed with its system properties, the keys and values under
// which it lies, and the resource ids. FORMAT.md describes that form byte by byte.
//
// It knows nothing of databases, containers, transactions or Pebble.
package layout

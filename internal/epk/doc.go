// Package epk computes effective partition keys (EPK), byte for byte as Azure Cosmos DB
// and its SDKs do. An EPK is the point of the key space that a partition key is hashed
// to.
//
// A container uses one of three hashes, a [Hash]: [V1], [V2] or [MultiHash]. A key is a
// list of [Component] values, and [Hash.Append] returns its EPK. An EPK has two forms,
// which sort alike. The store's keys hold the binary form. Ranges and the protocol use
// upper-case hexadecimal. [Hex] and [ParseHex] convert them.
//
// The key space goes from "" to "FF". [Hash.Bounds] divides it, and [Hash.Divide] and
// [Hash.Midpoint] divide a part of it. [Hash.Prefix] returns the part that holds a prefix
// of a hierarchical key.
//
// All functions are pure and safe for concurrent use.
package epk

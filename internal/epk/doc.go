// Package epk computes effective partition keys (EPK): the points of the key
// space into which a container's partition keys are hashed, byte for byte as
// Azure Cosmos DB and its SDKs do.
//
// A container hashes by one of three rules, a [Hash]: [V1], [V2] or
// [MultiHash]. A point exists in two forms that sort alike: binary, as the
// store keeps it in its keys, and upper-case hexadecimal, as ranges and the
// protocol write it. [Hex] and [ParseHex] convert.
//
// The key space goes from "" to "FF". [Hash.Bounds] divides it, [Hash.Midpoint]
// halves a part of it, [Hash.Prefix] is the part that a prefix of a
// hierarchical key covers.
//
// Everything here is pure: no state, no I/O, safe for concurrent use.
package epk

// Package wire is the part of the Cosmos DB REST protocol that needs no
// connection: the names of headers, the signature of a request, the form of
// paths, times, session tokens and errors. Client and server share it, so that
// the two can't disagree.
//
// Everything here is pure: no state, no I/O, safe for concurrent use.
package wire

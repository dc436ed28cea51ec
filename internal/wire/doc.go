// Package wire is the part of the Cosmos DB REST protocol that needs no connection: names
// of headers, signatures, paths, times, session tokens and errors. Client and server
// share it, so that they agree.
//
// All functions are pure and safe for concurrent use.
package wire

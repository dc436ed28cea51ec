// Package wire is the part of the Cosmos DB REST protocol that needs no connection: names
// of headers, signatures, paths, times, session tokens and errors. Client and server
// share it, so that they agree.
//
// To sign a request, parse its path with [ParsePath]. Then pass its type and link to
// [Payload], the payload to [Key.Sign], and the signature to [Authorization]. The server
// reads the header with [ParseAuthorization]. Package wiretest has a client that does all
// of this for tests.
//
// All functions are pure and safe for concurrent use.
package wire

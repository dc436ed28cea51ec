// Package server serves the REST protocol of Azure Cosmos DB over the embedded store, as an
// [http.Handler]. Unmodified official SDKs work against it in gateway mode.
//
// # The way of a request
//
//	ServeHTTP -> limits -> path -> route -> signature -> faults -> operation -> answer
//
// [Server] finds the operation in one table (routes.go), checks the signature, and calls the
// operation with a request: its parts, and the headers of its answer. An operation returns an error
// or nil. One table (errors.go) makes a status, a sub-status and a body of every error.
//
// The engine is responsible for conditions, atomicity, time to live and order. This package
// translates. Documents are only decoded and encoded if an operation changes them (patch) or
// evaluates them (query).
//
// # Concurrency
//
// A Server is safe for concurrent use. Requests share the frozen ranges of keys, the compiled
// queries and the counters of faults. The locks of these are held for a lookup, and never while
// anything waits.
package server

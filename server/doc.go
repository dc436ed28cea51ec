// Package server serves Azure Cosmos DB's REST protocol over the embedded store, as an
// [http.Handler]. Official SDKs work with it unmodified, in gateway mode. The command
// `changefeed serve` runs it with TLS, limits and an admin API, so import the package
// only to run a server inside your own program:
//
//	db, err := store.Open("data", store.Options{})
//	protocol, err := server.New(db, server.Options{Keys: []string{key}})
//	h := &http.Server{Handler: protocol}
//	h.RegisterOnShutdown(protocol.Drain)
//	err = h.Serve(protocol.Guard(h, listener))
//
// [Options] configures the account: its keys, its limits and its defaults for containers.
// Put the listener behind [Server.Guard] if strangers can reach it, because only Guard
// limits connections and the memory that headers take. To see what a client does when a
// data center fails, add [Faults], or hold one partition's requests with [Server.Freeze].
// [Operations] lists what the server supports, and what it refuses.
//
// To test a program, reach for package changefeedtest instead. Its servers need no port,
// because clients reach them over a network in memory.
//
// # The path of a request
//
//	ServeHTTP -> limits -> path -> route -> signature -> faults -> operation -> answer
//
// [Server] finds the operation in one table (routes.go), checks the signature, and calls
// the operation with a request, which also holds the answer's headers. An operation
// returns an error or nil, and one function (statusOf in errors.go) maps every error to a
// status and a sub-status.
//
// This package only translates: conditions, atomicity, time to live and order are up to
// the engine. A document is decoded only if an operation changes it (patch) or evaluates
// it (query).
//
// # Concurrency
//
// A Server is safe for concurrent use. Requests share the frozen key ranges, the compiled
// queries and the faults' counters, but they hold a lock only while they look something
// up, and never while they wait.
package server

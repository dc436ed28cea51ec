// Package server serves the REST protocol of Azure Cosmos DB over the embedded store, as
// an [http.Handler]. Unmodified official SDKs work with it in gateway mode. The command
// `changefeed serve` runs it with TLS, limits and an admin API. Import the package to run
// it inside a program of your own:
//
//	db, err := store.Open("data", store.Options{})
//	protocol, err := server.New(db, server.Options{Keys: []string{key}})
//	h := &http.Server{Handler: protocol}
//	h.RegisterOnShutdown(protocol.Drain)
//	err = h.Serve(protocol.Guard(h, listener))
//
// [Options] configures the account: its keys, its limits and its defaults for containers.
// [Server] is the handler. [Server.Guard] limits connections and the memory of headers.
// [Faults] makes requests fail as they fail in a data center, and
// [Server.Freeze] holds the requests to one partition. [Operations] returns the list of
// operations that the server supports or refuses.
//
// For tests of programs, use package changefeedtest. Its servers need no port, because
// clients reach them over a network in memory.
//
// # The path of a request
//
//	ServeHTTP -> limits -> path -> route -> signature -> faults -> operation -> answer
//
// [Server] finds the operation in one table (routes.go) and checks the signature. It then
// calls the operation with a request, which also holds the headers of the answer. An
// operation returns an error or nil. One function (statusOf in errors.go) maps every
// error to a status and a sub-status.
//
// The engine is responsible for conditions, atomicity, time to live and order. This
// package only translates. It decodes and encodes a document only if an operation changes
// it (patch) or evaluates it (query).
//
// # Concurrency
//
// A Server is safe for concurrent use. Requests share the frozen ranges of keys, the
// compiled queries and the counters of faults. Their locks are held for a lookup, and
// never while a request waits.
package server

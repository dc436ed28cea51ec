package server

import (
	"net/http"
	"strings"
)

// What is refused by name: parts of the protocol that the server knows of and doesn't have. Whoever asks for
// one is told which it is, with 400, so that no SDK repeats the request.

// refusedPrefix begins the names of operations that are refused.
const refusedPrefix = "refuse "

// refused are the routes of what the server doesn't have.
func refused() []route {
	var all []route
	for _, r := range []struct{ shape, what string }{
		{"/dbs/*/clientencryptionkeys", "client-side encryption"},
		{"/dbs/*/colls/*/sprocs", "a stored procedure"},
		{"/dbs/*/colls/*/triggers", "a trigger"},
		{"/dbs/*/colls/*/udfs", "a user-defined function"},
		{"/dbs/*/colls/*/conflicts", "a feed of conflicts"},
		{"/dbs/*/colls/*/operations", "an operation on a container (deleting all documents of a partition key)"},
		{"/dbs/*/colls/*/docs/*/attachments", "an attachment"},
	} {
		for _, shape := range []string{r.shape, r.shape + "/*"} {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
				all = append(all, route{method: method, shape: shape, op: refusedPrefix + r.what, serve: refusal(r.what)})
			}
		}
	}
	return all
}

// refusal makes the operation that refuses something by name.
func refusal(what string) func(*exchange) error {
	return func(*exchange) error { return unsupported(what) }
}

// isAddresses reports whether a path asks for the addresses of replicas, as clients in direct mode do first of all.
// It is the default mode of Java and .NET, so this is what most users meet who changed the endpoint and nothing else.
func isAddresses(escaped string) bool {
	first, _, _ := strings.Cut(strings.Trim(escaped, "/"), "/")
	return first == "addresses"
}

// errDirectMode is the answer to them. It tells nothing of the account, so it needs no signature, which is made over a
// link of its own in these requests.
var errDirectMode = badRequest("the direct connection mode is not supported by this server. Build the client in gateway mode: " +
	"gatewayMode() of Java's CosmosClientBuilder, ConnectionMode.Gateway in .NET's CosmosClientOptions")

package server

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// route is one operation of the protocol: the requests that select it, and the function
// that carries it out.
type route struct {
	method string
	// shape is the path with "*" in place of each ID: "/dbs/*/colls".
	shape string
	// when reports whether the headers of a request select this operation. nil means that
	// every request does. If several routes match, the first in the table is used.
	when func(*request) bool
	// op is the name of the operation in logs, metrics and faults, and in the
	// documentation's table of operations.
	op string
	// writes is true if the operation needs a key that may write.
	writes bool
	serve  func(*request) error
}

// table returns the routing table: the operations that the server supports, and those
// that it refuses by name.
func (s *Server) table() []route {
	return append(refused(), []route{
		{http.MethodGet, "/", nil, "read account", false, s.readAccount},

		{http.MethodGet, "/dbs", nil, "list databases", false, listed(s.databases)},
		{http.MethodPost, "/dbs", isQuery, "query databases", false, queried(s.databases)},
		{http.MethodPost, "/dbs", nil, "create database", true, s.createDatabase},
		{http.MethodGet, "/dbs/*", nil, "read database", false, s.readDatabase},
		{http.MethodDelete, "/dbs/*", nil, "delete database", true, s.deleteDatabase},

		{http.MethodGet, "/dbs/*/colls", nil, "list containers", false, listed(s.containers)},
		{http.MethodPost, "/dbs/*/colls", isQuery, "query containers", false, queried(s.containers)},
		{http.MethodPost, "/dbs/*/colls", nil, "create container", true, s.createContainer},
		{http.MethodGet, "/dbs/*/colls/*", nil, "read container", false, s.readContainer},
		{http.MethodPut, "/dbs/*/colls/*", nil, "replace container", true, s.replaceContainer},
		{http.MethodDelete, "/dbs/*/colls/*", nil, "delete container", true, s.deleteContainer},

		{http.MethodGet, "/dbs/*/users", nil, "list users", false, listed(s.users)},
		{http.MethodPost, "/dbs/*/users", isQuery, "query users", false, queried(s.users)},
		{http.MethodPost, "/dbs/*/users", isUpsert, "upsert user", true, s.postUser},
		{http.MethodPost, "/dbs/*/users", nil, "create user", true, s.postUser},
		{http.MethodGet, "/dbs/*/users/*", nil, "read user", false, s.readUser},
		{http.MethodPut, "/dbs/*/users/*", nil, "replace user", true, s.replaceUser},
		{http.MethodDelete, "/dbs/*/users/*", nil, "delete user", true, s.deleteUser},

		// A read-only key is not enough for these reads. Their answers contain resource
		// tokens, which may permit writes.
		{http.MethodGet, "/dbs/*/users/*/permissions", nil, "list permissions", true, listed(s.permissions)},
		{http.MethodPost, "/dbs/*/users/*/permissions", isQuery, "query permissions", true, queried(s.permissions)},
		{http.MethodPost, "/dbs/*/users/*/permissions", isUpsert, "upsert permission", true, s.postPermission},
		{http.MethodPost, "/dbs/*/users/*/permissions", nil, "create permission", true, s.postPermission},
		{http.MethodGet, "/dbs/*/users/*/permissions/*", nil, "read permission", true, s.readPermission},
		{http.MethodPut, "/dbs/*/users/*/permissions/*", nil, "replace permission", true, s.replacePermission},
		{http.MethodDelete, "/dbs/*/users/*/permissions/*", nil, "delete permission", true, s.deletePermission},

		{http.MethodGet, "/offers", nil, "list offers", false, listed(s.offers)},
		{http.MethodPost, "/offers", isQuery, "query offers", false, queried(s.offers)},
		{http.MethodGet, "/offers/*", nil, "read offer", false, s.readOffer},
		{http.MethodPut, "/offers/*", nil, "replace offer", true, s.replaceOffer},

		{http.MethodGet, "/dbs/*/colls/*/pkranges", nil, "read partition key ranges", false, s.readKeyRanges},
		{http.MethodGet, "/dbs/*/colls/*/docs", isChangeFeed, "read change feed", false, s.readChangeFeed},
		{http.MethodGet, "/dbs/*/colls/*/docs", nil, "read documents", false, s.readDocuments},
		{http.MethodPost, "/dbs/*/colls/*/docs", isBatch, opBatch, false, s.runBatch}, // the operations in the batch are checked later, so that a read-only key may send a batch of reads
		{http.MethodPost, "/dbs/*/colls/*/docs", isPlan, opPlan, false, s.planQuery},
		{http.MethodPost, "/dbs/*/colls/*/docs", isQuery, opQuery, false, s.queryDocuments},
		{http.MethodPost, "/dbs/*/colls/*/docs", isUpsert, "upsert document", true, s.postDocument},
		{http.MethodPost, "/dbs/*/colls/*/docs", nil, "create document", true, s.postDocument},
		{http.MethodGet, "/dbs/*/colls/*/docs/*", nil, "read document", false, s.readDocument},
		{http.MethodPut, "/dbs/*/colls/*/docs/*", nil, "replace document", true, s.replaceDocument},
		{http.MethodPatch, "/dbs/*/colls/*/docs/*", nil, "patch document", true, s.patchDocument},
		{http.MethodDelete, "/dbs/*/colls/*/docs/*", nil, "delete document", true, s.deleteDocument},
	}...)
}

// Other code identifies these operations by their names. It cannot use the headers,
// because a request may have the headers of several operations.
const (
	opQuery = "query documents"
	opBatch = "batch"
	opPlan  = "plan query"
)

// The functions below select between operations with the same path. A POST to docs is a
// batch, a query plan, a query, an upsert or a create. The first one that matches is
// used. SDKs mark a query in three ways, and send different content types for a plan.

func isBatch(x *request) bool { return x.flag(wire.HeaderBatch) }

func isPlan(x *request) bool { return x.flag(wire.HeaderQueryPlan) }

func isQuery(x *request) bool {
	if strings.HasPrefix(strings.ToLower(x.header("Content-Type")), "application/json") {
		return false // as in the service, which takes a query that is sent as JSON for a document
	}
	return strings.HasPrefix(strings.ToLower(x.header("Content-Type")), wire.ContentTypeQuery) ||
		x.flag(wire.HeaderIsQuery) || x.flag(wire.HeaderIsQueryGo)
}

func isUpsert(x *request) bool { return x.flag(wire.HeaderUpsert) }

func isChangeFeed(x *request) bool { return x.header(wire.HeaderAIM) != "" }

// routeIndex maps the shape of a path to the routes with that path, in the order of the
// table.
type routeIndex map[string][]route

// indexRoutes returns the index of a routing table. It returns an error if a route can
// never be used, because an earlier one matches all of its requests.
func indexRoutes(table []route) (routeIndex, error) {
	index := routeIndex{}
	for _, r := range table {
		for _, before := range index[r.shape] {
			if before.method == r.method && before.when == nil {
				return nil, fmt.Errorf("route %s is hidden by route %s", r.op, before.op)
			}
		}
		index[r.shape] = append(index[r.shape], r)
	}
	return index, nil
}

// find returns the route for a request, or the error of a path or a method without one.
func (index routeIndex) find(x *request) (route, error) {
	routes := index[x.path.Shape()]
	if len(routes) == 0 {
		return route{}, errURL
	}
	if x.r.Method == http.MethodOptions {
		return route{}, errForbidden
	}
	for _, r := range routes {
		if r.method == x.r.Method && (r.when == nil || r.when(x)) {
			return r, nil
		}
	}
	first := min(1, len(x.r.Method)) // a program that calls the handler itself may leave out the method
	method := x.r.Method[:first] + strings.ToLower(x.r.Method[first:])
	return route{}, refuse(byFrontDoor, http.StatusMethodNotAllowed, wire.SubNone, "RequestHandler."+method)
}

// errURL is the answer to a path that the protocol does not have. errForbidden is the answer
// to OPTIONS, the only one without a message.
var (
	errURL       = badRequest("Request url is invalid.")
	errForbidden = &statusError{by: byFrontDoor, status: http.StatusForbidden, code: "Forbidden", message: "Forbidden"}
)

// methodNotAllowed returns the 405 answer to a request whose path supports other methods.
// allowed are these methods.
func (x *request) methodNotAllowed(path string, allowed []string) error {
	methods := strings.Join(allowed, ", ")
	x.w.Header().Set("Allow", methods)
	return failure(http.StatusMethodNotAllowed, wire.SubNone, "%s supports %s, not %s", path, methods, x.r.Method)
}

// The server refuses some parts of the protocol by name: with an error message that names
// the unsupported part. The status is 400, so that SDKs do not repeat the request.

// refusedPrefix is the prefix of the operation names in refused routes.
const refusedPrefix = "refuse "

// refused returns a route for each part of the protocol that is refused by name.
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

// refusal returns an operation that answers every request with an error that names the
// unsupported part what.
func refusal(what string) func(*request) error {
	return func(*request) error { return unsupported(what) }
}

// addressesPath is the first segment of the path for the addresses of replicas. A client
// in direct mode, the default of Java and .NET, requests it first. So a user who changed
// only the client's endpoint sees the answer to this request.
const addressesPath = "addresses"

// errDirectMode is the answer to clients in direct mode. It is sent without checking the
// signature, because it reveals nothing about the account.
var errDirectMode = badRequest("the direct connection mode is not supported by this server. Build the client in gateway mode: " +
	"gatewayMode() of Java's CosmosClientBuilder, ConnectionMode.Gateway in .NET's CosmosClientOptions")

// Operation is something that a client may ask for in the protocol. The server supports
// it, or refuses it with a message that names it.
type Operation struct {
	// Name is the operation's name in logs, metrics and faults, which several operations may
	// share. If the server refuses the operation, the name is "refuse " and what is refused,
	// as in "refuse a trigger".
	Name string
	// Method and Path are what its requests have. Each "*" in Path is an ID. Operations with
	// the same method and path differ in their headers.
	Method, Path string
	// Supported reports whether the server carries the operation out rather than refuses it.
	Supported bool
}

// Operations returns the protocol's operations, refused ones first. Reach for it to see
// whether the server will serve a client's requests, or to find a name for
// [Fault.Operation].
func Operations() []Operation {
	var all []Operation
	for _, r := range new(Server).table() {
		all = append(all, Operation{Name: r.op, Method: r.method, Path: r.shape, Supported: !strings.HasPrefix(r.op, refusedPrefix)})
	}
	return all
}

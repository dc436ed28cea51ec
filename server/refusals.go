package server

import "net/http"

// What is refused by name: parts of the protocol that the server knows of and doesn't have. Whoever asks for
// one is told which it is, with 400, so that no SDK repeats the request.

// refused are the routes of what the server doesn't have.
func refused() []route {
	var all []route
	for _, r := range []struct{ shape, what string }{
		{"/dbs/*/users", "a user"},
		{"/dbs/*/users/*/permissions", "a permission"},
		{"/dbs/*/clientencryptionkeys", "client-side encryption"},
		{"/dbs/*/colls/*/sprocs", "a stored procedure"},
		{"/dbs/*/colls/*/triggers", "a trigger"},
		{"/dbs/*/colls/*/udfs", "a user-defined function"},
		{"/dbs/*/colls/*/conflicts", "a feed of conflicts"},
		{"/dbs/*/colls/*/docs/*/attachments", "an attachment"},
	} {
		for _, shape := range []string{r.shape, r.shape + "/*"} {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
				all = append(all, route{method: method, shape: shape, op: "refuse " + r.what, serve: refusal(r.what)})
			}
		}
	}
	return all
}

// refusal makes the operation that refuses something by name.
func refusal(what string) func(*exchange) error {
	return func(*exchange) error { return unsupported(what) }
}

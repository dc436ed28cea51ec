// Package raw is the suite without an SDK. It uses net/http, a signature written from the
// REST API's description, and x-ms-version 2016-07-11, as the REST API's pages do. See
// `interop/README.md` for how to run it.
package raw

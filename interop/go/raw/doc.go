// Package raw is the suite without an SDK: net/http, a signature written from the REST API's
// description, and x-ms-version 2016-07-11, as its documents show requests. `interop/README.md`
// says how it is run.
package raw

// Package raw is the suite without an SDK. It uses net/http, and signs requests as the
// description of the REST API specifies. Its x-ms-version is 2016-07-11, which the pages
// of the REST API use. See `interop/README.md` for how to run it.
package raw

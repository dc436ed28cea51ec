// Package azcosmos is the suite of the Go SDK. Its tests use the SDK as a user would,
// with the server that the environment names. See `interop/README.md` for how to run it.
//
// Three scenarios run in part, because the SDK lacks the rest: etag-races without
// If-None-Match, patch without move, and items-keys without the undefined key.
// missing.json lists the scenarios that it lacks completely.
package azcosmos

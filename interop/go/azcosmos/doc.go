// Package azcosmos is the suite of the Go SDK: its tests use the SDK as a user would,
// against the server that the environment names. `interop/README.md` says how it is run.
//
// Of etag-races the SDK lacks the half with If-None-Match, of patch the move, of items-keys
// the undefined key; the rest of these scenarios is run. What it lacks whole is in missing.json.
package azcosmos

// Package connect gives every command that talks to an account the same flags
// and the same environment: an endpoint with a key or a sign-in by Microsoft Entra ID, a
// connection string, or the directory of an embedded store, which is opened
// behind a server in this process on a network in memory, so that each command is
// written once.
//
// It never prints a key, and no error of it holds one.
package connect

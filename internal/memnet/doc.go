// Package memnet is a network in memory. Clients and servers that use it can run in a
// testing/synctest bubble. With sockets, time would not pass there while a goroutine
// waits for one.
//
// The zero [Network] is ready to use. A server listens with [Network.Listen]. A client
// connects with [Network.Dial], which an http.Transport accepts as its DialContext.
//
// Connections have buffers, like those of a kernel, so that a write does not wait for a
// read. HTTP depends on that: a server may respond to a request before it has read all of
// it.
package memnet

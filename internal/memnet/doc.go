// Package memnet is a network in memory: what net gives with sockets, without
// sockets, so that clients and servers run together inside a testing/synctest
// bubble, where a goroutine that waits for a socket would keep time from passing.
//
// Its connections have buffers, as those of a kernel have: a peer that writes
// while nobody reads yet doesn't stand still, which HTTP counts on: a
// server may answer a request that it has not read to its end.
package memnet

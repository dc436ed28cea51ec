// Package lease is the protocol by which hosts share the partitions of a
// monitored container: the [Lease] value, its transitions, the judgement who
// should own what, and the interfaces of what keeps the documents.
//
// Apart from the two interfaces everything here is pure: values in, values out,
// no I/O, no clock, no goroutine. The processor performs what is decided here.
package lease

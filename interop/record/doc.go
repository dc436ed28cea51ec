// Command record makes the golden lease documents of lease/testdata/java anew: real hosts of Java's change feed processor run
// against `changefeed serve`, behind a proxy that keeps every write to the lease container and its answer.
//
//	make record-java            (go run ./interop/record)
//
// It needs Java 17 and Maven. Documents differ from run to run in their times, ETags and rids, and in nothing else.
package main

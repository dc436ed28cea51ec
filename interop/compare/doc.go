// Command compare measures how fast this module's processor and Java's take in the changes of one container, over loopback HTTP, on the same
// server in the same run: 4 partitions, documents of 1 KB, one host each, in turns. Both keep their leases in the same dialect and write a checkpoint after each page.
//
//	make compare-java            (go run ./interop/compare)
//
// Both processes stay, and are warm: each reads everything once before the measurement. A rate is that of all changes, from the first batch that a
// handler gets to the last. It needs Java 17 and Maven, and takes 3 to 5 minutes.
package main

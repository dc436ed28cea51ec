// Command mixed has hosts of this module's processor and of Java's share leases, in each mode of Java's: they balance, take over from each other,
// are killed (SIGKILL) and replaced, while partitions are split and merged and writes go on. It exits 1 when a change wasn't delivered, when one
// was delivered ahead of an earlier one of its key, when the leases don't settle, or when a lease document isn't what either side writes.
//
//	go run ./interop/mixed                  the short run: one scene in each dialect (2 to 3 minutes)
//	go run ./interop/mixed -full            every scene in every mode (make interop-java)
//	go run ./interop/mixed -modes latestVersion -scenes rolling
//
// It needs Java 17 and Maven.
package main

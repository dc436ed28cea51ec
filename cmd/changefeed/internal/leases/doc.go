// Package leases implements `changefeed leases`: it reads the lease documents of a
// processor, finds damage, and changes documents by compare-and-set.
//
// Decisions are pure functions, and separate from requests. [Find] turns a [Survey] into
// findings and a plan. [Container] reads and writes documents, and [Container.Apply]
// carries out a plan step by step.
package leases

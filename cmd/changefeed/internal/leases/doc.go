// Package leases is the work of `changefeed leases`: it looks at the lease
// documents of a processor, finds what is wrong with them, and changes them by
// compare-and-set.
//
// What is judged is pure and apart from what is sent: [Find] makes findings and a
// plan of a [Survey], [Container] reads and writes documents, and [Container.Apply]
// carries a plan out, step by step.
package leases

// Package stand is what the drivers under interop/ stand on: a `changefeed serve` of their own, its documents, partitions
// and faults by plain HTTP, and processes with change feed processor hosts, of any implementation, that are commanded by their standard input.
package stand

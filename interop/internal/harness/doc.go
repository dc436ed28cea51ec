// Package harness is what the suites in Go and the drivers under interop/ share: a
// `changefeed serve` of their own, a client of its documents and its admin API, processes
// that run hosts of change feed processors, and the report of a suite's scenarios.
package harness

// Package harness is what the suites in Go share: the environment a run is given,
// the report of its scenarios, and the server's admin API, which splits and merges
// partitions and injects faults.
//
// It signs its own requests, written from the REST API's public description and not
// from the server's code, so that the two check each other.
package harness

// Package race tells tests whether the race detector is on. It makes tests several times
// slower and larger, so tests leave out cases that it cannot judge: files after a power
// loss, sizes and rates, allocations, and code with one goroutine.
package race

// Enabled reports whether the race detector is on.
const Enabled = enabled

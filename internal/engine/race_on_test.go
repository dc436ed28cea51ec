//go:build race

package engine

// RaceDetector reports whether the tests run with the race detector, which makes them
// several times slower.
const RaceDetector = true

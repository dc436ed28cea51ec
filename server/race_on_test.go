//go:build race

package server

// raceDetector reports whether the race detector is on, which makes the tests several
// times slower.
const raceDetector = true

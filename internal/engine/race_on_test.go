//go:build race

package engine

// RaceDetector reports whether the race detector is on. Tests then run several times
// slower.
const RaceDetector = true

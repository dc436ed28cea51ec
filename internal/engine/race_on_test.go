//go:build race

package engine

// raceDetector reports whether the race detector is on. Tests then run several times
// slower.
const raceDetector = true

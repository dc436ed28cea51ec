//go:build race

package engine

// RaceDetector tells that the tests run several times slower.
const RaceDetector = true

//go:build race

package engine_test

// raceDetector tells that the tests run several times slower.
const raceDetector = true

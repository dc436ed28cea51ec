//go:build race

package store_test

// raceDetector tells that the tests run several times slower.
const raceDetector = true

//go:build race

package server

// raceDetector tells that the tests run several times slower.
const raceDetector = true

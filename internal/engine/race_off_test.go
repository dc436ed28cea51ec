//go:build !race

package engine

const RaceDetector = false

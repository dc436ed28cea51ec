//go:build !race

package changefeedtest

const raceEnabled = false

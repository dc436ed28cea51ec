//go:build !unix

package cputime

import (
	"testing"
	"time"
)

var processStart = time.Now()

// Used returns the time since the start of the process. These systems have no simple call
// for processor time.
func Used(testing.TB) time.Duration { return time.Since(processStart) }

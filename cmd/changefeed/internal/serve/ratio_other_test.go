//go:build !unix

package serve

import (
	"testing"
	"time"
)

var processStart = time.Now()

// processorTime stands in for the processor time where it isn't to be had so
// simply: the time that has passed.
func processorTime(testing.TB) time.Duration { return time.Since(processStart) }

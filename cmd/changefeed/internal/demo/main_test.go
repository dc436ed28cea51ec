package demo

import (
	"testing"

	"go.uber.org/goleak"
)

// A run ends every goroutine that it started, including those of a crashed host.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

package demo

import (
	"testing"

	"go.uber.org/goleak"
)

// A run ends every goroutine that it started, those of a crashed host too.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

package demo

import (
	"testing"

	"go.uber.org/goleak"
)

// No test may leave a goroutine behind. So a run must end all goroutines that it started,
// even those of a host that crashed.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

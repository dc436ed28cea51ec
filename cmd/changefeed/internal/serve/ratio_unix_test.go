//go:build unix

package serve

import (
	"syscall"
	"testing"
	"time"
)

// processorTime is the processor time that the process has used so far, in
// seconds, its garbage collector's included.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

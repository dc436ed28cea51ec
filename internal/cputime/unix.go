//go:build unix

package cputime

import (
	"syscall"
	"testing"
	"time"
)

// Used returns the processor time that the process has used, garbage collection included.
func Used(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

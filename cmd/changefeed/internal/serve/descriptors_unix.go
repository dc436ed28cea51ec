//go:build unix

package serve

import (
	"math"
	"syscall"
)

// descriptorLimit returns how many files the process may have open; 0: it is not known. Go's runtime has raised the soft limit to the hard one.
func descriptorLimit() int {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 0
	}
	return int(min(uint64(r.Cur), math.MaxInt32)) //nolint:unconvert,gosec // it is signed on some systems; bounded
}

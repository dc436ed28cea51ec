//go:build unix

package serve

import (
	"math"
	"syscall"
)

// descriptorLimit returns the process's limit of open files. It returns 0 if the limit is
// unknown. Go's runtime has raised the soft limit to the hard one.
func descriptorLimit() int {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 0
	}
	return int(min(uint64(r.Cur), math.MaxInt32)) //nolint:unconvert,gosec // it is signed on some systems; bounded
}

package slowsync

import (
	"errors"
	"syscall"
	"time"
)

// pause holds the thread, as a call of the system that syncs a file does. A sleep of the runtime is no measure of a
// disk: in a process that has nothing else to do it lasts a millisecond at least, since that is the unit in which the
// runtime waits for the network.
func pause(d time.Duration) {
	left := syscall.NsecToTimespec(d.Nanoseconds())
	for errors.Is(syscall.Nanosleep(&left, &left), syscall.EINTR) {
	}
}

package slowsync

import (
	"errors"
	"syscall"
	"time"
)

// pause blocks the thread, like a system call that syncs a file. time.Sleep would take at
// least a millisecond in an idle process, because the runtime waits for the network in
// milliseconds.
func pause(d time.Duration) {
	left := syscall.NsecToTimespec(d.Nanoseconds())
	for errors.Is(syscall.Nanosleep(&left, &left), syscall.EINTR) {
	}
}

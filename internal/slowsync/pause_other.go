//go:build !linux

package slowsync

import "time"

// pause sleeps. Where the runtime's timers are coarse, a sync takes longer than it was told.
func pause(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // it is the time that a disk takes
}

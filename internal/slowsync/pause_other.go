//go:build !linux

package slowsync

import "time"

// pause sleeps. It takes longer than d if the runtime's timers are coarse.
func pause(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // replaces the time of a disk
}

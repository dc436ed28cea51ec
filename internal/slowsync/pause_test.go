package slowsync

import (
	"testing"
	"time"
)

// BenchmarkPause measures the real duration of a pause of 0.3 ms.
func BenchmarkPause(b *testing.B) {
	for b.Loop() {
		pause(300 * time.Microsecond)
	}
}

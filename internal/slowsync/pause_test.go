package slowsync

import (
	"testing"
	"time"
)

// BenchmarkPause shows how far a sync of 0.3 ms is from 0.3 ms.
func BenchmarkPause(b *testing.B) {
	for b.Loop() {
		pause(300 * time.Microsecond)
	}
}

package seeded

import (
	"hash/fnv"
	"testing"
)

func TestHashIsFNV1aAndMixIsSplitMix64(t *testing.T) {
	for _, text := range []string{"", "a", "host/1", "\xff\x00"} {
		h := fnv.New64a()
		_, _ = h.Write([]byte(text))
		if got, want := Hash(0, text), h.Sum64(); got != want {
			t.Errorf("the hash of %q is %x; want %x", text, got, want)
		}
	}
	if Hash(1, "a") == Hash(2, "a") {
		t.Error("the seed does not change the hash")
	}
	// The first outputs of SplitMix64 for the seed 1234567, from its reference implementation.
	state := uint64(1234567)
	for _, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423} {
		state += Golden
		if got := Mix(state); got != want {
			t.Errorf("got %d; want %d", got, want)
		}
	}
	if f := Float(1<<64 - 1); f >= 1 || f < 0.999 {
		t.Errorf("the largest number is %v", f)
	}
}

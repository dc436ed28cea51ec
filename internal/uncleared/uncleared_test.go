package uncleared

import "testing"

func TestBytesHasRoomAndBelongsToItsCaller(t *testing.T) {
	for _, n := range []int{0, 1, 7, 1 << 20} {
		a, b := Bytes(n), Bytes(n)
		if len(a) != 0 || cap(a) < n {
			t.Fatalf("Bytes(%d) has length %d and room for %d", n, len(a), cap(a))
		}
		a, b = a[:n], b[:n]
		for i := range a {
			a[i], b[i] = 1, 2
		}
		for i := range a {
			if a[i] != 1 || b[i] != 2 {
				t.Fatalf("Bytes(%d) shares its memory", n)
			}
		}
	}
}

// Package seeded makes numbers that depend on nothing but a seed and names, so that two
// objects never share a stream of random numbers and a run can be repeated. It is for jitter
// and simulations. Where an adversary chooses the names, reach for hash/maphash instead.
package seeded

// Golden is 2^64 divided by the golden ratio, the step of SplitMix64. Seeds that are a
// multiple of it apart give unrelated numbers after [Mix].
const Golden = 0x9e3779b97f4a7c15

// Hash returns the FNV-1a hash of text, begun at seed. Similar texts have similar hashes,
// so most callers pass it on to [Mix].
func Hash(seed uint64, text string) uint64 {
	h := seed ^ 14695981039346656037
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}

// Mix mixes the bits of z, so that similar inputs give unrelated numbers. It is the
// finalizer of SplitMix64, and no two inputs have the same output.
func Mix(z uint64) uint64 {
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// Float returns z as a number in [0, 1). It uses the upper 53 bits.
func Float(z uint64) float64 { return float64(z>>11) / (1 << 53) }

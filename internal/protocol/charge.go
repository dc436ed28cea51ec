package protocol

import "github.com/changefeed-go/changefeed/lease"

// Charged returns the total charge of a store's requests in request units, or zero if the
// store does not count it; see [lease.Store].
func Charged(s lease.Store) float64 {
	if counts, ok := s.(interface{ Charged() float64 }); ok {
		return counts.Charged()
	}
	return 0
}

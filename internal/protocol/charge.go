package protocol

// Charged returns the total charge of the requests of a store of leases or letters in request
// units, or zero if it does not count it; see [lease.Store] and [letters.Store].
func Charged(store any) float64 {
	if counts, ok := store.(interface{ Charged() float64 }); ok {
		return counts.Charged()
	}
	return 0
}

package lease

// Metered is a [Store] that knows what its requests cost. A processor asks for it to
// tell in its metrics what keeping the leases costs.
type Metered interface {
	// Charged is how many request units the store's requests have cost since it was
	// opened, those of all its callers together. It never falls, and is safe for concurrent use.
	Charged() float64
}

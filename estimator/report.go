package estimator

import (
	"slices"
	"time"
)

// Report is the lag of all leases at one time.
type Report struct {
	// Time is the time of listing the leases, by the lease container's clock. If it has
	// no clock, this host's clock is used.
	Time time.Time
	// Lags holds the lags of all leases, in the order of their ranges.
	Lags []Lag
	// Unreadable holds the ids of lease documents that cannot be decoded. They do not
	// count in any number.
	Unreadable []string
	// Total is the sum of Lags.
	Total Total
}

// Total is the lag of several leases together.
type Total struct {
	// Leases counts the leases. Owned counts those that have an owner.
	Leases, Owned int
	// LeftOver counts the leases that are shadowed by a lease that is not being replaced;
	// see [Lag.Shadowed]. Except for Charge, they count in no other number.
	LeftOver int
	// LSNs is the sum, over the physical partitions, of the largest known lag of a lease
	// of the partition. It is [Unknown] if the lag of no lease is known.
	LSNs int64
	// Age is the largest age among the leases. It is [Unknown] if the age of no lease is
	// known.
	Age time.Duration
	// Unknown counts the leases whose lag is unknown. Failed counts those among them that
	// could not be read.
	Unknown, Failed int
	// Splitting counts the leases that are being replaced after a split or a merge.
	Splitting int
	// Reference is the number that the .NET estimator pushes: the sum of [Lag.Reference],
	// or 1 without leases.
	Reference int64
	// Charge is the cost of the measurement, in request units. It includes the listing if
	// the lease store reports charges.
	Charge float64
}

// Sum returns the total of lags.
func Sum(lags []Lag) Total {
	t := Total{LSNs: Unknown, Age: Unknown}
	largest := map[string]int64{}
	for i := range lags {
		l := &lags[i]
		t.Charge += l.Charge
		if l.leftOver(lags) {
			t.LeftOver++
			continue
		}
		t.Leases++
		t.Reference += l.Reference()
		t.Age = max(t.Age, l.Age)
		if l.Owner != "" {
			t.Owned++
		}
		if l.Splitting {
			t.Splitting++
		}
		if l.Err != nil {
			t.Failed++
		}
		if !l.Known() {
			t.Unknown++
			continue
		}
		partition := l.Partition
		if partition == "" {
			partition = "lease " + l.LeaseToken // no partition's id has a space
		}
		largest[partition] = max(largest[partition], l.LSNs)
	}
	for _, lag := range largest {
		t.LSNs = max(0, t.LSNs) + lag
	}
	if t.Leases == 0 {
		t.Reference = 1
	}
	return t
}

// leftOver reports whether l is shadowed by a lease of lags that is not being replaced. A
// lease that is itself shadowed does not count, because no host replaces it.
func (l *Lag) leftOver(lags []Lag) bool {
	return l.Shadowed && !slices.ContainsFunc(lags, func(a Lag) bool {
		return a.Splitting && !a.Shadowed && a.Range.Contains(l.Range)
	})
}

package estimator

import "time"

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
		t.Leases++
		t.Reference += l.Reference()
		t.Charge += l.Charge
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

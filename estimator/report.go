package estimator

import "time"

// Report is the lag of all leases at one time.
type Report struct {
	// Time is when the leases were listed, by the lease container's clock, or this
	// host's where it has none.
	Time time.Time
	// Lags are those of all leases, in the order of their ranges.
	Lags []Lag
	// Unreadable are the ids of lease documents that can't be understood: what they
	// stand for is in no figure.
	Unreadable []string
	// Total sums Lags up.
	Total Total
}

// Total is the lag of several leases together.
type Total struct {
	// Leases counts the leases, Owned those that have an owner.
	Leases, Owned int
	// LSNs is the sum over the physical partitions of the largest known lag among the
	// leases of each. Leases whose lag is unknown are not in it, see Unknown. It is
	// [Unknown] when there is no lease whose lag is known.
	LSNs int64
	// Age is the largest among the leases: how far the processor is behind. It is
	// [Unknown] when it is so of every lease.
	Age time.Duration
	// Unknown counts the leases whose lag is unknown, Failed those among them that could
	// not be read.
	Unknown, Failed int
	// Splitting counts the leases that are being replaced after a split or a merge.
	Splitting int
	// Reference is the number that the .NET estimator pushes: the sum of
	// [Lag.Reference], and 1 when there is no lease.
	Reference int64
	// Charge is what the measurement has cost, in request units: the reads and, where
	// the lease store tells, the listing.
	Charge float64
}

// Sum sums lags up.
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

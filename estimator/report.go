package estimator

import (
	"slices"
	"time"
)

// Report is how far all leases lag at one moment.
type Report struct {
	// Time is when the leases were listed, by the lease container's clock, or by this host's
	// if it has none.
	Time time.Time
	// Lags holds a Lag for each lease, sorted by range.
	Lags []Lag
	// Unreadable holds the ids of the lease documents that cannot be decoded. They count
	// nowhere.
	Unreadable []string
	// LettersErr tells why the letters in [Config.Letters] could not be counted.
	LettersErr error
	// Total adds up the Lags.
	Total Total
}

// Total is how far several leases lag together; see the package comment for how it is
// added up.
type Total struct {
	// Leases counts the leases. Owned counts those that have an owner.
	Leases, Owned int
	// LeftOver counts the leases that are shadowed by a lease that is not being replaced;
	// see [Lag.Shadowed]. Except for Charge, they count in no other number.
	LeftOver int
	// LSNs adds up the largest known lag in each physical partition, or is [Unknown] if no
	// lease's lag is known.
	LSNs int64
	// Age is the largest age among the leases, or [Unknown] if no lease's age is known.
	Age time.Duration
	// Unknown counts the leases whose lag is unknown. Failed counts those among them that
	// could not be read.
	Unknown, Failed int
	// Splitting counts the leases that are being replaced after a split or a merge.
	Splitting int
	// Stopped counts the leases that their handler has stopped.
	Stopped int
	// Letters and ParkedKeys add up the leases', or are [Unknown] if no lease's are known. In a
	// [Report] they have all the processor's letters, also those that no lease's range holds.
	Letters, ParkedKeys int
	// Reference is the number that the .NET estimator pushes: all [Lag.Reference] together,
	// or 1 without leases.
	Reference int64
	// Charge is what the measurement cost in request units, including the listing if the
	// lease store reports charges.
	Charge float64
}

// Sum returns the total of lags, for a program that has collected them from
// [Estimator.Current] or shows only some leases.
func Sum(lags []Lag) Total {
	t := Total{LSNs: Unknown, Age: Unknown, Letters: Unknown, ParkedKeys: Unknown}
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
		if l.Stopped != "" {
			t.Stopped++
		}
		if l.Letters != Unknown {
			t.Letters, t.ParkedKeys = max(0, t.Letters)+l.Letters, max(0, t.ParkedKeys)+l.ParkedKeys
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

// Package estimator reports how far a change feed processor lags: for each lease, and in
// total. It reads the leases, and the first change after the position of each lease. It
// writes nothing. It works with processors of all implementations whose leases it can
// read, even if no host of them runs.
//
// An [Estimator] measures on demand, or again and again until its context ends. It needs
// the same source, leases and processor name as the hosts:
//
//	e, err := estimator.New(estimator.Config{Processor: "projector", Source: source, Leases: leases})
//	for lag, err := range e.Current(ctx) { ... } // pull, lease by lease
//	report, err := e.Report(ctx)                 // pull, with the total
//	err = e.Run(ctx)                             // push, to Config.Handler and Config.Metrics
//
// A measurement lists the leases and reads one item of each lease's feed. If leases are
// not of whole partitions, it also lists the partitions.
//
// A [Lag] is the lag of one lease. A [Report] contains all of them and the [Total].
//
// # Measures
//
// [Lag.LSNs] is the lag in transactions, by the formula of the .NET estimator: the last
// LSN of the partition, less the LSN of the oldest unread change, plus one. It is 0 if no
// change is unread. It counts the transactions of the whole physical partition, even if
// their documents belong to another lease. A bulk write of 100 documents counts as one.
//
// [Lag.Age] is the time since the oldest unread change was written. It does not depend on
// the rate of writes, so it is the measure for alerts.
//
// The lag of some leases is [Unknown]: of a lease without a position, and of a lease
// whose partition was split or merged before a host has replaced the lease. For these,
// the .NET estimator returns 1, as [Lag.Reference] does.
//
// The total is a sum over physical partitions. A partition counts with the largest lag of
// its leases, because its leases count the same transactions.
package estimator

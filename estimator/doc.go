// Package estimator reports how far a change feed processor lags: for each lease, and in
// total. To find out, it reads the leases and the first change after each one's position,
// and writes nothing. Because no host takes part, it works even when none runs, and with
// every implementation whose leases it can read.
//
// An [Estimator] measures on demand, or again and again until its context ends. Give it
// the same source, leases and processor name as the hosts have:
//
//	e, err := estimator.New(estimator.Config{Processor: "projector", Source: source, Leases: leases})
//	for lag, err := range e.Current(ctx) { ... } // pull, lease by lease
//	report, err := e.Report(ctx)                 // pull, with the total
//	err = e.Run(ctx)                             // push, to Config.Handler and Config.Metrics
//
// A measurement lists the leases once and, for each lease, reads one item.
// The partitions are listed too, unless every lease covers a whole one.
//
// With Config.Letters, a report also counts the processor's letters, and the keys in which a
// change waits behind a letter. That costs one query more, over all the letters container's
// partitions, which returns each of the processor's letters without its item.
//
// A [Lag] is how far one lease lags. A [Report] has all of them and the [Total].
//
// # Measures
//
// [Lag.LSNs] is the lag in transactions, by the .NET estimator's formula: the partition's
// last LSN, less the oldest unread change's, plus one, or 0 if nothing is unread.
// So a bulk write of 100 documents counts as one, and transactions count even if another
// lease in the same physical partition gets their documents.
//
// [Lag.Age] is the time since the oldest unread change was written. Alert on this one,
// because it means the same whether ten or ten thousand changes are written per second.
//
// A lag is [Unknown] while the lease has no position, and between a split or merge and
// the moment when a host has replaced the lease. Then the .NET estimator returns 1, as
// [Lag.Reference] does.
//
// The total is a sum over physical partitions. If several leases share a partition, only
// the largest lag counts, since all of them count the same transactions.
package estimator

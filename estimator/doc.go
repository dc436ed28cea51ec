// Package estimator tells how far a change feed processor is behind: for each lease, and
// in total. It only reads: the leases, and of each lease's feed the first change that was
// not checkpointed yet. It works beside a processor of any implementation whose leases it
// can read, and needs no processor to run.
//
// # What is measured
//
// [Lag.LSNs] is the lag in transactions, by the formula of the .NET estimator: the last LSN
// of the partition, less the LSN of the oldest unread change, plus one; 0 when nothing is
// unread. It counts transactions of the whole physical partition, and not documents: a
// bulk write of 100 documents counts one, a transaction whose documents belong to another
// lease counts as well. In the embedded store, whose partitions share one counter, what is
// written to other partitions meanwhile counts, too.
//
// [Lag.Age] is how long ago the oldest unread change was written: the time that the
// processor is behind. It needs no knowledge of how much is written, and is what to
// alert on.
//
// What can't be known is said to be unknown ([Unknown]), where the .NET estimator answers 1:
// for a lease without a position, whose start isn't in it, and for one whose partition was
// split or merged while no host has worked on that yet. [Lag.Reference] is .NET's number, for
// those who compare.
//
// A total is summed over physical partitions, of which each counts by the largest lag
// among its leases: leases of the same partition would count the same transactions again.
//
// # How to ask
//
//	e, err := estimator.New(estimator.Config{Processor: "projector", Source: source, Leases: leases})
//	for lag, err := range e.Current(ctx) { ... } // pull, lease by lease
//	report, err := e.Report(ctx)                 // pull, with the total
//	err = e.Run(ctx)                             // push, to Config.Handler and Config.Metrics
//
// A measurement lists the leases, and reads each one's feed once, for one item. Where
// leases are not of whole partitions it asks for the partitions, too.
package estimator

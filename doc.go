// Package changefeed is a change feed processor: hosts share the partitions of a
// monitored container through leases in a lease container, read the container's
// change feed, and hand every change to a handler at least once.
//
//	p, err := changefeed.New(changefeed.Config{
//		Processor: "projector",   // hosts of this name share the work
//		Source:    source,        // the monitored container
//		Leases:    leases,        // the lease container
//		Handler:   changefeed.Each(func(ctx context.Context, c changefeed.Change[Order]) error {
//			return project(ctx, c.Current)
//		}),
//	})
//	...
//	err = p.Run(ctx) // until ctx ends
//
// Which engine it runs on is decided by the [feed.Source] and the
// [lease.Container] that the configuration is given, and by nothing else.
//
// # Delivery
//
// Every change is delivered at least once, and the changes of one partition key in
// the order of their LSNs. A batch is acknowledged when the handler returns nil;
// the position behind it is then written into the lease (a checkpoint). A batch
// whose handler returned an error or panicked is handed out again, in place, after
// a pause, until it succeeds; the changes behind it wait, so that the order holds.
// After a crash the next owner starts from the last checkpoint. A planned move of a
// lease to another host redelivers nothing. A handler that must not act twice keeps
// the LSN of the last change beside what it derives from it.
//
// With [Checkpointing.Manual] the handler acknowledges batches itself, by
// [Batch.Checkpoint], when it likes, from any goroutine.
//
// # Leases
//
// A host that runs looks at the leases every acquire interval. It takes those that
// are available or expired, and, when others have more than their share, asks for
// some of theirs: their owner finishes its batch, checkpoints and releases. No live
// lease is stolen. So P leases over W hosts come to floor or ceil of P/W each, and
// stay there.
//
// A host that can't write its lease any more stops using it before anybody else
// may take it: the context of its handler ends with cause [lease.ErrLost].
//
// Splits and merges of partitions are followed: the lease of a partition that is
// gone is replaced by leases of what took its place, at its last checkpoint.
//
// # Errors
//
// What fails is tried again where it is, with growing pauses, for as long as it
// takes: nothing is skipped and no lease moves because of it. Only at its start does
// [Processor.Run] return an error that waiting does not heal, such as a wrong key
// ([feed.ErrMisconfigured]). [Config.Notify] and [Config.Logger] hear of the others; a [HandlerError] is the user's, a [SourceError] the
// monitored container's, a [LeaseStoreError] the lease container's.
//
// # Watching
//
// [Config.Metrics] gets what a processor does as OpenTelemetry's metrics: changes,
// redeliveries, time of batches, checkpoints, leases and their moves, errors by origin,
// request units. [Processor.Healthy] is for a health probe. How far the hosts together
// are behind tells package estimator.
//
// A source that can't wait for changes is polled: twenty times per
// [Config.PollInterval] while changes come, less and less while none do, and once per
// interval at rest.
//
// # Stopping
//
// [Processor.Run] ends when its context does. Handlers may finish within the drain
// timeout; leases are released with their position, so that other hosts go on at
// once.
package changefeed

// Package changefeed is a change feed processor. Its hosts share the partitions of a
// monitored container through leases in a lease container. They read the container's
// change feed and pass every change to a handler at least once.
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
// The [feed.Source] and the [lease.Container] in the configuration decide which engine
// the processor runs on: the embedded store, Azure Cosmos DB or another. Nothing else
// depends on the engine.
//
// # Delivery
//
// Every change is delivered at least once. The changes of one partition key are delivered
// in the order of their LSNs. A batch is acknowledged when the handler returns nil. The
// position after the batch is then written to the lease; this write is a checkpoint.
//
// A batch whose handler returned an error or panicked is delivered again after a delay,
// until the handler succeeds. Later changes of the lease wait, so the order is kept.
// After a crash the next owner starts at the last checkpoint. A planned move of a lease
// to another host redelivers nothing. A handler that must not act twice stores the LSN of
// the last change together with its results.
//
// With [Checkpointing.Manual] the handler acknowledges batches itself, by
// [Batch.Checkpoint], at any time and from any goroutine.
//
// # Leases
//
// A running host lists the leases every acquire interval. It takes the leases that are
// free or expired. When other hosts have more than their share, it asks for some of their
// leases. The owner finishes its batch, writes a checkpoint and releases the lease. No
// live lease of a changefeed host is stolen. P leases over W hosts settle at floor(P/W)
// or ceil(P/W) each.
//
// A host that can no longer write its lease stops using it before another host may take
// it. The context of its handler ends with cause [lease.ErrLost].
//
// The processor follows splits and merges of partitions. The lease of a partition that is
// gone is replaced by leases of its children, which start at its last checkpoint.
//
// # Errors
//
// A failed operation is retried in place, with growing delays and without a limit. No
// change is skipped, and no lease moves because of the failure. [Processor.Run] returns
// errors that waiting does not heal, such as a wrong key ([feed.ErrMisconfigured]), only
// while it starts. [Config.Notify] and [Config.Logger] receive the other errors. A
// [HandlerError] comes from the user's code, a [SourceError] from the monitored
// container, and a [LeaseStoreError] from the lease container.
//
// # Watching
//
// [Config.Metrics] receives OpenTelemetry metrics: changes, redeliveries, duration of
// batches, checkpoints, leases and their moves, errors by origin, and request units.
// [Processor.Healthy] is for a health probe. Package estimator reports how far the hosts
// lag.
//
// A source that cannot wait for changes is polled. While changes come, it is read twenty
// times per [Config.PollInterval]. The reads become rarer when no changes come, down to
// one per interval.
//
// # Stopping
//
// [Processor.Run] returns when its context ends. Handlers may finish within the drain
// timeout. Each lease is released with its position, so that another host can resume at
// once.
//
// # See also
//
// Package store and package cosmos are the engines. Package feed reads a change feed
// without leases. Package changefeedtest tests handlers with crashes and splits.
package changefeed

// Package changefeed is a change feed processor: hosts share the partitions of a
// monitored container through leases in a lease container, and pass every change in the
// feed to a handler at least once. If a single reader is enough, package feed reads a
// feed without leases.
//
//	p, err := changefeed.New(changefeed.Config{
//		Processor: "projector",   // hosts with this name share the work
//		Source:    source,        // the monitored container
//		Leases:    leases,        // the lease container
//		Handler:   changefeed.Each(func(ctx context.Context, c changefeed.Change[Order]) error {
//			return project(ctx, c.Current)
//		}),
//	})
//	...
//	err = p.Run(ctx) // until ctx ends
//
// The [feed.Source] and the [lease.Container] decide which engine the processor runs on:
// the embedded store (package store), Azure Cosmos DB (package cosmos) or another.
// Nothing else depends on the engine.
//
// # Delivery
//
// Every change is delivered at least once, and a partition key's changes in the order of
// their LSNs. When the handler returns nil, the batch is acknowledged, and the
// position after it is written to the lease: a checkpoint.
//
// If the handler returns an error or panics, the batch is delivered again after a delay, until
// the handler succeeds. The lease's later changes wait meanwhile, so that the order is kept.
// After a crash the next owner starts at the last checkpoint, but a planned move to another
// host redelivers nothing, unless the handler had failed with a part of a batch ([BatchError]).
// A handler that must not act twice stores the last change's LSN together with its results.
//
// By default a lease's handler is called once at a time. With [Config.Concurrency], several calls
// are under way at once, each with changes of one partition key, so that a slow key delays no
// other. [Config.Failure] says how often a change is delivered before it is given up and kept as a
// dead letter (package letters). Without it, nothing is ever given up.
//
// With [Checkpointing.Manual] the handler acknowledges batches itself, by
// [Batch.Checkpoint], at any time and from any goroutine. Reach for it when the work goes
// on after the handler has returned.
//
// # Leases
//
// Every acquire interval a running host lists the leases and takes those that are free or
// expired. When other hosts have more than their share, it writes into some of their leases
// that it wants them; the owner of a wanted lease finishes its batch, writes a checkpoint and
// releases the lease. Between changefeed hosts, no live lease is stolen. P leases over W
// hosts settle at floor(P/W) or ceil(P/W) each.
//
// A host that can no longer write its lease stops using it before another host may take
// it: its handler's context ends with cause [lease.ErrLost].
//
// When a partition is split or merged, its lease is replaced by leases for its children,
// which start at its last checkpoint.
//
// # Errors
//
// A failed operation is retried in place, with growing delays and without a limit, so
// that no change is skipped and no lease moves because of it. [Processor.Run] returns
// only errors that waiting does not heal, such as a wrong key ([feed.ErrMisconfigured]),
// and only while it starts. All others go to [Config.Notify] and [Config.Logger]: a
// [HandlerError] comes from your code, a [SourceError] from the monitored container, and
// a [LeaseStoreError] from the lease container.
//
// # Watching
//
// [Config.Metrics] receives OpenTelemetry metrics: changes, redeliveries, how long
// batches take, checkpoints, leases and their moves, errors by origin, and request units.
// [Config.Traces] receives spans for reads, handler calls and checkpoints.
// [HealthHandler] serves the probes /alive and /ready by [Processor.Healthy], and package
// estimator reports how far the hosts lag.
//
// A source that cannot wait for changes is polled: twenty times per [Config.PollInterval]
// while changes come, and less and less often when none do, down to once per interval.
//
// # Stopping
//
// [Processor.Run] returns when its context ends. Handlers may finish within the drain
// timeout, and each lease is released with its position, so that another host can resume
// at once.
//
// # See also
//
// To test a handler, alone or with crashes and splits, use package changefeedtest.
package changefeed

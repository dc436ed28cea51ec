// Package changefeedtest helps to test programs that use changefeed: with stores and
// servers in memory, a lease for unit tests, and a deterministic simulation of hosts that
// run a handler.
//
// [NewStore] returns an empty store, which is checked and closed when the test ends. Its
// containers can be split and merged on demand:
//
//	db := changefeedtest.NewStore(t)
//	orders := changefeedtest.NewContainer(t, db, "shop",
//		storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}})
//	...
//	_, err := orders.Split(ctx, "0", "") // while a processor reads it
//
// [NewServer] serves the Cosmos DB REST protocol over such a store, for programs that use
// an SDK. Clients reach it over a network in memory. Package memory is a smaller engine,
// for tests of handlers that need no document store.
//
// [NewLease] is for unit tests of a handler without a processor. It calls the handler
// with your documents, and shows what the handler returned and checkpointed:
//
//	l := changefeedtest.NewLease(t)
//	err := l.Handle(handler, order{ID: "1", Total: 3}, order{ID: "2", Total: 4})
//	...
//	if l.Position() != 2 { // the handler has not checkpointed both
//
// [Await] waits until a processor has handled everything that was written so far, so that a
// test of a running processor needs no sleep:
//
//	_, err := orders.Upsert(ctx, nil, document, storetype.WriteOptions{})
//	...
//	err = changefeedtest.Await(ctx, cfg) // cfg is the processor's
//
// [Simulate] runs several hosts with your handler in fake time, and is the one to reach
// for when redelivery matters. Hosts crash at any write, pause, join and leave;
// partitions split and merge; requests are slow, lost, refused or late; clocks drift.
// Everything follows from a seed, so that a failure can be repeated.
//
// The simulation checks the processor's guarantees at every step. Your handler's
// guarantees, for example that a redelivery does not change a total, you check when
// Simulate returns:
//
//	for seed := range uint64(100) {
//		totals := newTotals()
//		changefeedtest.Simulate(t, changefeedtest.Simulation{
//			Seed:    seed,
//			Handler: func(host string) changefeed.Handler { return totals },
//		})
//		totals.verify(t)
//	}
//
// The processor itself is tested by the same simulation: thousands of seeds run in each
// test of this module.
package changefeedtest

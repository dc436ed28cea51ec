// Package changefeedtest helps to test programs that use changefeed. It offers stores and
// servers in memory, and a deterministic simulation of hosts that run a handler.
//
// [NewStore] returns an empty store. The store is checked and closed when the test ends.
// Its containers can be split and merged on demand:
//
//	db := changefeedtest.NewStore(t)
//	orders := changefeedtest.NewContainer(t, db, "shop",
//		storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}})
//	...
//	_, err := orders.Split(ctx, "0", "") // while a processor reads it
//
// [NewServer] returns a server of the Cosmos DB REST protocol over such a store. Clients
// reach it over a network in memory. Package memory is a smaller engine, for tests of
// handlers that need no document store.
//
// [NewLease] is for unit tests of a handler without a processor. It calls the handler with
// the documents of the test, and shows what the handler returned and checkpointed:
//
//	l := changefeedtest.NewLease(t)
//	err := l.Handle(handler, order{ID: "1", Total: 3}, order{ID: "2", Total: 4})
//	...
//	if l.Position() != 2 { // the handler has not checkpointed both
//
// [Simulate] runs several hosts with the user's handler in fake time. Hosts crash at any
// write, pause, join and leave. Partitions split and merge. Requests are slow, lost,
// refused or late. Clocks drift. A seed determines everything, so the same seed gives the
// same run.
//
// The simulation checks the guarantees of the processor at every step. The test checks
// the guarantees of the handler when Simulate returns. Such a guarantee is, for example,
// that a redelivery does not change a total:
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

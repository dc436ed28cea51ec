// Package changefeedtest is for tests of programs that use changefeed: a store in
// memory, and a deterministic simulation that runs a handler under everything that
// can happen to it.
//
// [NewStore] is an empty store that is checked and closed when the test ends.
// Its containers split and merge on demand:
//
//	db := changefeedtest.NewStore(t)
//	orders := changefeedtest.NewContainer(t, db, "shop", store.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}})
//	...
//	_, err := orders.Split(ctx, "0", "") // while a processor reads it
//
// [Simulate] runs several hosts with a handler of yours on fake time: hosts
// crash at any write, pause, join and leave, partitions split and merge, requests are
// slow, lost, refused or arrive late, clocks drift. A seed decides all of it, and is the same
// run every time. The promises of the processor are checked at every step; what
// your handler promises (a total that redelivery doesn't spoil, say) you check
// when it returns:
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
// The simulation is also how the processor itself is proven: TestSimulation of
// this package runs it over thousands of seeds and asserts the invariants listed
// at the type checker, the named tests are scripts of known defects of other
// processors, and testdata/mutants holds patches that each remove one rule and
// must make a test fail.
package changefeedtest

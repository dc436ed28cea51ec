// Package store is an embedded document store with the change feed of Azure Cosmos DB.
// Databases hold containers of JSON documents. A container is divided into physical
// partitions, and each partition has a feed of its changes. [Open] opens a store in a
// directory. [OpenMemory] opens one in memory.
//
//	db, err := store.Open("data", store.Options{})
//	_, err = db.CreateDatabase(ctx, store.DatabaseProperties{ID: "shop"})
//	orders, err := db.CreateContainer(ctx, "shop", store.ContainerProperties{
//		ID: "orders", KeyPaths: []string{"/customer"}, Partitions: 4,
//	})
//	order := []byte(`{"id":"1","customer":"ada"}`)
//	_, err = orders.Upsert(ctx, nil, order, store.WriteOptions{})
//	page, err := orders.Feed(ctx, feed.Request{From: feed.Beginning()})
//
// [DB.Source] and [DB.Leases] connect a processor (package changefeed) to the store.
// Package server serves the store to the official SDKs, and package changefeedtest opens
// stores for tests.
//
// The store guarantees:
//
//   - An acknowledged write is on disk. It survives a crash of the process and of the
//     machine.
//   - Reads and feeds return only writes that are on disk. They return whole
//     transactions, in the order of their LSNs.
//   - A partition can be split, and two neighbours can be merged, while readers and
//     writers continue. A continuation stays valid across both.
//   - A document is stored once, in the log that the feed reads.
//
// All methods are safe for concurrent use. [DB.Close] ends every goroutine that the store
// started. A store in memory works inside a testing/synctest bubble.
package store

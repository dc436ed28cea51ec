// Package store is an embedded document store with Azure Cosmos DB's change feed.
// Databases hold containers with JSON documents. A container is divided into physical
// partitions, each with a feed of its changes. [Open] opens a store in a directory, and
// [OpenMemory] one in memory.
//
//	db, err := store.Open("data", store.Options{})
//	_, err = db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "shop"})
//	orders, err := db.CreateContainer(ctx, "shop", storetype.ContainerProperties{
//		ID: "orders", KeyPaths: []string{"/customer"}, Partitions: 4,
//	})
//	order := []byte(`{"id":"1","customer":"ada"}`)
//	_, err = orders.Upsert(ctx, nil, order, storetype.WriteOptions{})
//	page, err := orders.Feed(ctx, feed.Request{From: feed.Beginning()})
//
// The values that its methods take and return, and its errors, are in package storetype.
//
// [DB.Source] and [DB.Leases] connect a processor (package changefeed) to the store. To
// serve it to the official SDKs, use package server; for tests, package changefeedtest
// opens stores and checks them.
//
// The store guarantees:
//
//   - An acknowledged write is on disk, so it survives when the process or the machine
//     crashes.
//   - Reads and feeds return only what is on disk, as whole transactions in the order of
//     their LSNs.
//   - A partition can be split, and two neighbours merged, while readers and writers
//     continue, and continuations stay valid.
//   - A document is stored once, in the log that the feed reads.
//
// # Documents
//
// Because a document is stored as Azure Cosmos DB stores it, reads and feeds may return
// another text than was written:
//
//   - White space outside of strings is removed. Members keep their order.
//   - Integers from -2^63 to 2^64-1 keep their digits. Every other number becomes a
//     float64 and is written in one form: 1.0 and 1e0 become 1, -0.0 becomes 0, 12.50
//     becomes 12.5, and 1e19 becomes 1e+019. A number beyond float64, such as 1e400, is a
//     [storetype.BadRequestError]. Write amounts with more digits as strings.
//   - Half a surrogate pair ("\ud800") becomes U+FFFD. All other text stays as it was
//     written, escapes included.
//   - The caller's _rid, _self, _etag, _attachments, _ts and _lsn are dropped, and the
//     store adds its own.
//
// So compare documents by their values, or after they were read back.
//
// All methods are safe for concurrent use. [DB.Close] ends every goroutine that the store
// started. A store in memory works inside a testing/synctest bubble.
package store

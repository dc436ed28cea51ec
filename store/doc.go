// Package store is an embedded document store with a change feed: databases,
// containers of JSON documents divided into physical partitions, and for each
// partition a log of its changes, durable on disk (on Pebble) or in memory.
//
//	db, err := store.Open("data", store.Options{})
//	_, err = db.CreateDatabase(ctx, store.DatabaseProperties{ID: "shop"})
//	orders, err := db.CreateContainer(ctx, "shop", store.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}, Partitions: 4})
//	_, err = orders.Upsert(ctx, nil, []byte(`{"id":"1","customer":"ada"}`), store.WriteOptions{})
//	page, err := db.Source(orders).Read(ctx, feed.Request{Partition: feed.Partition{ID: "0"}, From: feed.Beginning()})
//
// What the store promises:
//
//   - A write that was answered without an error is on disk, and survives the
//     death of the process and of the machine.
//   - Nobody reads what is not on disk yet: reads and feeds see only groups of
//     writes that were synced, whole, and in the order of their LSNs.
//   - A partition can be split, and two neighbours merged, while readers and
//     writers go on. A continuation stays valid across both.
//   - The log is the storage: a document is kept once, where the feed reads it.
//
// All methods may be called concurrently. [DB.Close] ends every goroutine that
// the store started. On an in-memory file system the whole store runs inside a
// testing/synctest bubble.
package store

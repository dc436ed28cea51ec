// Package cosmos is Azure Cosmos DB as the engine of a processor: [Source] is the
// change feed of a container, for API for NoSQL accounts and for `changefeed serve`, which speaks the same protocol.
//
//	account, err := cosmos.WithKey("https://mine.documents.azure.com:443/", key, cosmos.Options{})
//	source := account.Source("shop", "orders", cosmos.SourceOptions{})
//	leases := account.Leases("shop", "leases", cosmos.LeaseOptions{Create: true})
//	p, err := changefeed.New(changefeed.Config{Processor: "projector", Source: source, Leases: leases, Handler: h})
//
// [Leases] is the lease container, which may be in another account. A [Budget] caps what both spend.
package cosmos

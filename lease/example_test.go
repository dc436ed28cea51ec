package lease_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/lease"
)

// Two hosts acquire one lease, as the processor does. The second write is a conflict,
// because the first one changed the ETag. Then an operator lists the leases. Here they are
// in memory. A program on the embedded store opens db.Leases(leases), see package store. A
// program on Azure Cosmos DB opens account.Leases, see package cosmos.
func Example() {
	ctx := context.Background()
	orders := memory.NewSource(memory.Options{Container: "orders"})
	identity, err := orders.Identity(ctx)
	if err != nil {
		log.Fatal(err)
	}
	leases, err := memory.NewLeases(nil).Open(ctx, lease.Key{Processor: "mailer", Identity: identity})
	if err != nil {
		log.Fatal(err)
	}
	partitions, err := orders.Partitions(ctx)
	if err != nil {
		log.Fatal(err)
	}
	free, err := leases.Create(ctx, lease.ForPartition(partitions[0]))
	if err != nil {
		log.Fatal(err)
	}

	held := free
	held.Owner = "host-a"
	held, err = leases.Update(ctx, held)
	if err != nil {
		log.Fatal(err)
	}
	free.Owner = "host-b"
	_, err = leases.Update(ctx, free)
	if conflict, ok := errors.AsType[*lease.ConflictError](err); ok {
		fmt.Println("host-b cannot acquire the lease of", conflict.Current.Owner)
	}
	held.Continuation = `"3"` // a checkpoint
	if _, err = leases.Update(ctx, held); err != nil {
		log.Fatal(err)
	}

	listing, err := leases.List(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range listing.Leases {
		fmt.Printf("lease %s: owner %s, position %s\n", l.Token, l.Owner, l.Continuation)
	}
	// Output:
	// host-b cannot acquire the lease of host-a
	// lease 0: owner host-a, position "3"
}

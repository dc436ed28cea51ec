// Observer keeps a file open for each lease. It opens the file when the work on the lease
// begins. It closes the file when the work ends, before another host gets the lease.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// journal is the observer of one lease. Its methods are called one at a time, so it needs
// no lock.
type journal struct {
	lease string
	file  *os.File
	lines int
}

// Open implements changefeed.Observer.
func (j *journal) Open(_ context.Context, l lease.Lease) (err error) {
	j.lease = l.Token
	// Append to the file, because another host may have written to it before.
	j.file, err = os.OpenFile("lease-"+l.Token+".ndjson", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Println("open", j.lease)
	}
	return err
}

// Handle implements changefeed.Observer.
func (j *journal) Handle(_ context.Context, b *changefeed.Batch) error {
	for _, change := range b.Changes {
		if _, err := fmt.Fprintf(j.file, "%s\n", change.Current); err != nil {
			return err
		}
		j.lines++
	}
	return j.file.Sync() // the position is written after this returns
}

// Close implements changefeed.Observer.
func (j *journal) Close(_ context.Context, r changefeed.Reason) error {
	fmt.Printf("close %s after %d lines: %s\n", j.lease, j.lines, r)
	return j.file.Close()
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	shop, err := account()
	if err != nil {
		log.Fatal(err)
	}
	processor, err := changefeed.New(changefeed.Config{
		Processor: "observer",
		Source:    shop.Source("shop", "orders", cosmos.SourceOptions{}),
		Leases:    shop.Leases("shop", "leases", cosmos.LeaseOptions{Create: true}),
		Start:     feed.Beginning(),
		Observer:  func(lease.Lease) (changefeed.Observer, error) { return &journal{}, nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := processor.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// account returns the account of COSMOS_ENDPOINT. It signs in with COSMOS_KEY, or by
// Microsoft Entra ID if there is no key.
func account() (*cosmos.Account, error) {
	endpoint, key := os.Getenv("COSMOS_ENDPOINT"), os.Getenv("COSMOS_KEY")
	if key != "" {
		return cosmos.WithKey(endpoint, key, cosmos.Options{})
	}
	credential, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, err
	}
	return cosmos.WithCredential(endpoint, credential, cosmos.Options{})
}

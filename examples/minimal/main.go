// Minimal is the smallest processor on Azure Cosmos DB. It prints the orders that are
// written from now on. If it is started several times, the processes share the work. The
// same program works with an account in Azure and with `changefeed serve`.
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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	shop, err := account()
	if err != nil {
		log.Fatal(err)
	}
	processor, err := changefeed.New(changefeed.Config{
		Processor: "minimal", // processes with this name share the work
		Source:    shop.Source("shop", "orders", cosmos.SourceOptions{}),
		Leases:    shop.Leases("shop", "leases", cosmos.LeaseOptions{Create: true}),
		Handler: changefeed.HandlerFunc(func(_ context.Context, b *changefeed.Batch) error {
			for _, change := range b.Changes {
				fmt.Printf("lease %s: %s\n", b.LeaseToken, change.Current)
			}
			return nil // if an error is returned, the batch is delivered again
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := processor.Run(ctx); err != nil { // Run returns at a signal
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

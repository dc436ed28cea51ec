// Typed decodes the changes. A document that cannot be decoded becomes a dead letter in the
// container shop/letters, and the processor continues with the rest. `changefeed letters ls`
// shows it.
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
)

// Order is a document of the container.
type Order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Total    int    `json:"total"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	shop, err := account()
	if err != nil {
		log.Fatal(err)
	}
	processor, err := changefeed.New(changefeed.Config{
		Processor: "typed",
		Source:    shop.Source("shop", "orders", cosmos.SourceOptions{}),
		Leases:    shop.Leases("shop", "leases", cosmos.LeaseOptions{Create: true}),
		Start:     feed.Beginning(),
		Failure: changefeed.Failure{
			Attempts: 5,
			Letters:  shop.Letters("shop", "letters", cosmos.LetterOptions{Create: true}),
			Park:     changefeed.ParkNone, // orders do not build on each other
		},
		Handler: changefeed.Each(func(_ context.Context, c changefeed.Change[Order]) error {
			fmt.Printf("%s ordered for %d\n", c.Current.Customer, c.Current.Total)
			return nil
		}),
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

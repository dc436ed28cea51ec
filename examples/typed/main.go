// Typed decodes the changes. It writes documents that cannot be decoded to a file and
// continues with the rest.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
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

// letters is a handler of orders. It writes each change that cannot be decoded to a file.
type letters struct {
	mu   sync.Mutex // guards file
	file *os.File
}

// Handle implements changefeed.Handler. With changefeed.Each, the handler would be a
// function that gets decoded orders. Then a document that cannot be decoded would stop
// its lease until the document is corrected.
func (l *letters) Handle(_ context.Context, b *changefeed.Batch) error {
	for _, change := range b.Changes {
		var o Order
		if err := json.Unmarshal(change.Current, &o); err != nil {
			if err := l.keep(change, err); err != nil {
				return err // the batch is then delivered again, so no change is lost
			}
			continue
		}
		fmt.Printf("%s ordered for %d\n", o.Customer, o.Total)
	}
	return nil
}

func (l *letters) keep(change feed.Change, reason error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := fmt.Fprintf(l.file, "LSN %d: %v: %s\n", change.LSN, reason, change.Current)
	return err
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	shop, err := account()
	if err != nil {
		log.Fatal(err)
	}
	file, err := os.OpenFile("dead-letters.txt", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := file.Close(); err != nil {
			log.Print(err)
		}
	}()
	processor, err := changefeed.New(changefeed.Config{
		Processor: "typed",
		Source:    shop.Source("shop", "orders", cosmos.SourceOptions{}),
		Leases:    shop.Leases("shop", "leases", cosmos.LeaseOptions{Create: true}),
		Start:     feed.Beginning(),
		Handler:   &letters{file: file},
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

// Pull reads a feed without leases. One process reads all changes once and keeps its
// position in a file. The next run resumes there, also after splits and merges. It suits
// a scheduled job.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
)

const positionFile = "position.txt"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	shop, err := account()
	if err != nil {
		return err
	}
	position, err := os.ReadFile(positionFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	reader, err := feed.NewReader(shop.Source("shop", "orders", cosmos.SourceOptions{}), feed.ReaderConfig{
		Start:    feed.Beginning(), // applies to the first run only
		Position: string(position),
		Parallel: 4,
	})
	if err != nil {
		return err
	}
	n := 0
	for page, err := range reader.Pages(ctx) {
		if err != nil {
			return err
		}
		n += len(page.Changes)
		if err := keep(ctx, reader); err != nil {
			return err
		}
	}
	fmt.Printf("%d changes since the last run\n", n)
	return keep(ctx, reader)
}

// keep writes the position to a file. If the program is killed meanwhile, the file
// contains the old position or the new one.
func keep(ctx context.Context, r *feed.Reader) error {
	position, err := r.Position(ctx)
	if err != nil {
		return err
	}
	if err := os.WriteFile(positionFile+".new", []byte(position), 0o600); err != nil {
		return err
	}
	return os.Rename(positionFile+".new", positionFile)
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

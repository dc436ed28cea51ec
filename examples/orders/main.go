// Orders writes one order a second, for the other examples to process. It creates the
// database shop and its container orders if they do not exist. In Azure, only a key may
// create them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

type order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Total    int    `json:"total"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// run writes orders until the context ends.
func run(ctx context.Context) error {
	orders, err := container(ctx)
	if err != nil {
		return err
	}
	customers := []string{"ada", "grace", "linus"}
	started := time.Now().Unix() // makes the ids of this run differ from those of earlier ones
	for n := 0; ; n++ {
		o := order{ID: fmt.Sprintf("%d-%d", started, n), Customer: customers[n%len(customers)], Total: 1 + n%40}
		document, err := json.Marshal(o)
		if err != nil {
			return err
		}
		if _, err := orders.CreateItem(ctx, azcosmos.NewPartitionKeyString(o.Customer), document, nil); err != nil {
			return err
		}
		fmt.Printf("wrote %s\n", document)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil
		}
	}
}

// container returns the container orders of the database shop in the account of
// COSMOS_ENDPOINT and COSMOS_KEY. It creates both if necessary.
func container(ctx context.Context) (*azcosmos.ContainerClient, error) {
	credential, err := azcosmos.NewKeyCredential(os.Getenv("COSMOS_KEY"))
	if err != nil {
		return nil, err
	}
	client, err := azcosmos.NewClientWithKey(os.Getenv("COSMOS_ENDPOINT"), credential, nil)
	if err != nil {
		return nil, err
	}
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "shop"}, nil); err != nil && !exists(err) {
		return nil, err
	}
	shop, err := client.NewDatabase("shop")
	if err != nil {
		return nil, err
	}
	properties := azcosmos.ContainerProperties{
		ID:                     "orders",
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/customer"}, Version: 2},
	}
	if _, err := shop.CreateContainer(ctx, properties, nil); err != nil && !exists(err) {
		return nil, err
	}
	return shop.NewContainer("orders")
}

// exists reports whether err is the status 409 of a resource that already exists.
func exists(err error) bool {
	var failed *azcore.ResponseError
	return errors.As(err, &failed) && failed.StatusCode == http.StatusConflict
}

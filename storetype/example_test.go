package storetype_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// An error tells with its type whether it helps to repeat the request, and with its fields
// what to change.
func ExampleBadRequestError() {
	ctx := context.Background()
	db, err := store.OpenMemory(store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err = db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "shop"}); err != nil {
		log.Fatal(err)
	}
	_, err = db.CreateContainer(ctx, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"customer"}})
	if bad, ok := errors.AsType[*storetype.BadRequestError](err); ok {
		fmt.Println(bad.Kind == storetype.BadProperties)
		fmt.Println(bad)
	}
	// Output:
	// true
	// invalid properties: partition key path "customer": each name begins with a slash
}

package server_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
)

// The program serves a store in memory. The official SDK for Go reads a document from it.
// An injected fault throttles the first read, and the SDK repeats that read.
func Example() {
	db, err := store.OpenMemory(store.Options{}) // a program with durable data calls store.Open instead
	if err != nil {
		log.Fatal(err)
	}
	key := base64.StdEncoding.EncodeToString([]byte("a key of the account, kept secret"))
	protocol, err := server.New(db, server.Options{Keys: []string{key}})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	h := &http.Server{Handler: protocol, ReadHeaderTimeout: time.Minute}
	h.RegisterOnShutdown(protocol.Drain)
	served := make(chan error, 1)
	go func() { served <- h.Serve(protocol.Guard(h, listener)) }()

	if _, err := protocol.Faults().Add(server.Fault{
		Operation: "read document", Count: 1, Status: http.StatusTooManyRequests, RetryAfter: time.Millisecond,
	}); err != nil {
		log.Fatal(err)
	}
	if err := readOrder(ctx, "http://"+listener.Addr().String(), key); err != nil {
		log.Fatal(err)
	}
	for _, f := range protocol.Faults().List() {
		fmt.Println("reads that failed:", f.Hits)
	}

	if err := h.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	if err := db.Close(); err != nil { // the deferred call runs after the last request
		log.Fatal(err)
	}
	// Output:
	// {"id":"7","customer":"ada"}
	// reads that failed: 1
}

// readOrder creates a container with the SDK, writes an order and prints what it reads
// back.
func readOrder(ctx context.Context, endpoint, key string) error {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	credential, err := azcosmos.NewKeyCredential(key)
	if err != nil {
		return err
	}
	client, err := azcosmos.NewClientWithKey(endpoint, credential, &azcosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: &http.Client{Transport: transport}},
	})
	if err != nil {
		return err
	}
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "shop"}, nil); err != nil {
		return err
	}
	shop, err := client.NewDatabase("shop")
	if err != nil {
		return err
	}
	if _, err := shop.CreateContainer(ctx, azcosmos.ContainerProperties{
		ID: "orders", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/customer"}, Version: 2},
	}, nil); err != nil {
		return err
	}
	orders, err := shop.NewContainer("orders")
	if err != nil {
		return err
	}
	ada := azcosmos.NewPartitionKeyString("ada")
	if _, err := orders.CreateItem(ctx, ada, []byte(`{"id":"7","customer":"ada"}`), nil); err != nil {
		return err
	}
	read, err := orders.ReadItem(ctx, ada, "7", nil)
	if err != nil {
		return err
	}
	// The server appends system properties (_etag, _ts and others) to the document. They
	// are cut off here.
	document, _, _ := strings.Cut(string(read.Value), `,"_`)
	fmt.Println(document + "}")
	return nil
}

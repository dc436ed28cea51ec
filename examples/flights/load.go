package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
)

const (
	// perCall is the number of documents that one call writes. A call sends requests of
	// 100 documents.
	perCall = 2000
	// calls is the maximum number of calls at the same time.
	calls = 2
)

// account holds the endpoint and the key of an account.
type account struct {
	endpoint, key string
}

func (a account) open() (*cosmos.Account, error) {
	return cosmos.WithKey(a.endpoint, a.key, cosmos.Options{})
}

// makeContainer creates a database and a container in it, if they do not exist.
func (a account) makeContainer(ctx context.Context, database, container, key string) error {
	credential, err := azcosmos.NewKeyCredential(a.key)
	if err != nil {
		return err
	}
	client, err := azcosmos.NewClientWithKey(a.endpoint, credential, nil)
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: database}, nil); err != nil && !conflicts(err) {
		return err
	}
	db, err := client.NewDatabase(database)
	if err != nil {
		return err
	}
	_, err = db.CreateContainer(ctx, azcosmos.ContainerProperties{
		ID:                     container,
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Kind: azcosmos.PartitionKeyKindHash, Version: 2, Paths: []string{key}},
	}, nil)
	if err != nil && !conflicts(err) {
		return err
	}
	return nil
}

func conflicts(err error) bool {
	var response *azcore.ResponseError
	return errors.As(err, &response) && response.StatusCode == http.StatusConflict
}

// load writes the flights of a file to a container with the partition key /origin, up to
// limit flights. It returns the number of flights written.
func (a account) load(ctx context.Context, database, container, file string, limit int) (int, error) {
	if err := a.makeContainer(ctx, database, container, "/origin"); err != nil {
		return 0, err
	}
	opened, err := a.open()
	if err != nil {
		return 0, err
	}
	bulk := opened.Bulk(database, container, cosmos.BulkOptions{})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	chunks := make(chan []cosmos.BulkOperation)
	var writers sync.WaitGroup
	for range calls {
		writers.Go(func() {
			for chunk := range chunks {
				if err := write(ctx, bulk, chunk); err != nil {
					cancel(err)
				}
			}
		})
	}
	n := 0
	var chunk []cosmos.BulkOperation
	send := func() error {
		select {
		case chunks <- chunk:
			chunk = nil
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err = flights(file, limit, func(row int, f flight) error {
		n++
		chunk = append(chunk, cosmos.BulkOperation{Key: feed.PartitionKey{f.Origin}, Body: json.RawMessage(f.appendJSON(nil, row))})
		if len(chunk) < perCall {
			return nil
		}
		return send()
	})
	if err == nil && len(chunk) > 0 {
		err = send()
	}
	close(chunks)
	writers.Wait()
	return n, errors.Join(err, context.Cause(ctx))
}

// write writes one chunk of documents with a single call of bulk.
func write(ctx context.Context, bulk *cosmos.Bulk, chunk []cosmos.BulkOperation) error {
	if ctx.Err() != nil {
		return nil // an earlier call returned the error
	}
	results, err := bulk.Do(ctx, chunk)
	if err != nil {
		return err
	}
	for i, r := range results {
		if !r.Done() {
			return fmt.Errorf("%s: status %d %s", chunk[i].Body, r.Status, r.Message)
		}
	}
	return nil
}

package azure

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
)

// order is a document that the hosts copy.
type order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Product  string `json:"product"`
	Version  int    `json:"version"`
}

// This is what the demo does, as far as an account can: documents are written while hosts
// copy them to a container with another partition key. One host is stopped and another one
// joins meanwhile. At the end both containers have the same documents.
func TestHostsCopyEveryDocumentOnTheAccount(t *testing.T) {
	const documents = 500
	orders, account := newContainer(t, `"partitionKey":{"paths":["/customer"],"kind":"Hash","version":2}`)
	copies, _ := newContainer(t, `"partitionKey":{"paths":["/product"],"kind":"Hash","version":2}`)
	leases, _ := newContainer(t, `"partitionKey":{"paths":["/id"],"kind":"Hash","version":2},"defaultTtl":-1`)
	cfg := changefeed.Config{
		Processor: "copy", Start: feed.Beginning(),
		Source: account.Source(database, orders.name, cosmos.SourceOptions{}), Leases: account.Leases(database, leases.name, cosmos.LeaseOptions{}),
		Handler: changefeed.HandlerFunc(func(ctx context.Context, b *changefeed.Batch) error {
			for _, c := range b.Changes {
				var o order
				if err := json.Unmarshal(c.Current, &o); err != nil {
					return err
				}
				if err := copies.upsert(ctx, feed.PartitionKey{o.Product}.String(), string(c.Current)); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	var hosts sync.WaitGroup
	start := func(name string) (stop context.CancelFunc) {
		host := cfg
		host.Instance = name
		p, err := changefeed.New(host)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		hosts.Go(func() {
			if err := p.Run(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
		return stop
	}
	defer hosts.Wait()
	first := start("first")
	defer first()
	for version := range 2 {
		for i := range documents / (version + 1) {
			doc := fmt.Sprintf(`{"id":"%d","customer":"c%d","product":"p%d","version":%d}`, i, i%7, i%11, version)
			if err := orders.upsert(t.Context(), fmt.Sprintf(`["c%d"]`, i%7), doc); err != nil {
				t.Fatal(err)
			}
			if version == 0 && i == documents/2 {
				defer start("second")()
				first()
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := changefeedtest.Await(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	want, got := stored(t, account, orders.name), stored(t, account, copies.name)
	if len(want) != documents {
		t.Errorf("%d documents were written, want %d", len(want), documents)
	}
	for id, o := range want {
		if got[id] != o {
			t.Errorf("the copy of %s is %+v, want %+v", id, got[id], o)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d copies, want %d", len(got), len(want))
	}
}

// stored returns the documents of a container by id. It reads its feed from the beginning.
func stored(t *testing.T, account *cosmos.Account, name string) map[string]order {
	t.Helper()
	all := map[string]order{}
	reader, err := feed.NewReader(account.Source(database, name, cosmos.SourceOptions{}), feed.ReaderConfig{Start: feed.Beginning()})
	if err != nil {
		t.Fatal(err)
	}
	for page, err := range reader.Pages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range page.Changes {
			var o order
			if err := json.Unmarshal(c.Current, &o); err != nil {
				t.Fatal(err)
			}
			all[o.ID] = o
		}
	}
	return all
}

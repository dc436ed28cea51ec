package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// account is the running total of one customer. LSN is the LSN of the last payment in
// Total. One write stores both.
type account struct {
	ID       string  `json:"id"`
	Customer string  `json:"customer"`
	Total    float64 `json:"total"`
	LSN      int64   `json:"lsn"`
}

// add adds the payments of one batch to the totals of their customers. It skips a payment
// whose LSN the total already includes. That is safe for two reasons. LSNs rise within a
// partition key, also across splits and merges. A page never divides a transaction, so
// all payments with one LSN and customer are in one batch.
func add(ctx context.Context, accounts *store.Container, changes []feed.Change) error {
	type payments struct{ of []feed.Change }
	byCustomer := map[string]*payments{}
	for _, change := range changes {
		var payment struct{ Customer string }
		if err := json.Unmarshal(change.Current, &payment); err != nil {
			return err
		}
		if byCustomer[payment.Customer] == nil {
			byCustomer[payment.Customer] = &payments{}
		}
		p := byCustomer[payment.Customer]
		p.of = append(p.of, change)
	}
	for customer, p := range byCustomer {
		if err := addTo(ctx, accounts, customer, p.of); err != nil {
			return err // the batch is delivered again, and the payments already added are skipped
		}
	}
	return nil
}

func addTo(ctx context.Context, accounts *store.Container, customer string, payments []feed.Change) error {
	a, condition := account{ID: "total", Customer: customer}, storetype.WriteOptions{IfNoneMatch: "*"}
	old, err := accounts.Read(ctx, feed.PartitionKey{customer}, a.ID, storetype.ReadOptions{})
	switch {
	case err == nil:
		condition = storetype.WriteOptions{IfMatch: old.ETag}
		if err := json.Unmarshal(old.Body, &a); err != nil {
			return err
		}
	case !errors.Is(err, feed.ErrNotFound):
		return err
	}
	included := a.LSN
	for _, change := range payments {
		if change.LSN <= included {
			continue
		}
		var payment struct{ Amount float64 }
		if err := json.Unmarshal(change.Current, &payment); err != nil {
			return err
		}
		a.Total += payment.Amount
		a.LSN = change.LSN
	}
	if a.LSN == included {
		return nil
	}
	body, err := json.Marshal(a)
	if err != nil {
		return err
	}
	// The condition refuses the write if another host wrote the total meanwhile.
	_, err = accounts.Upsert(ctx, feed.PartitionKey{customer}, body, condition)
	return err
}

// Every change is delivered at least once, so a handler that adds amounts would sometimes
// add one twice. This handler stores the last LSN with the total. It can receive the same
// batch any number of times.
func Example_runningTotal() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db, err := store.OpenMemory(store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "shop"}); err != nil {
		log.Fatal(err)
	}
	container := func(p storetype.ContainerProperties) *store.Container {
		c, err := db.CreateContainer(ctx, "shop", p)
		if err != nil {
			log.Fatal(err)
		}
		return c
	}
	payments := container(storetype.ContainerProperties{ID: "payments", KeyPaths: []string{"/customer"}})
	accounts := container(storetype.ContainerProperties{ID: "accounts", KeyPaths: []string{"/customer"}})
	leases := container(storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	write := func(c *store.Container, documents ...string) {
		for _, document := range documents {
			if _, err := c.Upsert(ctx, nil, []byte(document), storetype.WriteOptions{}); err != nil {
				log.Fatal(err)
			}
		}
	}
	write(payments,
		`{"id":"1","customer":"ada","amount":10}`,
		`{"id":"2","customer":"bob","amount":5}`,
		`{"id":"3","customer":"ada","amount":2.5}`,
		`{"id":"last","customer":"bob","amount":1}`,
	)
	processor, err := changefeed.New(changefeed.Config{
		Processor: "totals",
		Source:    db.Source(payments),
		Leases:    db.Leases(leases),
		Start:     feed.Beginning(),
		MaxItems:  2,
		Handler: changefeed.HandlerFunc(func(ctx context.Context, b *changefeed.Batch) error {
			for range 3 { // as if the batch were delivered three times
				if err := add(ctx, accounts, b.Changes); err != nil {
					return err
				}
			}
			if id, err := b.Changes[len(b.Changes)-1].ID(); err == nil && id == "last" {
				stop()
			}
			return nil
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := processor.Run(ctx); err != nil {
		log.Fatal(err)
	}
	for _, customer := range []string{"ada", "bob"} {
		item, err := accounts.Read(context.Background(), feed.PartitionKey{customer}, "total", storetype.ReadOptions{})
		if err != nil {
			log.Fatal(err)
		}
		var a account
		if err := json.Unmarshal(item.Body, &a); err != nil {
			log.Fatal(err)
		}
		fmt.Println(a.Customer, a.Total)
	}
	// Output:
	// ada 12.5
	// bob 6
}

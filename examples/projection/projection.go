// Package projection is the handler of an application. Its tests show how to test a
// handler: with a real store, a processor, a split in the middle, and in the simulation
// with faults.
package projection

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/changefeed-go/changefeed"
)

// Totals holds the sum of each customer's orders. A change may be delivered several
// times. So Totals keeps the amount of each order instead of adding to a sum.
type Totals struct {
	mu     sync.Mutex // guards orders, because leases are handled concurrently
	orders map[string]order
}

type order struct {
	Customer string `json:"customer"`
	Total    int    `json:"total"`
}

// New returns empty totals.
func New() *Totals { return &Totals{orders: map[string]order{}} }

// Handle implements changefeed.Handler.
func (t *Totals) Handle(_ context.Context, b *changefeed.Batch) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, change := range b.Changes {
		id, err := change.ID()
		if err != nil {
			return err
		}
		var o order
		if err := json.Unmarshal(change.Current, &o); err != nil {
			return fmt.Errorf("order %s: %w", id, err)
		}
		t.orders[o.Customer+"/"+id] = o // ids are unique within a partition key
	}
	return nil
}

// Of returns the total of a customer.
func (t *Totals) Of(customer string) (total int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.orders {
		if o.Customer == customer {
			total += o.Total
		}
	}
	return total
}

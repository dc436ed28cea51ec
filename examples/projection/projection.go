// Package projection is the handler of an application that keeps the total of each
// customer's orders. Its tests show two ways to test a handler. One runs a processor on a
// server while a partition splits. The other uses the simulation with faults.
package projection

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/changefeed-go/changefeed"
)

// Totals keeps the total of each customer's orders. The same change may be delivered
// several times. So Totals stores the amount of each order, and does not add amounts to a
// sum.
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

// Of returns the total of a customer's orders.
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

// Package projection is a handler as an application has one, and, in its test, how to test it: with a real
// store, a processor, a split in the middle, and everything that may go wrong.
package projection

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/changefeed-go/changefeed"
)

// Totals is what each customer has ordered for. It may be handed a change several times, as every handler may:
// it keeps by each order what it counts it for.
type Totals struct {
	mu     sync.Mutex // guards orders: leases are handled at the same time
	orders map[string]order
}

type order struct {
	Customer string `json:"customer"`
	Total    int    `json:"total"`
}

// New makes empty totals.
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

// Of is the total of a customer.
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

package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/changefeed-go/changefeed/server"
)

// Fault is a rule by which requests to the server fail. docs/admin.md describes its
// members. If a member that selects requests is zero, it selects all of them.
type Fault struct {
	// ID and Hits are set by the server. Hits is the number of requests that have failed.
	ID   string `json:"id,omitempty"`
	Hits int    `json:"hits"`

	Operation string          `json:"operation,omitempty"`
	Database  string          `json:"database,omitempty"`
	Container string          `json:"container,omitempty"`
	Partition string          `json:"partition,omitempty"`
	Min       string          `json:"min,omitempty"`
	Max       string          `json:"max,omitempty"`
	Key       json.RawMessage `json:"key,omitempty"`

	Skip        int     `json:"skip,omitempty"`
	Count       int     `json:"count,omitempty"`
	Probability float64 `json:"probability,omitempty"`
	Seed        uint64  `json:"seed,omitempty"`

	DelayMS      int64  `json:"delayMs,omitempty"`
	Status       int    `json:"status,omitempty"`
	SubStatus    int    `json:"subStatus,omitempty"`
	Message      string `json:"message,omitempty"`
	RetryAfterMS int64  `json:"retryAfterMs,omitempty"`
	Drop         bool   `json:"drop,omitempty"`
	After        bool   `json:"after,omitempty"`
}

// Operations returns the names of the operations that a fault can select, in alphabetical
// order.
func Operations() []string {
	var names []string
	for _, o := range server.Operations() {
		names = append(names, o.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Faults is what makes the requests to a server fail or wait.
type Faults struct {
	// Faults are in the order in which requests are compared with them.
	Faults []Fault `json:"faults"`
	// Frozen are the frozen ranges of all containers.
	Frozen []Frozen `json:"frozen"`
}

// Faults lists the server's faults and frozen ranges.
func (c *Client) Faults(ctx context.Context) (Faults, error) {
	var all Faults
	if err := c.call(ctx, http.MethodGet, nil, &all, "faults"); err != nil {
		return all, err
	}
	for i := range all.Faults {
		all.Faults[i].normalize()
	}
	return all, c.call(ctx, http.MethodGet, nil, &all, "frozen")
}

// normalize omits the probability of a fault that always applies, as docs/json.md has it.
func (f *Fault) normalize() {
	if f.Probability == 1 {
		f.Probability = 0
	}
}

// SetFault sets a fault, and returns it with its ID.
func (c *Client) SetFault(ctx context.Context, f Fault) (Fault, error) {
	var set Fault
	err := c.call(ctx, http.MethodPost, f, &set, "faults")
	set.normalize()
	return set, err
}

// RemoveFault removes the fault with an id. It returns a *[NotFoundError] if there is none.
func (c *Client) RemoveFault(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, nil, nil, "faults", id)
}

// ClearFaults removes all faults.
func (c *Client) ClearFaults(ctx context.Context) error {
	return c.call(ctx, http.MethodDelete, nil, nil, "faults")
}

// Freeze holds every request that addresses a key of a partition.
func (c *Client) Freeze(ctx context.Context, database, container, partition string) error {
	return c.call(ctx, http.MethodPost, nil, nil, "dbs", database, "colls", container, "partitions", partition, "freeze")
}

// Frozen is a range of a container's keys whose requests the server holds.
type Frozen struct {
	Database  string `json:"database"`
	Container string `json:"container"`
	Min       string `json:"min"`
	Max       string `json:"max"`
}

// ThawAll thaws all partitions.
func (c *Client) ThawAll(ctx context.Context) error {
	return c.call(ctx, http.MethodDelete, nil, nil, "frozen")
}

// Thaw carries out the held requests of a partition, and holds no further ones.
func (c *Client) Thaw(ctx context.Context, database, container, partition string) error {
	return c.call(ctx, http.MethodPost, nil, nil, "dbs", database, "colls", container, "partitions", partition, "thaw")
}

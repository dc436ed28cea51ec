// Checkpoint collects the changes of several batches and writes them together. The
// position moves only after that write. After a crash the collected changes are delivered
// again.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

const (
	// enough is the number of collected changes at which they are written.
	enough = 10
	// late is the longest time for which a change waits to be written.
	late = 5 * time.Second
)

// collector is the observer of one lease. It collects changes and writes them together.
// It does so when there are enough, when one has waited too long, and when the work on
// the lease ends.
type collector struct {
	lease   string
	batches chan *changefeed.Batch
	done    chan struct{}
}

// Open implements changefeed.Observer. ctx ends when the lease is lost. After that, the
// collector must write nothing.
func (c *collector) Open(ctx context.Context, l lease.Lease) error {
	c.lease, c.batches, c.done = l.Token, make(chan *changefeed.Batch), make(chan struct{})
	go c.collect(ctx)
	return nil
}

// Handle implements changefeed.Observer. It passes the batch on, and returns before the
// changes are written. With manual checkpoints, its return does not acknowledge them.
func (c *collector) Handle(ctx context.Context, b *changefeed.Batch) error {
	select {
	case c.batches <- b:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close implements changefeed.Observer. It writes the collected changes before the lease
// is released.
func (c *collector) Close(context.Context, changefeed.Reason) error {
	close(c.batches)
	<-c.done
	return nil
}

// collect collects the changes that it gets from Handle, and writes them.
func (c *collector) collect(ctx context.Context) {
	defer close(c.done)
	var last *changefeed.Batch
	var collected []feed.Change
	flush := func() {
		if last == nil || ctx.Err() != nil {
			return
		}
		fmt.Printf("lease %s: %d changes written together\n", c.lease, len(collected))
		if err := last.Checkpoint(ctx); err != nil {
			log.Printf("lease %s: %v; its changes are delivered again", c.lease, err)
		}
		last, collected = nil, nil
	}
	defer flush()
	ticker := time.NewTicker(late)
	defer ticker.Stop()
	for {
		select {
		case b, more := <-c.batches:
			if !more {
				return
			}
			last, collected = b, append(collected, b.Changes...)
			if len(collected) >= enough {
				flush()
			}
		case <-ticker.C:
			flush()
		}
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	shop, err := account()
	if err != nil {
		log.Fatal(err)
	}
	processor, err := changefeed.New(changefeed.Config{
		Processor:  "checkpoint",
		Source:     shop.Source("shop", "orders", cosmos.SourceOptions{}),
		Leases:     shop.Leases("shop", "leases", cosmos.LeaseOptions{Create: true}),
		Start:      feed.Beginning(),
		MaxItems:   4, // small pages show that several batches are written together
		Checkpoint: changefeed.Checkpointing{Manual: true},
		Observer:   func(lease.Lease) (changefeed.Observer, error) { return &collector{}, nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := processor.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// account returns the account of COSMOS_ENDPOINT. It signs in with COSMOS_KEY, or by
// Microsoft Entra ID if there is no key.
func account() (*cosmos.Account, error) {
	endpoint, key := os.Getenv("COSMOS_ENDPOINT"), os.Getenv("COSMOS_KEY")
	if key != "" {
		return cosmos.WithKey(endpoint, key, cosmos.Options{})
	}
	credential, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, err
	}
	return cosmos.WithCredential(endpoint, credential, cosmos.Options{})
}

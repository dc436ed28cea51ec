package cosmos

import (
	"context"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// presenceFor is how long an answer of [presence] is used again. When a container is deleted, all of its leases
// are missed at once.
const presenceFor = 2 * time.Second

// presence reports whether the lease container exists. It is safe for concurrent use.
type presence struct {
	documents *documents
	// turn is held by the one call that reads the container.
	turn chan struct{}

	mu sync.Mutex // guards what follows
	// until is the end of the last answer's use.
	until time.Time
	there bool
}

func newPresence(d *documents) *presence {
	return &presence{documents: d, turn: make(chan struct{}, 1)}
}

// known returns the last answer; fresh reports whether it may still be used.
func (p *presence) known() (there, fresh bool) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.there, now.Before(p.until)
}

// confirm reads the container, unless that was done a moment ago. An error means that nothing is known.
func (p *presence) confirm(ctx context.Context) (there bool, err error) {
	if there, fresh := p.known(); fresh {
		return there, nil
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if there, fresh := p.known(); fresh {
		return there, nil
	}
	_, err = p.documents.read(ctx)
	if err != nil && !isMissing(err) {
		return false, err
	}
	until := time.Now().Add(presenceFor)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.there, p.until = err == nil, until
	return p.there, nil
}

// read reads the properties of the container.
func (d *documents) read(ctx context.Context) (azcosmos.ContainerProperties, error) {
	var answer azcosmos.ContainerResponse
	err := d.manage(ctx, func(ctx context.Context, db *azcosmos.DatabaseClient) error {
		c, err := db.NewContainer(d.container)
		if err != nil {
			return err
		}
		answer, err = c.Read(ctx, nil)
		return err
	})
	if err != nil {
		return azcosmos.ContainerProperties{}, err
	}
	return *answer.ContainerProperties, nil
}

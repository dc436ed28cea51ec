package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/store"
)

// freezes are the ranges of keys whose requests wait. A range and not a partition is frozen, so that what
// was frozen stays so when the partition is split or merged.
type freezes struct {
	mu  sync.Mutex // guards all
	all []*freeze
}

type freeze struct {
	container *engine.Container
	keys      feed.Range
	// thawed is closed when the requests may go on.
	thawed chan struct{}
}

func (fs *freezes) none() bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return len(fs.all) == 0
}

// over finds a freeze of a part of a range; nil: there is none.
func (fs *freezes) over(c *engine.Container, keys feed.Range) *freeze {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.all {
		if f.container == c && f.keys.Overlaps(keys) {
			return f
		}
	}
	return nil
}

// freeze freezes a range; one that is frozen already stays so.
func (fs *freezes) freeze(c *engine.Container, keys feed.Range) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if slices.ContainsFunc(fs.all, func(f *freeze) bool { return f.container == c && f.keys.Contains(keys) }) {
		return
	}
	fs.all = append(fs.all, &freeze{container: c, keys: keys, thawed: make(chan struct{})})
}

// thaw ends every freeze of a part of a range; what of it lies outside stays frozen.
func (fs *freezes) thaw(c *engine.Container, keys feed.Range) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	kept := make([]*freeze, 0, len(fs.all))
	for _, f := range fs.all {
		if f.container != c || !f.keys.Overlaps(keys) {
			kept = append(kept, f)
			continue
		}
		for _, rest := range []feed.Range{{Min: f.keys.Min, Max: keys.Min}, {Min: keys.Max, Max: f.keys.Max}} {
			if !rest.IsEmpty() {
				kept = append(kept, &freeze{container: c, keys: rest, thawed: make(chan struct{})})
			}
		}
		close(f.thawed) // who waits looks again
	}
	fs.all = kept
}

// dropDeleted ends the freezes of deleted containers. Waiting requests look up the container again.
func (fs *freezes) dropDeleted(ctx context.Context) {
	ctx = context.WithoutCancel(ctx) // it does not serve only the client that deletes
	fs.mu.Lock()
	all := slices.Clone(fs.all)
	fs.mu.Unlock()
	for _, f := range all { // without the lock, so that requests go on meanwhile
		if _, err := f.container.Partitions(ctx); errors.Is(err, feed.ErrNotFound) {
			fs.thaw(f.container, feed.Full())
		}
	}
}

// wait holds a request that addresses a frozen key until it is thawed, the
// client leaves, or the server ends.
func (fs *freezes) wait(x *request, t *target) error {
	for held := false; ; held = true {
		if fs.none() || t.container() == nil {
			return nil
		}
		f := fs.over(t.c, t.keys)
		if f == nil {
			return nil
		}
		if !held {
			if err := x.bufferBody(); err != nil {
				return err
			}
		}
		select {
		case <-f.thawed:
			// Partitions may have been split meanwhile, or the container deleted.
			*t = target{x: x}
		case <-x.r.Context().Done():
			return x.r.Context().Err()
		case <-x.s.draining:
			return errEnding
		}
	}
}

// Freeze holds all requests that address a key of the given physical partition, before anything is
// done of them, until [Server.Thaw], or their clients leave. A request for documents without a
// partition key (a query over all partitions) addresses every key; one for containers or partitions, none. What is frozen stays so through splits and
// merges, and until a request deletes the container or its database: those that were held are answered with 404 then. Errors:
// *feed.GoneError, when there is no such partition now.
func (s *Server) Freeze(ctx context.Context, container *store.Container, partition string) error {
	c := (*engine.Container)(container)
	keys, err := partitionRange(ctx, c, partition)
	if err != nil {
		return fmt.Errorf("freeze: %w", err)
	}
	s.freezes.freeze(c, keys)
	s.freezes.dropDeleted(ctx) // of a container that was deleted since it was asked for its partitions
	return nil
}

// Thaw lets the requests go on that Freeze holds; of a partition that isn't frozen it does nothing.
// Errors: as Freeze.
func (s *Server) Thaw(ctx context.Context, container *store.Container, partition string) error {
	c := (*engine.Container)(container)
	keys, err := partitionRange(ctx, c, partition)
	if err != nil {
		return fmt.Errorf("thaw: %w", err)
	}
	s.freezes.thaw(c, keys)
	return nil
}

// partitionRange is the range of a live partition.
func partitionRange(ctx context.Context, c *engine.Container, id string) (feed.Range, error) {
	if c == nil {
		return feed.Range{}, errors.New("there is no container")
	}
	all, err := c.Partitions(ctx)
	if err != nil {
		return feed.Range{}, err
	}
	i := slices.IndexFunc(all, func(p feed.Partition) bool { return p.ID == id })
	if i < 0 {
		return feed.Range{}, &feed.GoneError{Partition: id}
	}
	return all[i].Range, nil
}

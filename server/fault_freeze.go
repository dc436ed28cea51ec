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

// freezes holds the frozen ranges of partition keys. Requests for their keys wait. A
// freeze holds the range of a partition and not its ID, so that it survives splits and
// merges.
type freezes struct {
	mu  sync.Mutex // guards all
	all []*freeze
}

type freeze struct {
	container *engine.Container
	keys      feed.Range
	// thawed is closed when the freeze changes. Waiting requests then check again whether
	// they are still frozen.
	thawed chan struct{}
}

func (fs *freezes) none() bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return len(fs.all) == 0
}

// over returns a freeze of the container c that overlaps the range keys, or nil.
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

// freeze adds a freeze of a range, unless an existing freeze covers the whole range.
func (fs *freezes) freeze(c *engine.Container, keys feed.Range) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if slices.ContainsFunc(fs.all, func(f *freeze) bool { return f.container == c && f.keys.Contains(keys) }) {
		return
	}
	fs.all = append(fs.all, &freeze{container: c, keys: keys, thawed: make(chan struct{})})
}

// thaw removes a range from all freezes. If a freeze is larger than the range, the rest
// of it stays frozen.
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
		close(f.thawed) // waiting requests check again
	}
	fs.all = kept
}

// list returns the container and the range of every freeze, in no particular order.
func (fs *freezes) list() []freeze {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	all := make([]freeze, len(fs.all))
	for i, f := range fs.all {
		all[i] = *f
	}
	return all
}

// dropDeleted removes the freezes of containers that no longer exist. Requests that wait
// for one then find that their container is missing.
func (fs *freezes) dropDeleted(ctx context.Context) {
	ctx = context.WithoutCancel(ctx) // it serves all clients, so it must not stop if this one disconnects
	fs.mu.Lock()
	all := slices.Clone(fs.all)
	fs.mu.Unlock()
	for _, f := range all { // the lock is not held here, so that requests continue meanwhile
		if _, err := f.container.Partitions(ctx); errors.Is(err, feed.ErrNotFound) {
			fs.thaw(f.container, feed.Full())
		}
	}
}

// wait returns when no freeze overlaps the keys of the request. It returns an error if
// the client disconnects or Server.Drain is called before that.
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
			// The target is computed again, because the partition may have been split, or
			// the container deleted, while the request waited.
			*t = target{x: x}
		case <-x.r.Context().Done():
			return x.r.Context().Err()
		case <-x.s.draining:
			return errEnding
		}
	}
}

// Freeze delays all requests that address a key in a physical partition until
// [Server.Thaw] or until their clients disconnect, and does no part of their work
// meanwhile. Reach for it to see what a program does when one partition hangs. A request
// for documents without a partition key, such as a query over all partitions, addresses
// every key, but a request for containers or partitions addresses none.
//
// A freeze survives splits and merges, but ends when a request deletes the container or
// its database; waiting requests are then answered 404. If the partition does not exist,
// Freeze returns a *feed.GoneError.
func (s *Server) Freeze(ctx context.Context, container *store.Container, partition string) error {
	c := (*engine.Container)(container)
	keys, err := partitionRange(ctx, c, partition)
	if err != nil {
		return fmt.Errorf("freeze: %w", err)
	}
	s.freezes.freeze(c, keys)
	s.freezes.dropDeleted(ctx) // the container may have been deleted while the freeze was added
	return nil
}

// Thaw resumes the requests that Freeze delays, and does nothing if the partition is not
// frozen. Its errors are those of Freeze.
func (s *Server) Thaw(ctx context.Context, container *store.Container, partition string) error {
	c := (*engine.Container)(container)
	keys, err := partitionRange(ctx, c, partition)
	if err != nil {
		return fmt.Errorf("thaw: %w", err)
	}
	s.freezes.thaw(c, keys)
	return nil
}

// partitionRange returns the key range of the live partition with this ID. If there is
// none, the error is a *feed.GoneError.
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

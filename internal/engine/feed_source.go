package engine

import (
	"context"

	"github.com/changefeed-go/changefeed/feed"
)

// source is a container's change feed.
type source struct{ c *Container }

// Source is the change feed of a container.
//
// Its continuations are a decimal LSN in double quotes; one of any partition of
// the container can be given to any other. A start at a time in the future is
// now. It can wait: a read with Wait is answered when the first change comes, or with
// [ErrClosed] when the store is closed. In all versions and deletes mode a start
// from the beginning or a time is refused (feed.ErrUnsupported), and so is a
// container without Retention; CheckStart of [feed.StartChecker] tells it without a read. A position past the retention is answered with
// *feed.HistoryLostError, and Oldest is where it can go on.
func (db *DB) Source(c *Container) feed.Source { return source{c} }

// Identity implements [feed.Source].
func (s source) Identity(ctx context.Context) (feed.Identity, error) {
	if err := ctx.Err(); err != nil {
		return feed.Identity{}, err
	}
	v, _, err := s.c.open()
	if err != nil {
		return feed.Identity{}, err
	}
	v.release()
	return s.c.Identity(), nil
}

// ContainerID implements [feed.Identifier].
func (s source) ContainerID(context.Context) (feed.ContainerID, error) { return s.c.containerID(), nil }

// Partitions implements [feed.Source].
func (s source) Partitions(ctx context.Context) ([]feed.Partition, error) { return s.c.Partitions(ctx) }

// CheckStart implements [feed.StartChecker].
func (s source) CheckStart(ctx context.Context, from feed.Start, mode feed.Mode) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	v, state, err := s.c.open()
	if err != nil {
		return err
	}
	defer v.release()
	f := feedRead{c: s.c, r: feed.Request{Mode: mode, From: from}}
	return f.checkMode(state)
}

// Read implements [feed.Source].
func (s source) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	page, _, err := s.c.readFeed(ctx, r, false, nil)
	return page, err
}

var _ feed.Identifier = source{}

// SplitRange implements [feed.RangeSplitter].
func (s source) SplitRange(ctx context.Context, r feed.Range, n int) ([]feed.Range, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r = r.OrFull()
	borders, err := s.c.hash.Divide(r.Min, r.Max, n)
	if err != nil {
		return nil, err
	}
	return r.Cut(borders), nil
}

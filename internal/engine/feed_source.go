package engine

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
)

// source is a container's change feed.
type source struct{ c *Container }

// Source implements store.DB.Source, which documents it.
func (db *DB) Source(c *Container) feed.Source { return source{c} }

// Identity implements [feed.Source].
func (s source) Identity(ctx context.Context) (feed.Identity, error) {
	v, _, err := s.c.open(ctx)
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

// CheckStart implements [feed.Source].
func (s source) CheckStart(ctx context.Context, from feed.Start, mode feed.Mode) error {
	v, state, err := s.c.open(ctx)
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

// KeyHash implements [feed.KeyHasher].
func (s source) KeyHash(ctx context.Context, key feed.PartitionKey) (string, error) {
	components, err := s.c.paths.FullKey(key)
	if err != nil {
		return "", err
	}
	return epk.Hex(s.c.hash.Append(nil, components)), ctx.Err()
}

// SplitRange implements [feed.Source].
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

// FeedPage is a page of the feed of any part of a container.
type FeedPage struct {
	// Page is as a feed.Source returns it. If several partitions served the read, End is
	// -1. LSN is -1 unless the continuation has the same LSN for all keys. SessionToken
	// has a part for each partition, separated by commas.
	feed.Page
	// Served has the physical partitions that served the read, sorted by range.
	Served []PartitionEnd
}

// PartitionEnd is a physical partition and its last LSN at the time of a read. A session
// token consists of both.
type PartitionEnd struct {
	// ID is the ID of the partition.
	ID string
	// End is the last LSN of the partition.
	End int64
}

// Feed implements store.Container.Feed, which documents it.
func (c *Container) Feed(ctx context.Context, r feed.Request) (FeedPage, error) {
	return c.FeedInto(ctx, r, nil)
}

// FeedBefore returns an empty page of the part of the container that Feed would read. The
// page's continuation is the last position before the second of t. In latest version
// mode, all changes with a _ts of that second or later follow it. If there are none, it
// is the end of the feed. In a partition that was merged, some older changes may follow it
// too, because the LSNs of its parents were counted independently.
//
// Of r, only Partition.ID, Range, Key and Mode are used. Mode must be latest version
// mode. Otherwise FeedBefore returns feed.ErrUnsupported.
func (c *Container) FeedBefore(ctx context.Context, r feed.Request, t time.Time) (FeedPage, error) {
	if r.Mode != feed.LatestVersion {
		return FeedPage{}, fmt.Errorf("a position by time in all versions and deletes mode is %w", feed.ErrUnsupported)
	}
	start := time.Now()
	if err := c.admit(ctx); err != nil {
		return FeedPage{}, err
	}
	sc, err := c.newKeyFilter(r.Range, r.Key)
	if err != nil {
		return FeedPage{}, err
	}
	v, s, err := c.open(ctx)
	if err != nil {
		return FeedPage{}, err
	}
	defer v.release()
	sp, err := sc.partitionsOf(s, r.Partition.ID, true)
	if err != nil {
		return FeedPage{}, err
	}
	all, err := c.before(v, s.meta, sp.pieces(nil, &sc, position{}), t.Unix())
	if err != nil {
		return FeedPage{}, err
	}
	page := FeedPage{Page: sp.page(s.meta.positionOf(all)), Served: served(sp.partitions, sp.ends)}
	page.Charge = readCharge(0)
	c.spend(page.Charge)
	page.Diagnostics.Elapsed = time.Since(start)
	return page, nil
}

// partitionSet is the part of a view that a read of a feed covers: one partition, or
// neighbours that are read one after the other.
type partitionSet struct {
	// partitions are sorted by range, and ends their last LSNs.
	partitions []*partition
	ends       []int64
	// changed wakes readers when there may be a change after known, which is an LSN of
	// the partition or a version of the container.
	changed *signal
	known   int64
}

// partitionsOf returns the partitions that have the keys of the filter, or the partition
// that id names. It returns a *feed.GoneError if id is not live, or if the keys are in
// several partitions and several is false.
func (sc *keyFilter) partitionsOf(s *state, id string, several bool) (partitionSet, error) {
	if !several {
		index, err := sc.partitionIn(s.meta, id)
		if err != nil {
			return partitionSet{}, err
		}
		return s.setOf(index, index), nil
	}
	first, last, err := sc.partitionsIn(s.meta, id)
	if err != nil {
		return partitionSet{}, err
	}
	return s.setOf(first, last), nil
}

// partitionsIn returns the indexes of the first and the last partition that have keys of
// the filter. If id is not empty, both are the index of that partition. It returns a
// *feed.GoneError if id is not live.
func (sc *keyFilter) partitionsIn(m *meta, id string) (first, last int, err error) {
	if id != "" || sc.point != nil || sc.keys.IsEmpty() {
		first, err = sc.partitionIn(m, id)
		return first, first, err
	}
	first = m.find(sc.lower)
	last = first
	for last+1 < len(m.partitions) && bytes.Compare(sc.upper, m.partitions[last].upper) > 0 {
		last++
	}
	return first, last, nil
}

// setOf returns the set of the partitions from index first to index last.
func (s *state) setOf(first, last int) partitionSet {
	members, ends := s.meta.partitions[first:last+1], s.ends[first:last+1]
	if first == last {
		return partitionSet{partitions: members, ends: ends, changed: members[0].changed, known: ends[0]}
	}
	return partitionSet{partitions: members, ends: ends, changed: &s.c.changed, known: s.version}
}

// page returns an empty page of the set's feed, which ends at a position.
func (sp *partitionSet) page(at position) feed.Page {
	var token strings.Builder
	for i, p := range sp.partitions {
		if i > 0 {
			token.WriteByte(',')
		}
		token.WriteString(p.id)
		token.WriteString(":-1#")
		token.WriteString(strconv.FormatInt(sp.ends[i], 10))
	}
	end := int64(-1)
	if len(sp.ends) == 1 {
		end = sp.ends[0]
	}
	return feed.Page{Continuation: at.continuation(), LSN: at.only(), End: end, SessionToken: token.String()}
}

// served returns the partitions from index first to index last with their last LSNs.
func (s *state) served(first, last int) []PartitionEnd {
	return served(s.meta.partitions[first:last+1], s.ends[first:last+1])
}

func served(parts []*partition, ends []int64) []PartitionEnd {
	all := make([]PartitionEnd, len(parts))
	for i, p := range parts {
		all[i] = PartitionEnd{ID: p.id, End: ends[i]}
	}
	return all
}

package feed_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// fakeSource is a container in memory, with its change feed. The test chooses the
// effective partition key of each document. Reads and writes may be concurrent. Then fail
// and after must be safe for concurrent use too.
type fakeSource struct {
	mu         sync.Mutex // guards the fields from here to wrote
	identity   feed.Identity
	partitions []feed.Partition
	nextID     int
	log        []fakeChange
	requests   []feed.Request
	wrote      chan struct{} // the next write closes it

	// fail is called before each read. If it returns an error, the read returns that
	// error.
	fail func(feed.Request) error
	// after is called at the end of each read.
	after func(feed.Request)
	// sparse makes a read with MaxItems 1 look at one entry of the log only. If that
	// entry is outside of the request's range, the page is empty although more changes
	// follow.
	sparse bool
	// waits makes a read without changes last for the request's Wait.
	waits bool
	// listed, if not nil, is called instead of Partitions.
	listed func() ([]feed.Partition, error)
}

type fakeChange struct {
	lsn     int64
	epk, id string
	key     feed.PartitionKey
}

// newFake returns an empty container whose partitions are divided by the given borders.
func newFake(borders ...string) *fakeSource {
	s := &fakeSource{identity: feed.Identity{
		AccountHost: "localhost", Database: "db", DatabaseRID: "AAAA", Container: "c", ContainerRID: "AAAAAAAA=",
	}}
	low := feed.MinEPK
	for _, high := range append(borders, feed.MaxEPK) {
		s.partitions = append(s.partitions, s.partition(feed.Range{Min: low, Max: high}))
		low = high
	}
	return s
}

func (s *fakeSource) partition(r feed.Range, parents ...string) feed.Partition {
	s.nextID++
	return feed.Partition{ID: strconv.Itoa(s.nextID - 1), Range: r, Parents: parents}
}

func (s *fakeSource) write(epk, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fakeChange{lsn: int64(len(s.log) + 1), epk: epk, id: id, key: feed.PartitionKey{id[:1], id}})
	if s.wrote != nil {
		close(s.wrote)
		s.wrote = nil
	}
}

func (s *fakeSource) split(i int, at string) {
	p := s.partitions[i]
	s.replace(i, i+1, s.partition(feed.Range{Min: p.Range.Min, Max: at}, p.ID), s.partition(feed.Range{Min: at, Max: p.Range.Max}, p.ID))
}

func (s *fakeSource) merge(i int) {
	a, b := s.partitions[i], s.partitions[i+1]
	s.replace(i, i+2, s.partition(feed.Range{Min: a.Range.Min, Max: b.Range.Max}, a.ID, b.ID))
}

func (s *fakeSource) replace(from, to int, by ...feed.Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := append(by, s.partitions[to:]...)
	s.partitions = append(s.partitions[:from:from], rest...)
}

func (s *fakeSource) Identity(ctx context.Context) (feed.Identity, error) {
	return s.identity, ctx.Err()
}

func (s *fakeSource) Partitions(ctx context.Context) ([]feed.Partition, error) {
	if s.listed != nil {
		return s.listed()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.partitions, ctx.Err()
}

func (s *fakeSource) CheckStart(context.Context, feed.Start, feed.Mode) error { return nil }

func (s *fakeSource) SplitRange(context.Context, feed.Range, int) ([]feed.Range, error) {
	return nil, feed.ErrUnsupported
}

func (s *fakeSource) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	s.mu.Lock()
	s.requests = append(s.requests, r)
	s.mu.Unlock()
	if s.after != nil {
		defer s.after(r)
	}
	if err := ctx.Err(); err != nil {
		return feed.Page{}, err
	}
	if s.fail != nil {
		if err := s.fail(r); err != nil {
			return feed.Page{}, err
		}
	}
	if !s.waits || r.Wait == 0 {
		return s.page(r)
	}
	hold := time.NewTimer(r.Wait)
	defer hold.Stop()
	for {
		news := s.news()
		page, err := s.page(r)
		if err != nil || len(page.Changes) > 0 {
			return page, err
		}
		select {
		case <-hold.C:
			return page, nil
		case <-news:
		case <-ctx.Done():
			return feed.Page{}, ctx.Err()
		}
	}
}

// news returns a channel that the next write closes.
func (s *fakeSource) news() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrote == nil {
		s.wrote = make(chan struct{})
	}
	return s.wrote
}

// page returns the page for r at once, even if r has a Wait.
func (s *fakeSource) page(r feed.Request) (feed.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rng, err := s.rangeOf(r)
	if err != nil {
		return feed.Page{}, err
	}
	end := int64(len(s.log))
	page := feed.Page{LSN: end, End: end}
	for _, c := range s.log[s.index(r.From):] {
		if rng.Holds(c.epk) && matches(r.Key, c.key) {
			page.Changes = append(page.Changes, feed.Change{LSN: c.lsn, Current: json.RawMessage(fmt.Sprintf(`{"id":%q}`, c.id))})
		}
		if r.MaxItems > 0 && len(page.Changes) >= r.MaxItems || s.sparse {
			page.LSN = c.lsn
			break
		}
	}
	page.Continuation = feed.Continuation(strconv.Quote(strconv.FormatInt(page.LSN, 10)))
	return page, nil
}

// rangeOf returns the range of keys that r reads. It returns a GoneError if r's partition
// is retired.
func (s *fakeSource) rangeOf(r feed.Request) (feed.Range, error) {
	if r.Partition.ID == "" {
		rng := r.Range.OrFull()
		if len(r.Key) == 1 { // a prefix of a hierarchical key; its keys lie in [10,D0)
			rng = feed.Range{Min: "10", Max: "D0"}
		} else if r.Key != nil {
			return rng, nil
		}
		for _, p := range s.partitions {
			if p.Range.Contains(rng) {
				return rng, nil
			}
		}
		return feed.Range{}, &feed.GoneError{Range: rng}
	}
	for _, p := range s.partitions {
		if p.ID == r.Partition.ID {
			return p.Range.Intersect(r.Range.OrFull()), nil
		}
	}
	return feed.Range{}, &feed.GoneError{Partition: r.Partition.ID}
}

func (s *fakeSource) index(from feed.Start) int {
	switch from.Kind() {
	case feed.StartContinuation:
		n, err := strconv.Atoi(strings.Trim(string(from.Continuation()), `"`))
		if err != nil {
			panic(err) // the test has passed a continuation that is not a number
		}
		return n
	case feed.StartNow:
		return len(s.log)
	case feed.StartBeginning, feed.StartTime:
	}
	return 0
}

func matches(prefix, key feed.PartitionKey) bool {
	for i := range prefix {
		if prefix[i] != key[i] {
			return false
		}
	}
	return true
}

package changefeed

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// fakeSource is a change feed in memory. Each partition has a log whose LSNs are 1, 2, 3
// and so on. Each call takes a millisecond.
type fakeSource struct {
	mu         sync.Mutex // guards the fields below; held for lookups only
	partitions []feed.Partition
	logs       map[string][]feed.Change // by partition ID
	reads      []feed.Request
	// fail is called before each read, with the number of the read. If it returns an
	// error, the read returns that error.
	fail func(n int, r feed.Request) error
}

func newFakeSource(ids ...string) *fakeSource {
	s := &fakeSource{logs: map[string][]feed.Change{}}
	for i, id := range ids {
		r := feed.Range{Min: border(i, len(ids)), Max: border(i+1, len(ids))}
		s.partitions = append(s.partitions, feed.Partition{ID: id, Range: r})
	}
	return s
}

// border returns border i of the n+1 borders that cut the key space into n equal ranges.
func border(i, n int) string {
	switch i {
	case 0:
		return feed.MinEPK
	case n:
		return feed.MaxEPK
	}
	return fmt.Sprintf("%02X", i*0x80/n)
}

// write appends n changes to the log of partition id.
func (s *fakeSource) write(id string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		lsn := int64(len(s.logs[id]) + 1)
		s.logs[id] = append(s.logs[id], feed.Change{
			LSN: lsn, Time: time.Now().UTC().Truncate(time.Second),
			Current: fmt.Appendf(nil, `{"id":"%s-%d","n":%d}`, id, lsn, lsn),
		})
	}
}

// writeKeys appends a change of each key to the log of partition id.
func (s *fakeSource) writeKeys(id string, keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		lsn := int64(len(s.logs[id]) + 1)
		s.logs[id] = append(s.logs[id], feed.Change{
			LSN: lsn, Time: time.Now().UTC().Truncate(time.Second),
			Current: fmt.Appendf(nil, `{"id":"%s","k":"%s","n":%d}`, key, key, lsn),
		})
	}
}

func (s *fakeSource) Identity(context.Context) (feed.Identity, error) {
	return feed.Identity{AccountHost: "localhost", Database: "d", DatabaseRID: "dr", Container: "c", ContainerRID: "cr", KeyPaths: []string{"/k"}}, nil
}

func (s *fakeSource) KeyHash(_ context.Context, key feed.PartitionKey) (string, error) {
	return fmt.Sprintf("%X", key.String()), nil
}

func (s *fakeSource) Partitions(context.Context) ([]feed.Partition, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.partitions), nil
}

func (s *fakeSource) CheckStart(context.Context, feed.Start, feed.Mode) error { return nil }

func (s *fakeSource) SplitRange(context.Context, feed.Range, int) ([]feed.Range, error) {
	return nil, feed.ErrUnsupported
}

func position(lsn int64) feed.Continuation { return feed.Continuation(strconv.FormatInt(lsn, 10)) }

func (s *fakeSource) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	if !sleep(ctx, time.Millisecond) {
		return feed.Page{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads = append(s.reads, r)
	if s.fail != nil {
		if err := s.fail(len(s.reads), r); err != nil {
			return feed.Page{}, err
		}
	}
	log := s.logs[r.Partition.ID]
	from := int64(len(log))
	switch r.From.Kind() {
	case feed.StartBeginning:
		from = 0
	case feed.StartContinuation:
		from, _ = strconv.ParseInt(string(r.From.Continuation()), 10, 64)
	case feed.StartTime:
		from = int64(slices.IndexFunc(log, func(c feed.Change) bool { return !c.Time.Before(r.From.Time()) }))
		if from < 0 {
			from = int64(len(log))
		}
	case feed.StartNow:
	}
	end := max(from, min(from+int64(r.MaxItems), int64(len(log))))
	page := feed.Page{Continuation: position(end), LSN: end, End: int64(len(log)), Charge: 2}
	if end > from {
		page.Changes = log[from:end:end]
	}
	for _, c := range page.Changes {
		page.Bytes += len(c.Current)
	}
	return page, nil
}

func (s *fakeSource) requests() []feed.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.reads)
}

// fakeStore is a lease container in memory. Each call takes a millisecond.
type fakeStore struct {
	mu     sync.Mutex // guards the fields below; held for lookups only
	docs   map[string]lease.Lease
	marker time.Time
	etag   int
	lists  int
	// writes holds the writes that hosts sent, in order.
	writes []fakeWrite
	// before is called before each write. If it returns an error, the write is not carried
	// out and returns that error. after is called after each successful write. If it
	// returns an error, the write returns that error.
	before, after func(w fakeWrite) error
	unreadable    []lease.Unreadable
	behind        time.Duration // by how much _ts is behind the listings' clock
}

type fakeWrite struct {
	op    string
	lease lease.Lease
	at    time.Time
}

func newFakeStore() *fakeStore { return &fakeStore{docs: map[string]lease.Lease{}} }

func (s *fakeStore) Dialect() lease.Dialect { return lease.DotNet }

func (s *fakeStore) Charged() float64 { return 0 }

func (s *fakeStore) Open(context.Context, lease.Key) (lease.Store, error) { return s, nil }

func (s *fakeStore) List(context.Context) (lease.Listing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	l := lease.Listing{Initialized: s.marker, Now: time.Now().UTC(), Unreadable: s.unreadable}
	for _, doc := range s.docs {
		l.Leases = append(l.Leases, doc)
	}
	slices.SortFunc(l.Leases, func(a, b lease.Lease) int { return slices.Compare([]string{a.ID}, []string{b.ID}) })
	return l, nil
}

func (s *fakeStore) SetInitialized(_ context.Context, initialised bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marker = time.Time{}
	if initialised {
		s.marker = time.Now().UTC().Truncate(time.Second)
	}
	return nil
}

// write applies one write to the documents by calling carry. It first calls the hook
// named before. After a success it calls the hook named after.
func (s *fakeStore) write(ctx context.Context, op string, l lease.Lease, carry func() (lease.Lease, error)) (lease.Lease, error) {
	if !sleep(ctx, time.Millisecond) {
		return l, ctx.Err()
	}
	w := fakeWrite{op, l, time.Now()}
	s.mu.Lock()
	s.writes = append(s.writes, w)
	before, after := s.before, s.after
	s.mu.Unlock()
	if before != nil {
		if err := before(w); err != nil {
			return l, err
		}
	}
	s.mu.Lock()
	l, err := carry()
	s.mu.Unlock()
	if after != nil && err == nil {
		if err := after(w); err != nil {
			return l, err
		}
	}
	return l, err
}

func (s *fakeStore) put(l lease.Lease) lease.Lease {
	s.etag++
	l.ETag, l.Modified = strconv.Itoa(s.etag), time.Now().Add(-s.behind).UTC().Truncate(time.Second)
	s.docs[l.ID] = l
	return l
}

func (s *fakeStore) Create(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	l.ID = "lease-" + l.Token
	return s.write(ctx, "create", l, func() (lease.Lease, error) {
		if doc, ok := s.docs[l.ID]; ok {
			return l, &lease.ConflictError{Current: doc}
		}
		return s.put(l), nil
	})
}

func (s *fakeStore) match(l lease.Lease) error {
	doc, ok := s.docs[l.ID]
	switch {
	case !ok:
		return feed.ErrNotFound
	case doc.ETag != l.ETag:
		return &lease.ConflictError{Current: doc}
	}
	return nil
}

func (s *fakeStore) Update(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	return s.write(ctx, "update", l, func() (lease.Lease, error) {
		if err := s.match(l); err != nil {
			return l, err
		}
		return s.put(l), nil
	})
}

func (s *fakeStore) Delete(ctx context.Context, l lease.Lease) error {
	_, err := s.write(ctx, "delete", l, func() (lease.Lease, error) {
		if err := s.match(l); err != nil {
			return l, err
		}
		delete(s.docs, l.ID)
		return l, nil
	})
	return err
}

// setBefore sets the hook that is called before each write. It may be called while a host
// runs.
func (s *fakeStore) setBefore(hook func(w fakeWrite) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = hook
}

// doc returns the stored lease with the token, or the zero Lease if there is none.
func (s *fakeStore) doc(token string) lease.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.docs["lease-"+token]
}

// listings returns how many times hosts have listed the leases.
func (s *fakeStore) listings() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

func (s *fakeStore) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.docs)
}

func (s *fakeStore) marked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.marker.IsZero()
}

// edit changes the stored lease with the token, as an operator or another host would.
func (s *fakeStore) edit(token string, change func(*lease.Lease)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	doc := s.docs["lease-"+token]
	change(&doc)
	s.put(doc)
}

// sent returns a copy of the writes that hosts have sent so far.
func (s *fakeStore) sent() []fakeWrite {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.writes)
}

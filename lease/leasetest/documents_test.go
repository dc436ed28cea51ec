package leasetest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// documents is a lease container that keeps JSON documents in memory. If defect is set,
// it violates one sentence of the contract of lease.Store.
type documents struct {
	dialect lease.Dialect
	defect  string
	clock   func() time.Time

	mu   sync.Mutex // guards the fields below
	docs map[string]stored
	tag  int
}

type stored struct {
	body []byte
	etag string
	ts   time.Time
}

func (d *documents) Dialect() lease.Dialect { return d.dialect }

func (d *documents) Open(_ context.Context, k lease.Key) (lease.Store, error) {
	keyed := d.dialect == lease.DotNet && strings.HasSuffix(k.Processor, "2")
	codec, err := lease.NewCodec(d.dialect, k, keyed)
	if err != nil {
		return nil, &lease.DialectError{Found: err.Error(), Remedy: "use another name"}
	}
	return &documentStore{documents: d, codec: codec}, nil
}

// put stores a document's body under its id, with a new ETag and the present time. The
// caller holds the lock.
func (d *documents) put(id string, body []byte) stored {
	if d.defect != "etag stays" || d.docs[id].etag == "" {
		d.tag++
	}
	etag := fmt.Sprintf(`"%08x"`, d.tag)
	if d.defect == "etags numbered per document" {
		var writes int
		_, _ = fmt.Sscanf(d.docs[id].etag, `"%d"`, &writes) // for the first write of an id, writes stays 0
		etag = fmt.Sprintf(`"%d"`, writes+1)
	}
	if d.defect == "etag of the content" {
		etag = fmt.Sprintf("%q", body)
	}
	ts := d.clock().Truncate(time.Second)
	if d.defect == "modified in fractions" {
		ts = d.clock().Add(time.Millisecond)
	}
	if d.defect == "never stamped again" && d.docs[id].etag != "" {
		ts = d.docs[id].ts
	}
	doc := stored{body: body, etag: etag, ts: ts}
	d.docs[id] = doc
	return doc
}

func (d *documents) document(_ context.Context, id string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	doc, ok := d.docs[id]
	if !ok {
		return nil, feed.ErrNotFound
	}
	return doc.body, nil
}

func (d *documents) replace(_ context.Context, id string, body []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.put(id, body)
	return nil
}

func (d *documents) remove(_ context.Context, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.docs, id)
	return nil
}

type documentStore struct {
	*documents
	codec lease.Codec
}

func (s *documentStore) decode(doc stored) (lease.Lease, error) {
	l, err := s.codec.Decode(doc.body)
	if err != nil {
		return l, err
	}
	if s.defect == "unknown members dropped" {
		fresh := lease.Lease{ID: l.ID, Token: l.Token, PartitionID: l.PartitionID, Range: l.Range, Owner: l.Owner}
		fresh.Continuation, fresh.Mode, fresh.Properties, fresh.Timestamp = l.Continuation, l.Mode, l.Properties, l.Timestamp
		l = fresh
	}
	l.ETag, l.Modified = doc.etag, doc.ts.UTC()
	if s.defect == "properties dropped" {
		l.Properties = nil
	}
	return l, nil
}

func (s *documentStore) List(context.Context) (lease.Listing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := lease.Listing{Now: s.clock(), Initialized: s.docs[s.codec.MarkerID()].ts}
	if s.defect == "clock stopped" {
		l.Now = time.Unix(1_800_000_000, 0)
	}
	for _, id := range slices.Sorted(maps.Keys(s.docs)) {
		doc := s.docs[id]
		if !strings.HasPrefix(id, s.codec.LeasePrefix()) && (s.defect != "other processors listed" || strings.HasSuffix(id, ".info")) {
			if s.defect != "other dialects ignored" {
				s.codec.List(&l, id, doc.ts, doc.body)
			}
			continue
		}
		found, err := s.decode(doc)
		if err != nil {
			s.codec.List(&l, id, doc.ts, doc.body)
			continue
		}
		l.Leases = append(l.Leases, found)
		if s.defect == "listing ends after a page" && len(l.Leases) == 1000 {
			break
		}
	}
	return l, nil
}

func (s *documentStore) SetInitialized(_ context.Context, initialised bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.codec.MarkerID()
	_, there := s.docs[id]
	switch {
	case !initialised:
		if !there && s.defect == "unmark without a marker fails" {
			return feed.ErrNotFound
		}
		delete(s.docs, id)
	case !there || s.defect == "marker moves":
		s.put(id, s.codec.Marker())
	}
	return nil
}

func (s *documentStore) Create(_ context.Context, l lease.Lease) (lease.Lease, error) {
	if _, err := s.codec.New(l); err != nil && s.defect != "any form accepted" {
		return lease.Lease{}, err
	}
	id := s.codec.LeaseID(l.Token)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.docs[id]; there && s.defect != "create overwrites" {
		return lease.Lease{}, s.conflict(id, l)
	}
	return s.write(id, l)
}

func (s *documentStore) write(id string, l lease.Lease) (lease.Lease, error) {
	if s.defect != "container left out" {
		l = s.codec.Stamped(l)
	}
	body := s.codec.Encode(l)
	if !json.Valid(body) {
		return lease.Lease{}, fmt.Errorf("invalid document %s", body)
	}
	doc := s.put(id, body)
	if s.defect == "old etag in the answer" {
		doc.etag = l.ETag
	}
	written, err := s.decode(doc)
	if written.Range.IsZero() {
		written.Range = l.Range
	}
	return written, err
}

func (s *documentStore) conflict(id string, l lease.Lease) error {
	current, err := s.decode(s.docs[id])
	if err != nil {
		return err
	}
	if s.defect == "conflict without document" {
		current = lease.Lease{}
	}
	if s.defect == "range of a conflict left out" {
		return &lease.ConflictError{Current: current}
	}
	return l.Conflict(current)
}

// check returns the error of a write of l: there is no document with that id, or it has
// another ETag. The caller holds the lock.
func (s *documentStore) check(id string, l lease.Lease) error {
	doc, there := s.docs[id]
	if !there {
		return feed.ErrNotFound
	}
	if doc.etag != l.ETag {
		return s.conflict(id, l)
	}
	return nil
}

func (s *documentStore) Update(_ context.Context, l lease.Lease) (lease.Lease, error) {
	id := s.codec.LeaseID(l.Token)
	if s.defect == "check and write apart" {
		s.mu.Lock()
		err := s.check(id, l)
		s.mu.Unlock()
		if err != nil {
			return lease.Lease{}, err
		}
		time.Sleep(time.Microsecond) // waits only in a run with this defect, in a bubble
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.write(id, l)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(id, l); err != nil && s.defect != "update unconditional" {
		return lease.Lease{}, err
	}
	return s.write(id, l)
}

func (s *documentStore) Delete(_ context.Context, l lease.Lease) error {
	id := s.codec.LeaseID(l.Token)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(id, l); err != nil && s.defect != "delete unconditional" {
		return err
	}
	delete(s.docs, id)
	return nil
}

// defects names all defects that a documents container can have.
var defects = []string{
	"etag stays", "etag of the content", "etags numbered per document", "modified in fractions", "never stamped again", "unknown members dropped",
	"properties dropped", "clock stopped", "other processors listed", "listing ends after a page", "unmark without a marker fails",
	"marker moves", "create overwrites", "old etag in the answer", "conflict without document", "check and write apart",
	"update unconditional", "delete unconditional", "other dialects ignored", "any form accepted",
	"range of a conflict left out", "container left out",
}

func newDocuments(t *testing.T, dialect lease.Dialect, defect string) *documents {
	t.Helper()
	return &documents{dialect: dialect, defect: defect, clock: time.Now, docs: map[string]stored{}}
}

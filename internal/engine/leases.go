package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/storetype"
)

// Leases implements store.DB.Leases, which documents it.
func (db *DB) Leases(c *Container) Leases { return Leases{db: db, c: c} }

// Leases is a [lease.Container]. [DB.Leases] returns it. It is safe for concurrent use.
type Leases struct {
	db      *DB
	c       *Container
	dialect lease.Dialect
}

// In implements store.Leases.In, which documents it.
func (l Leases) In(d lease.Dialect) Leases {
	l.dialect = d
	return l
}

// Dialect returns the dialect of the lease documents.
func (l Leases) Dialect() lease.Dialect { return l.dialect }

// Open implements [lease.Container].
func (l Leases) Open(ctx context.Context, k lease.Key) (lease.Store, error) {
	p, err := l.c.Properties(ctx)
	if err != nil {
		return nil, fmt.Errorf("open lease container: %w", err)
	}
	keyed, err := lease.CheckContainer(p.ID, p.KeyPaths, p.SystemKey, p.DefaultTTL)
	if err != nil {
		return nil, err
	}
	codec, err := lease.NewCodec(l.dialect, k, keyed)
	if err != nil {
		return nil, fmt.Errorf("open lease container: %w", err)
	}
	return &leaseStore{db: l.db, c: l.c, codec: codec}, nil
}

// leaseStore holds the leases of one processor.
type leaseStore struct {
	db    *DB
	c     *Container
	codec lease.Codec
	Charges
}

var _ feed.Identifier = (*leaseStore)(nil)

// ContainerID implements [feed.Identifier].
func (s *leaseStore) ContainerID(context.Context) (feed.ContainerID, error) {
	return s.c.containerID(), nil
}

// SetInitialized implements [lease.Store].
func (s *leaseStore) SetInitialized(ctx context.Context, initialised bool) error {
	if initialised {
		res, err := s.c.Create(ctx, nil, s.codec.Marker(), storetype.WriteOptions{})
		s.Add(res.Charge)
		if err != nil && !errors.Is(err, storetype.ErrConflict) {
			return fmt.Errorf("create the marker: %w", err)
		}
		return nil
	}
	id := s.codec.MarkerID()
	res, err := s.c.Delete(ctx, s.keyOf(id), id, storetype.WriteOptions{})
	s.Add(res.Charge)
	if err != nil && !errors.Is(err, feed.ErrNotFound) {
		return fmt.Errorf("delete the marker: %w", err)
	}
	return nil
}

// Create implements [lease.Store].
func (s *leaseStore) Create(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	l, err := s.codec.New(l)
	if err != nil {
		return lease.Lease{}, fmt.Errorf("create lease: %w", err)
	}
	res, err := s.c.Create(ctx, nil, s.codec.Encode(l), storetype.WriteOptions{})
	s.Add(res.Charge)
	switch {
	case errors.Is(err, storetype.ErrConflict):
		return lease.Lease{}, s.conflict(ctx, l)
	case err != nil:
		return lease.Lease{}, fmt.Errorf("create lease %s: %w", l.Token, err)
	}
	return written(l, res.Item), nil
}

// Update implements [lease.Store]. The condition is checked during the write. So a
// conflict returns the current document without a second request.
func (s *leaseStore) Update(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	l = s.codec.Stamped(l)
	var conflict *lease.ConflictError
	res, err := s.c.Change(ctx, s.key(l), l.ID, func(old []byte) ([]byte, error) {
		if etag, err := publicETag(old); err == nil && etag == l.ETag {
			return s.codec.Encode(l), nil
		}
		current, err := s.codec.Decode(old)
		if err != nil {
			return nil, err
		}
		return nil, l.Conflict(current)
	}, storetype.WriteOptions{})
	s.Add(res.Charge)
	switch {
	case errors.As(err, &conflict):
		return lease.Lease{}, conflict
	case err != nil:
		return lease.Lease{}, fmt.Errorf("update lease %s: %w", l.Token, err)
	}
	return written(l, res.Item), nil
}

// Delete implements [lease.Store].
func (s *leaseStore) Delete(ctx context.Context, l lease.Lease) error {
	res, err := s.c.Delete(ctx, s.key(l), l.ID, storetype.WriteOptions{IfMatch: l.ETag})
	s.Add(res.Charge)
	switch {
	case errors.Is(err, storetype.ErrPreconditionFailed):
		return s.conflict(ctx, l)
	case err != nil:
		return fmt.Errorf("delete lease %s: %w", l.Token, err)
	}
	return nil
}

// conflict reads the document that refused a write, and returns the conflict.
func (s *leaseStore) conflict(ctx context.Context, l lease.Lease) error {
	res, err := s.c.Read(ctx, s.key(l), l.ID, storetype.ReadOptions{})
	s.Add(res.Charge)
	if err != nil {
		return fmt.Errorf("read lease %s after a conflict: %w", l.Token, err)
	}
	current, err := s.codec.Decode(res.Body)
	if err != nil {
		return fmt.Errorf("lease %s: %w", l.Token, err)
	}
	return l.Conflict(current)
}

// key returns the partition key of a lease's document.
func (s *leaseStore) key(l lease.Lease) feed.PartitionKey { return s.keyOf(s.codec.PartitionKey(l)) }

// keyOf returns the partition key of a document. value is its value in a container that is
// partitioned by /id or /partitionKey.
func (s *leaseStore) keyOf(value string) feed.PartitionKey {
	if s.c.systemKey {
		return feed.PartitionKey{feed.Undefined}
	}
	return feed.PartitionKey{value}
}

// written returns l with the ETag and the time of the write.
func written(l lease.Lease, item storetype.Item) lease.Lease {
	l.ETag, l.Modified = item.ETag, item.Modified
	return l
}

// List implements [lease.Store]. Ids are sorted by hash, so a seek cannot find the
// leases. List reads the whole index, about 100 bytes an item, and the documents of the
// leases.
func (s *leaseStore) List(ctx context.Context) (lease.Listing, error) {
	listing, size, err := s.list(ctx)
	if err != nil {
		return lease.Listing{}, fmt.Errorf("list leases: %w", err)
	}
	s.c.spend(readCharge(size))
	s.Add(readCharge(size))
	return listing, nil
}

func (s *leaseStore) list(ctx context.Context) (listing lease.Listing, size int, err error) {
	if err := s.c.admit(ctx); err != nil {
		return listing, 0, err
	}
	v, st, err := s.c.open(ctx)
	if err != nil {
		return listing, 0, err
	}
	defer v.release()
	listing.Now = s.db.Now()
	marker := []byte(s.codec.MarkerID())
	var prefixes [][]byte
	for _, prefix := range s.codec.Prefixes() {
		prefixes = append(prefixes, []byte(prefix))
	}
	var document []byte
	err = s.c.scanAll(ctx, v, nil, func(i *indexed) (more bool, err error) {
		id := i.id()
		isLease := slices.ContainsFunc(prefixes, func(p []byte) bool { return bytes.HasPrefix(id, p) })
		if !isLease && !bytes.Equal(id, marker) ||
			layout.Expired(i.TS, int32(st.meta.props.DefaultTTL), i.TTL, listing.Now.Unix()) {
			return true, nil
		}
		document = document[:0]
		if isLease {
			if document, err = s.c.fetch(v.snap, document, i.Entry, i.pointBytes()); err != nil {
				return false, err
			}
		}
		s.codec.List(&listing, string(id), unixTime(i.TS), document)
		size += len(document)
		return true, nil
	})
	return listing, size, err
}

// OtherHosts returns the other account hosts under which the container has leases of this
// processor; see [lease.Store].
func (s *leaseStore) OtherHosts(ctx context.Context) ([]string, error) {
	if err := s.c.admit(ctx); err != nil {
		return nil, err
	}
	v, _, err := s.c.open(ctx)
	if err != nil {
		return nil, err
	}
	defer v.release()
	var ids []string
	err = s.c.scanAll(ctx, v, nil, func(i *indexed) (bool, error) {
		if bytes.HasPrefix(i.id(), []byte(s.codec.Processor())) {
			ids = append(ids, string(i.id()))
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return s.codec.OtherHosts(ids), nil
}

// publicETag returns the ETag of a document as a point read returns it.
func publicETag(document []byte) (string, error) {
	if len(document) == 0 || document[len(document)-1] != '}' {
		return "", layout.ErrTail
	}
	rest, _, err := layout.CutNumber(document[:len(document)-1], layout.TailTS)
	if err != nil || len(rest) < layout.ETagSize {
		return "", layout.ErrTail
	}
	return `"` + string(rest[len(rest)-layout.ETagSize:]) + `"`, nil
}

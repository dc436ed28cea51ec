package cosmos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/follow"
	"github.com/changefeed-go/changefeed/internal/rest"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/lease"
)

// leaseStore implements lease.Store for the leases of one processor in a lease container.
type leaseStore struct {
	*Leases
	codec lease.Codec
	// rid is the rid of the lease container.
	rid string
	// systemKey reports whether the container was created without a partition key. Its
	// documents have none, so all requests have the header [wire.NoKey].
	systemKey bool
	documentClient
}

// ContainerID implements [feed.Identifier].
func (s *leaseStore) ContainerID(ctx context.Context) (feed.ContainerID, error) {
	account, err := s.account.client.accountName(ctx)
	return feed.ContainerID{Account: account, RID: s.rid}, err
}

// document returns a call on the document of a lease or of the marker. key is its partition
// key, and id its id; a create has none.
func (s *leaseStore) document(span, op, method, key, id string) *call {
	q := &call{span: "Leases." + span, op: op, method: method, path: s.path() + "/docs", kind: kindLeaseWrite, header: http.Header{}}
	if id != "" {
		q.path += "/" + url.PathEscape(id)
	}
	if s.systemKey {
		q.header.Set(wire.HeaderPartitionKey, wire.NoKey)
	} else {
		q.header.Set(wire.HeaderPartitionKey, wire.ASCII(feed.PartitionKey{key}.String()))
	}
	return q
}

// listPage is the maximum number of documents in a page of a listing.
const listPage = 1000

// query sends a query over all partitions and calls visit with each document. The first
// response's date is now.
func (s *leaseStore) query(ctx context.Context, op, text string, parameters []rest.Parameter, visit func(document json.RawMessage) error) (now time.Time, err error) {
	q := rest.Query{Operation: op, Path: s.path(), Text: text, Parameters: parameters, PageSize: listPage}
	for page, err := range q.Pages(ctx, s.sendQuery) {
		if err != nil {
			return now, err
		}
		if now.IsZero() {
			now = dateOf(page.Header)
		}
		for _, document := range page.Documents {
			if err := visit(document); err != nil {
				return now, fmt.Errorf("%s: a document of the response: %w", op, err)
			}
		}
	}
	return now, nil
}

// sendQuery requests one page of a query.
func (s *leaseStore) sendQuery(ctx context.Context, r rest.Request) (rest.Response, error) {
	q := &call{span: "Leases.Query", op: r.Operation, method: r.Method, path: r.Path, kind: kindLeaseList, body: r.Body, header: r.Header}
	a, err := s.send(ctx, q)
	if err == nil && a.failure != nil {
		err = s.failure(q, actionQuery, a)
	}
	if err != nil {
		return rest.Response{}, err
	}
	return rest.Response{Header: a.header, Body: a.body}, nil
}

// listQuery returns a query for the leases of the processor in all dialects, and for its
// marker. It matches ids with one of a few prefixes, each of which is a range of the
// index. The marker has the prefix of the leases up to the second dot.
func listQuery(c lease.Codec) (text string, parameters []rest.Parameter) {
	var conditions []string
	for i, prefix := range c.Prefixes() {
		if i == 0 {
			prefix = strings.TrimSuffix(prefix, ".")
		}
		name := "@p" + strconv.Itoa(i)
		conditions = append(conditions, "STARTSWITH(c.id, "+name+")")
		parameters = append(parameters, rest.Parameter{Name: name, Value: prefix})
	}
	return "SELECT * FROM c WHERE " + strings.Join(conditions, " OR "), parameters
}

// List implements [lease.Store]. The listing's Now is the Date of the first page's
// response, in whole seconds like _ts. So it is earlier than everything in the listing.
func (s *leaseStore) List(ctx context.Context) (lease.Listing, error) {
	var listing lease.Listing
	text, parameters := listQuery(s.codec)
	now, err := s.query(ctx, "list leases", text, parameters, func(document json.RawMessage) error {
		var m struct {
			ID string `json:"id"`
			TS int64  `json:"_ts"`
		}
		if err := json.Unmarshal(document, &m); err != nil {
			return err
		}
		s.codec.List(&listing, m.ID, time.Unix(m.TS, 0).UTC(), document)
		return nil
	})
	if err != nil {
		return lease.Listing{}, err
	}
	listing.Now = now
	return listing, nil
}

// OtherHosts returns the other account hosts under which the container has leases of this
// processor; see [lease.Store].
func (s *leaseStore) OtherHosts(ctx context.Context) ([]string, error) {
	var ids []string
	_, err := s.query(ctx, "look for leases under other account hosts", "SELECT c.id FROM c WHERE STARTSWITH(c.id, @processor)",
		[]rest.Parameter{{Name: "@processor", Value: s.codec.Processor()}}, func(document json.RawMessage) error {
			var m struct {
				ID string `json:"id"`
			}
			if err := json.Unmarshal(document, &m); err != nil {
				return err
			}
			ids = append(ids, m.ID)
			return nil
		})
	if err != nil {
		return nil, err
	}
	return s.codec.OtherHosts(ids), nil
}

// SetInitialized implements [lease.Store].
func (s *leaseStore) SetInitialized(ctx context.Context, initialised bool) error {
	id := s.codec.MarkerID()
	if !initialised {
		q := s.document("DeleteMarker", "delete the marker", http.MethodDelete, id, id)
		a, err := s.send(ctx, q)
		if err != nil {
			return err
		}
		if err := s.missed(ctx, q, actionDelete, a); !errors.Is(err, feed.ErrNotFound) {
			return err
		}
		return nil
	}
	q := s.document("CreateMarker", "create the marker", http.MethodPost, id, "")
	q.body = s.codec.Marker()
	q.header.Set("Prefer", "return=minimal")
	a, err := s.send(ctx, q)
	if err != nil {
		return err
	}
	if a.failure != nil && a.status != http.StatusConflict {
		return s.failure(q, actionCreate, a)
	}
	return nil
}

// Create implements [lease.Store].
func (s *leaseStore) Create(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	l, err := s.codec.New(l)
	if err != nil {
		return lease.Lease{}, fmt.Errorf("create lease: %w", err)
	}
	q := s.document("CreateLease", "create lease "+l.Token, http.MethodPost, s.codec.PartitionKey(l), "")
	q.body = s.codec.Encode(l)
	a, err := s.send(ctx, q)
	switch {
	case err != nil:
		return lease.Lease{}, err
	case a.status == http.StatusConflict:
		return s.refused(ctx, l, q, a)
	case a.failure != nil:
		return lease.Lease{}, s.failure(q, actionCreate, a)
	}
	return written(l, a), nil
}

// Update implements [lease.Store].
func (s *leaseStore) Update(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	l = s.codec.Stamped(l)
	q := s.document("UpdateLease", "update lease "+l.Token, http.MethodPut, s.codec.PartitionKey(l), l.ID)
	q.body = s.codec.Encode(l)
	if l.ETag != "" {
		q.header.Set("If-Match", l.ETag)
	}
	a, err := s.send(ctx, q)
	switch {
	case err != nil:
		return lease.Lease{}, err
	case a.status == http.StatusPreconditionFailed:
		return s.refused(ctx, l, q, a)
	case a.failure != nil:
		return lease.Lease{}, s.missed(ctx, q, actionReplace, a)
	}
	return written(l, a), nil
}

// Delete implements [lease.Store].
func (s *leaseStore) Delete(ctx context.Context, l lease.Lease) error {
	q := s.document("DeleteLease", "delete lease "+l.Token, http.MethodDelete, s.codec.PartitionKey(l), l.ID)
	if l.ETag != "" {
		q.header.Set("If-Match", l.ETag)
	}
	a, err := s.send(ctx, q)
	if err != nil {
		return err
	}
	if a.status == http.StatusPreconditionFailed {
		_, err := s.refused(ctx, l, q, a)
		return err
	}
	return s.missed(ctx, q, actionDelete, a)
}

// written returns l as the service has stored it.
func written(l lease.Lease, a *answer) lease.Lease {
	var m struct {
		TS int64 `json:"_ts"`
	}
	l.ETag = a.header.Get("Etag")
	if json.Unmarshal(a.body, &m) == nil && m.TS > 0 {
		l.Modified = time.Unix(m.TS, 0).UTC()
	} else { // the service did not return the document, although it was asked to
		l.Modified = a.date().Truncate(time.Second)
	}
	return l
}

var errStale = errors.New("the write found another document, and a read returned the expected one; the outcome is unknown")

// refused reads the document that refused a write and returns it in a conflict. If the
// write was sent more than once, the stored document may be the sent one. Then the write
// succeeded.
func (s *leaseStore) refused(ctx context.Context, l lease.Lease, write *call, refusal *answer) (lease.Lease, error) {
	q := s.document("ReadLease", "read lease "+l.Token+", which another write changed", http.MethodGet, s.codec.PartitionKey(l), l.ID)
	q.kind = kindLeaseRead
	// Another replica might return the document as it was before the other write. The
	// session token of the refusal prevents that.
	if session := refusal.header.Get(wire.HeaderSessionToken); session != "" {
		q.header.Set(wire.HeaderSessionToken, session)
	}
	a, err := s.readPatiently(ctx, q)
	if err == nil {
		err = s.missed(ctx, q, actionRead, a)
	}
	switch {
	case err != nil && write.again():
		return lease.Lease{}, inDoubt(err)
	case err != nil:
		return lease.Lease{}, err
	}
	current, err := s.codec.Decode(a.body)
	switch {
	case err != nil:
		return lease.Lease{}, fmt.Errorf("lease %s: %w", l.Token, err)
	case current.ETag == l.ETag: // the document is unchanged, so a refused update or delete contradicts it
		return lease.Lease{}, fmt.Errorf("lease %s: %w", l.Token, errStale)
	case write.again() && write.body != nil && bytes.Equal(s.codec.Encode(current), write.body):
		return current, nil
	}
	return lease.Lease{}, l.Conflict(current)
}

// readPatiently reads a lease's document and repeats a throttled read until ctx ends. If
// it returned the 429 instead, the caller would write again. A refused write costs as
// much as a successful one. So in a container with too few request units the read would
// never succeed.
func (s *leaseStore) readPatiently(ctx context.Context, q *call) (*answer, error) {
	for {
		a, err := s.send(ctx, q)
		if err != nil || a.status != http.StatusTooManyRequests {
			return a, err
		}
		if follow.Sleep(ctx, max(a.wait(), leastPause)) != nil {
			return a, nil
		}
	}
}

// leastPause is the minimum pause after a throttled read. The service usually requests a
// longer one.
const leastPause = 10 * time.Millisecond

var (
	_ lease.Store     = (*leaseStore)(nil)
	_ feed.Identifier = (*leaseStore)(nil)
)

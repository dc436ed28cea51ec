package cosmos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/lease"
)

// leaseStore are the leases of one processor.
type leaseStore struct {
	leases *Leases
	codec  lease.Codec
	// rid is the container's.
	rid string
	// presence tells a missing document from a missing container.
	presence *presence

	mu      sync.Mutex // guards charged
	charged float64
}

// Charged implements [lease.Store].
func (s *leaseStore) Charged() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.charged
}

// ContainerID implements [feed.Identifier].
func (s *leaseStore) ContainerID(ctx context.Context) (feed.ContainerID, error) {
	account, err := s.leases.documents.account.client.accountName(ctx)
	return feed.ContainerID{Account: account, RID: s.rid}, err
}

// listPage is how many documents a page of a listing has at most.
const listPage = 1000

// listQuery finds the leases of the processor, in whatever dialect, and its marker: ids that begin with one of few
// texts, each a range of the index. The marker begins as the leases do, up to the second dot.
func listQuery(c lease.Codec) (text string, parameters []azcosmos.QueryParameter) {
	var conditions []string
	for i, prefix := range c.Prefixes() {
		if i == 0 {
			prefix = strings.TrimSuffix(prefix, ".")
		}
		name := "@p" + strconv.Itoa(i)
		conditions = append(conditions, "STARTSWITH(c.id, "+name+")")
		parameters = append(parameters, azcosmos.QueryParameter{Name: name, Value: prefix})
	}
	return "SELECT * FROM c WHERE " + strings.Join(conditions, " OR "), parameters
}

// List implements [lease.Store]. The service's clock is the Date of the first page's answer, so it is that of
// a moment before all that the listing shows; to the second, as _ts is.
func (s *leaseStore) List(ctx context.Context) (lease.Listing, error) {
	var listing lease.Listing
	query, parameters := listQuery(s.codec)
	o := &azcosmos.QueryOptions{PageSizeHint: listPage, QueryParameters: parameters}
	for first := true; first || o.ContinuationToken != nil; first = false {
		var page azcosmos.QueryItemsResponse
		_, err := s.call(ctx, kindLeaseList, "", func(ctx context.Context, c *azcosmos.ContainerClient) (_ azcosmos.Response, err error) {
			// A pager makes one request a page, and each is let through by the budget.
			page, err = c.NewQueryItemsPager(query, azcosmos.NewPartitionKey(), o).NextPage(ctx)
			return page.Response, err
		})
		if err != nil {
			return lease.Listing{}, s.failure("list leases", actionQuery, err)
		}
		if first {
			listing.Now = dateOf(page.RawResponse)
		}
		for _, document := range page.Items {
			var m struct {
				ID string `json:"id"`
				TS int64  `json:"_ts"`
			}
			if err := json.Unmarshal(document, &m); err != nil {
				return lease.Listing{}, fmt.Errorf("list leases: a document of the answer: %w", err)
			}
			s.codec.List(&listing, m.ID, time.Unix(m.TS, 0).UTC(), document)
		}
		o.ContinuationToken = page.ContinuationToken
	}
	return listing, nil
}

// dateOf is the time of an answer by the service's clock, zero when it doesn't say.
func dateOf(answer *http.Response) time.Time {
	if answer == nil {
		return time.Time{}
	}
	t, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// Mark implements [lease.Store].
func (s *leaseStore) Mark(ctx context.Context, initialised bool) error {
	id := s.codec.MarkerID()
	if initialised {
		_, err := s.call(ctx, kindLeaseWrite, id, func(ctx context.Context, c *azcosmos.ContainerClient) (azcosmos.Response, error) {
			res, err := c.CreateItem(ctx, azcosmos.NewPartitionKeyString(id), s.codec.Marker(), nil)
			return res.Response, err
		})
		if code, _ := status(err); err != nil && code != http.StatusConflict {
			return s.failure("create the marker", actionCreate, err)
		}
		return nil
	}
	_, err := s.call(ctx, kindLeaseWrite, id, func(ctx context.Context, c *azcosmos.ContainerClient) (azcosmos.Response, error) {
		res, err := c.DeleteItem(ctx, azcosmos.NewPartitionKeyString(id), id, nil)
		return res.Response, err
	})
	if err = s.missed(ctx, "delete the marker", actionDelete, err); !errors.Is(err, feed.ErrNotFound) {
		return err
	}
	return nil
}

// Create implements [lease.Store].
func (s *leaseStore) Create(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	l, err := s.codec.New(l)
	if err != nil {
		return lease.Lease{}, fmt.Errorf("create lease: %w", err)
	}
	body, key := s.codec.Encode(l), s.codec.PartitionKey(l)
	var res azcosmos.ItemResponse
	x, err := s.call(ctx, kindLeaseWrite, key, func(ctx context.Context, c *azcosmos.ContainerClient) (_ azcosmos.Response, err error) {
		res, err = c.CreateItem(ctx, azcosmos.NewPartitionKeyString(key), body, withContent(""))
		return res.Response, err
	})
	if code, _ := status(err); code == http.StatusConflict {
		return s.refused(ctx, l, body, x, err)
	}
	if err != nil {
		return lease.Lease{}, s.failure("create lease "+l.Token, actionCreate, err)
	}
	return written(l, res), nil
}

// Update implements [lease.Store].
func (s *leaseStore) Update(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	l = s.codec.Stamped(l)
	body, key := s.codec.Encode(l), s.codec.PartitionKey(l)
	var res azcosmos.ItemResponse
	x, err := s.call(ctx, kindLeaseWrite, key, func(ctx context.Context, c *azcosmos.ContainerClient) (_ azcosmos.Response, err error) {
		res, err = c.ReplaceItem(ctx, azcosmos.NewPartitionKeyString(key), l.ID, body, withContent(l.ETag))
		return res.Response, err
	})
	if code, _ := status(err); code == http.StatusPreconditionFailed {
		return s.refused(ctx, l, body, x, err)
	}
	if err != nil {
		return lease.Lease{}, s.missed(ctx, "update lease "+l.Token, actionReplace, err)
	}
	return written(l, res), nil
}

// Delete implements [lease.Store].
func (s *leaseStore) Delete(ctx context.Context, l lease.Lease) error {
	key := s.codec.PartitionKey(l)
	x, err := s.call(ctx, kindLeaseWrite, key, func(ctx context.Context, c *azcosmos.ContainerClient) (azcosmos.Response, error) {
		res, err := c.DeleteItem(ctx, azcosmos.NewPartitionKeyString(key), l.ID, withContent(l.ETag))
		return res.Response, err
	})
	if code, _ := status(err); code == http.StatusPreconditionFailed {
		_, err := s.refused(ctx, l, nil, x, err)
		return err
	}
	return s.missed(ctx, "delete lease "+l.Token, actionDelete, err)
}

// withContent asks for the document in the answer, for its _ts, and for the write to be refused when the
// document's ETag is another one.
func withContent(etag string) *azcosmos.ItemOptions {
	o := &azcosmos.ItemOptions{EnableContentResponseOnWrite: true}
	if etag != "" {
		match := azcore.ETag(etag)
		o.IfMatchEtag = &match
	}
	return o
}

// written is l as the service has it now.
func written(l lease.Lease, res azcosmos.ItemResponse) lease.Lease {
	var m struct {
		TS int64 `json:"_ts"`
	}
	l.ETag = string(res.ETag)
	if json.Unmarshal(res.Value, &m) == nil && m.TS > 0 {
		l.Modified = time.Unix(m.TS, 0).UTC()
	} else { // a service that was asked for the document and doesn't send it
		l.Modified = dateOf(res.RawResponse).Truncate(time.Second)
	}
	return l
}

var errStale = errors.New("its document is another than expected, and a read shows it as it was before; the outcome isn't known")

// refused reads the document that stood in the way of a write, which is what a conflict carries. sent is the
// document that was to be written, nil for a delete. When azcosmos had sent it more than once, what
// stands there may be that very document: then the write has succeeded.
func (s *leaseStore) refused(ctx context.Context, l lease.Lease, sent []byte, x *exchange, cause error) (lease.Lease, error) {
	o := &azcosmos.ItemOptions{}
	// The read may be answered by a replica that the other write hasn't reached yet; a session that has seen it may not.
	if session := headerOf(cause).Get(wire.HeaderSessionToken); session != "" {
		o.SessionToken = &session
	}
	res, err := s.readPatiently(ctx, l, o)
	op := "read lease " + l.Token + ", which is another than expected"
	switch {
	case err != nil && x.again():
		// Not "throttled", which would say that nothing was written.
		return lease.Lease{}, fmt.Errorf("%s: %v", op, err) //nolint:errorlint // see above
	case err != nil:
		return lease.Lease{}, s.missed(ctx, op, actionRead, err)
	}
	current, err := s.codec.Decode(res.Value)
	switch {
	case err != nil:
		return lease.Lease{}, fmt.Errorf("lease %s: %w", l.Token, err)
	case current.ETag == l.ETag: // of an update or delete that found another one
		return lease.Lease{}, fmt.Errorf("lease %s: %w", l.Token, errStale)
	case x.again() && sent != nil && bytes.Equal(s.codec.Encode(current), sent):
		return current, nil
	}
	return lease.Lease{}, l.Conflict(current)
}

// readPatiently reads a lease's document, and again when that is throttled, as long as ctx lasts. To give up would mean to begin with
// the write again; and a refused write costs as much as one that is carried out, so in a container that is short of request units
// the read would never have its turn.
func (s *leaseStore) readPatiently(ctx context.Context, l lease.Lease, o *azcosmos.ItemOptions) (res azcosmos.ItemResponse, err error) {
	key := s.codec.PartitionKey(l)
	for {
		_, err = s.call(ctx, kindLeaseRead, key, func(ctx context.Context, c *azcosmos.ContainerClient) (_ azcosmos.Response, err error) {
			res, err = c.ReadItem(ctx, azcosmos.NewPartitionKeyString(key), l.ID, o)
			return res.Response, err
		})
		if code, _ := status(err); code != http.StatusTooManyRequests {
			return res, err
		}
		timer := time.NewTimer(max(waitOf(headerOf(err)), leastPause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return res, err
		}
	}
}

// leastPause is how long a throttled read waits at least; the service mostly says so itself.
const leastPause = 10 * time.Millisecond

// call makes a call on a document, or a query when key is empty, and counts its charge.
func (s *leaseStore) call(ctx context.Context, kind requestKind, key string,
	do func(ctx context.Context, c *azcosmos.ContainerClient) (azcosmos.Response, error),
) (*exchange, error) {
	x, charge, err := s.leases.documents.call(ctx, kind, key, do)
	s.mu.Lock()
	s.charged += charge
	s.mu.Unlock()
	if code, _ := status(err); code == http.StatusTooManyRequests && x.again() && kind == kindLeaseWrite {
		// "Throttled" would say that nothing was written, which is true of the last attempt alone.
		err = fmt.Errorf("%v", err) //nolint:errorlint // see above
	}
	return x, err
}

func (s *leaseStore) failure(op, action string, err error) error {
	return s.leases.documents.failure(op, action, err)
}

// missed is failure for a request for one document; nil stays nil. It returns feed.ErrNotFound when the document
// does not exist and its container does. Without the second look the owners of all leases of a container that was
// deleted would take each lease for deleted, and put it back.
func (s *leaseStore) missed(ctx context.Context, op, action string, err error) error {
	switch {
	case err == nil:
		return nil
	case !isAbsent(err):
		return s.failure(op, action, err)
	}
	there, confirmErr := s.presence.confirm(ctx)
	switch {
	case confirmErr != nil:
		// The error is not wrapped: "throttled" would mean that nothing was written.
		return fmt.Errorf("%s: not found, and %s cannot be read to tell whether the lease or the container is missing: %s", op,
			s.leases.documents.what(), confirmErr.Error())
	case !there:
		return s.failure(op, action, err)
	}
	return fmt.Errorf("%s: %w", op, feed.ErrNotFound)
}

var (
	_ lease.Store     = (*leaseStore)(nil)
	_ feed.Identifier = (*leaseStore)(nil)
)

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

// leaseStore implements lease.Store for the leases of one processor in a lease container.
type leaseStore struct {
	leases *Leases
	codec  lease.Codec
	// rid is the rid of the lease container.
	rid string
	// presence distinguishes a missing document from a missing container.
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

// listPage is the maximum number of documents in a page of a listing.
const listPage = 1000

// listQuery returns a query for the leases of the processor in all dialects, and for its
// marker. It matches ids with one of a few prefixes, each of which is a range of the
// index. The marker has the prefix of the leases up to the second dot.
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

// List implements [lease.Store]. The listing's Now is the Date of the first page's
// response, in whole seconds like _ts. So it is earlier than everything in the listing.
func (s *leaseStore) List(ctx context.Context) (lease.Listing, error) {
	var listing lease.Listing
	query, parameters := listQuery(s.codec)
	o := &azcosmos.QueryOptions{PageSizeHint: listPage, QueryParameters: parameters}
	for first := true; first || o.ContinuationToken != nil; first = false {
		var page azcosmos.QueryItemsResponse
		_, err := s.call(ctx, kindLeaseList, "", func(ctx context.Context, c *azcosmos.ContainerClient) (_ azcosmos.Response, err error) {
			// This pager sends one request for one page, so that the budget admits each
			// page.
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
				return lease.Listing{}, fmt.Errorf("list leases: a document of the response: %w", err)
			}
			s.codec.List(&listing, m.ID, time.Unix(m.TS, 0).UTC(), document)
		}
		o.ContinuationToken = page.ContinuationToken
	}
	return listing, nil
}

// dateOf returns the time of a response by the service's clock. It is zero if the
// response has no date.
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

// withContent returns the options of a conditional write. The response contains the
// document, for its _ts. The write is refused if the document has another ETag.
func withContent(etag string) *azcosmos.ItemOptions {
	o := &azcosmos.ItemOptions{EnableContentResponseOnWrite: true}
	if etag != "" {
		match := azcore.ETag(etag)
		o.IfMatchEtag = &match
	}
	return o
}

// written returns l as the service has stored it.
func written(l lease.Lease, res azcosmos.ItemResponse) lease.Lease {
	var m struct {
		TS int64 `json:"_ts"`
	}
	l.ETag = string(res.ETag)
	if json.Unmarshal(res.Value, &m) == nil && m.TS > 0 {
		l.Modified = time.Unix(m.TS, 0).UTC()
	} else { // the service did not return the document, although it was asked to
		l.Modified = dateOf(res.RawResponse).Truncate(time.Second)
	}
	return l
}

var errStale = errors.New("the write found another document, and a read returned the expected one; the outcome is unknown")

// refused reads the document that refused a write and returns it in a conflict. sent is
// the document that was to be written, or nil for a delete. If azcosmos sent the write
// more than once, the stored document may be the sent one. Then the write succeeded.
func (s *leaseStore) refused(ctx context.Context, l lease.Lease, sent []byte, x *exchange, cause error) (lease.Lease, error) {
	o := &azcosmos.ItemOptions{}
	// Another replica might return the document as it was before the other write. The
	// session token of the refusal prevents that.
	if session := headerOf(cause).Get(wire.HeaderSessionToken); session != "" {
		o.SessionToken = &session
	}
	res, err := s.readPatiently(ctx, l, o)
	op := "read lease " + l.Token + ", which another write changed"
	switch {
	case err != nil && x.again():
		// The error must not wrap a ThrottledError, which would mean that nothing was
		// written.
		return lease.Lease{}, fmt.Errorf("%s: %v", op, err) //nolint:errorlint // see above
	case err != nil:
		return lease.Lease{}, s.missed(ctx, op, actionRead, err)
	}
	current, err := s.codec.Decode(res.Value)
	switch {
	case err != nil:
		return lease.Lease{}, fmt.Errorf("lease %s: %w", l.Token, err)
	case current.ETag == l.ETag: // the document is unchanged, so a refused update or delete contradicts it
		return lease.Lease{}, fmt.Errorf("lease %s: %w", l.Token, errStale)
	case x.again() && sent != nil && bytes.Equal(s.codec.Encode(current), sent):
		return current, nil
	}
	return lease.Lease{}, l.Conflict(current)
}

// readPatiently reads a lease's document and repeats a throttled read until ctx ends. If
// it returned the 429 instead, the caller would write again. A refused write costs as
// much as a successful one. So in a container with too few request units the read would
// never succeed.
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

// leastPause is the minimum pause after a throttled read. The service usually requests a
// longer one.
const leastPause = 10 * time.Millisecond

// call executes a call on a document, or a query if key is empty, and adds its charge.
func (s *leaseStore) call(ctx context.Context, kind requestKind, key string,
	do func(ctx context.Context, c *azcosmos.ContainerClient) (azcosmos.Response, error),
) (*exchange, error) {
	x, charge, err := s.leases.documents.call(ctx, kind, key, do)
	s.mu.Lock()
	s.charged += charge
	s.mu.Unlock()
	if code, _ := status(err); code == http.StatusTooManyRequests && x.again() && kind == kindLeaseWrite {
		// The error must not be a ThrottledError, which would mean that nothing was
		// written. That is certain only of the last attempt.
		err = fmt.Errorf("%v", err) //nolint:errorlint // see above
	}
	return x, err
}

func (s *leaseStore) failure(op, action string, err error) error {
	return s.leases.documents.failure(op, action, err)
}

// missed converts the error of a request for one document, as failure does. It returns
// feed.ErrNotFound only if the document does not exist and its container does. After the
// deletion of the container, the owners of its leases would otherwise treat each lease as
// deleted and put it back. For nil it returns nil.
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
		// Do not wrap the error: a ThrottledError would mean that nothing was written.
		return fmt.Errorf("%s: not found, and %s cannot be read to check whether the lease or the container is missing: %s", op,
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

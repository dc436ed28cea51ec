package cosmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/internal/follow"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// This file implements bulk requests: POST docs with many independent operations, which
// azcosmos 1.5.0 does not support. A request contains operations on keys of one physical
// partition.

const (
	// maxBulkOperations and maxBulkBytes limit one request. The service refuses more than
	// 100 operations. The other SDKs send at most 220,201 bytes, so that a request ends
	// within the service's 5 s.
	maxBulkOperations = 100
	maxBulkBytes      = 220_201
	// defaultBulkRequests is the default of BulkOptions.Requests.
	defaultBulkRequests = 8
	// maxBulkRounds is the number of rounds without any result after which Do gives up.
	maxBulkRounds = 20
	// bulkPause is the pause after a 429 response that names none. It is also the pause
	// before the partitions are listed again after a split.
	bulkPause = 100 * time.Millisecond
)

// BulkKind is the kind of a [BulkOperation].
type BulkKind uint8

// The kinds of operations. Upsert, the zero kind, creates or replaces a document. Create
// returns 409 if the document exists. Replace, Delete and Read return 404 if it does not.
const (
	BulkUpsert BulkKind = iota
	BulkCreate
	BulkReplace
	BulkDelete
	BulkRead
)

// String returns the protocol's name of the kind.
func (k BulkKind) String() string {
	switch k {
	case BulkCreate:
		return "Create"
	case BulkReplace:
		return "Replace"
	case BulkDelete:
		return "Delete"
	case BulkRead:
		return "Read"
	case BulkUpsert:
	}
	return "Upsert"
}

// BulkOperation is one operation on one document.
type BulkOperation struct {
	Kind BulkKind
	// Key is the document's complete partition key.
	Key feed.PartitionKey
	// ID is the document's id. It is required for Replace, Delete and Read. The other
	// kinds have it in their Body.
	ID string
	// Body is the document to write. Because it is sent unchanged, invalid JSON fails the
	// whole request.
	Body json.RawMessage
	// IfMatch is the etag that the document must have, unless empty. With another etag, the
	// status is 412.
	IfMatch string
}

// BulkResult is what became of a [BulkOperation].
type BulkResult struct {
	// Status is the HTTP status: 200, 201, 204, or a refusal's (404, 409, 412, 413 and
	// others).
	Status, SubStatus int
	// ETag is the document's etag after a write or read.
	ETag string
	// Body is the document that a Read returned.
	Body json.RawMessage
	// Message is the service's message if it refused the operation.
	Message string
}

// Done reports whether the operation succeeded.
func (r BulkResult) Done() bool { return r.Status >= 200 && r.Status < 300 }

// BulkOptions configures a [Bulk]. The zero value is good for most programs.
type BulkOptions struct {
	// Requests is how many requests all calls of [Bulk.Do] together have under way at most.
	// If zero, 8 is used.
	Requests int
}

// Bulk writes many documents with few requests. Reach for it to fill or copy a container;
// for a few writes, use the official SDK. Its methods are safe for concurrent use.
// [Options.Budget] does not apply, because a Budget limits only feed reads and leases.
type Bulk struct {
	source *Source
	slots  chan struct{}

	mu     sync.Mutex // guards charge
	charge float64
}

// Bulk returns a [Bulk] for a container, which is first requested when [Bulk.Do] is
// called.
func (a *Account) Bulk(database, container string, o BulkOptions) *Bulk {
	if o.Requests < 1 {
		o.Requests = defaultBulkRequests
	}
	return &Bulk{source: a.Source(database, container, SourceOptions{}), slots: make(chan struct{}, o.Requests)}
}

// Charge returns what all calls so far have cost, in request units.
func (b *Bulk) Charge() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.charge
}

// spent adds a request's charge to the total.
func (b *Bulk) spent(charge float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.charge += charge
}

// Do executes operations in any order and returns their results in the given one. Put
// operations that depend on others into a later call.
//
// Do repeats an operation that was throttled, after the pause that the service requests;
// one whose partition was split or merged, at the new partition; and one whose item did
// not fit into a response (413, sub-status 3402), with the next request.
//
// If a response was lost, the operation may have been executed. Then its result looks as
// if another writer had done the same before (409, 412, 404).
//
// If Do returns an error, it is unknown which operations were executed. The error is a
// [*RecreatedError], [feed.ErrNotFound], a [*feed.ThrottledError], one that names a
// missing right, ctx's, or the transport's.
func (b *Bulk) Do(ctx context.Context, operations []BulkOperation) ([]BulkResult, error) {
	p, err := b.source.known(ctx)
	if err != nil {
		return nil, err
	}
	run := &bulkRun{Bulk: b, properties: p, results: make([]BulkResult, len(operations))}
	for i, o := range operations {
		op, err := p.bulkOp(i, o)
		if err != nil {
			return nil, fmt.Errorf("bulk: operation %d: %w", i, err)
		}
		run.pending = append(run.pending, op)
	}
	anew := false
	for rounds := 0; len(run.pending) > 0; rounds++ {
		before := len(run.pending)
		if anew, err = run.round(ctx, anew); err != nil {
			return nil, err
		}
		switch {
		case len(run.pending) < before:
			rounds = 0
		case rounds >= maxBulkRounds:
			return nil, fmt.Errorf("bulk write to %s: no operation was executed in %d attempts: %w", b.source.what(), rounds,
				&feed.ThrottledError{RetryAfter: max(run.wait, bulkPause)})
		}
		if len(run.pending) > 0 {
			if err := follow.Sleep(ctx, max(run.wait, bulkPause)); err != nil {
				return nil, err
			}
		}
	}
	return run.results, nil
}

// bulkOp is an operation as it is sent. index is its index in the arguments of Do, point
// is the hash of its key, and text is its JSON.
type bulkOp struct {
	index int
	point string
	text  []byte
}

// bulkOp returns the operation o, whose index is index, with its encoded JSON and the
// hash of its key.
func (p *properties) bulkOp(index int, o BulkOperation) (bulkOp, error) {
	components, key, err := p.keyComponents(o.Key)
	if err != nil {
		return bulkOp{}, err
	}
	if len(components) != len(p.keyPaths) {
		return bulkOp{}, fmt.Errorf("partition key %s has %d components, and the container's has %d", key, len(components), len(p.keyPaths))
	}
	head := struct {
		Kind    string `json:"operationType"`
		Key     string `json:"partitionKey"`
		ID      string `json:"id,omitempty"`
		IfMatch string `json:"ifMatch,omitempty"`
		Minimal bool   `json:"minimalReturnPreference,omitempty"`
	}{o.Kind.String(), key, o.ID, o.IfMatch, o.Kind != BulkRead}
	text, err := json.Marshal(head)
	if err != nil {
		return bulkOp{}, err
	}
	if o.Body != nil { // append the body unchanged, because json.Marshal would parse and copy it
		text = append(text[:len(text)-1], `,"resourceBody":`...)
		text = append(append(text, o.Body...), '}')
	}
	point := feed.MinEPK
	if key != wire.NoKey {
		point = epk.Hex(p.hash.Append(nil, components))
	}
	return bulkOp{index: index, point: point, text: text}, nil
}

// bulkRun is one call of Do. One goroutine owns it, except for the fields that mu guards.
type bulkRun struct {
	*Bulk
	properties *properties
	// pending holds the operations that have no result yet.
	pending []bulkOp

	mu      sync.Mutex // guards the fields below while requests run
	results []BulkResult
	// again holds the operations that must be sent again in the next round, after the
	// pause wait.
	again []bulkOp
	wait  time.Duration
	anew  bool
	err   error
}

// bulkRequest is one request, whose operations are on keys of one partition.
type bulkRequest struct {
	partition string
	operation []bulkOp
}

// round sends all pending operations once. If anew is true, it lists the partitions
// first. The result again reports whether the next round must list them.
func (r *bulkRun) round(ctx context.Context, anew bool) (again bool, err error) {
	live, _, err := r.source.holding(ctx, r.properties, feed.Full(), anew)
	if err != nil {
		return false, err
	}
	requests := divideBulk(r.pending, live)
	r.pending, r.again, r.wait, r.anew, r.err = nil, nil, 0, false, nil
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	for _, q := range requests {
		select {
		case r.slots <- struct{}{}:
		case <-ctx.Done():
			r.fail(ctx.Err(), cancel)
			continue
		}
		all.Go(func() {
			defer func() { <-r.slots }()
			if err := r.send(ctx, q); err != nil {
				r.fail(err, cancel)
			}
		})
	}
	all.Wait()
	r.pending = r.again
	return r.anew, r.err
}

// fail records the first error of the round and cancels the other requests.
func (r *bulkRun) fail(err error, cancel context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
	cancel()
}

// divideBulk divides the operations into requests: one or more for each partition that
// holds their keys.
func divideBulk(ops []bulkOp, live []feed.Partition) []bulkRequest {
	var requests []bulkRequest
	open := make([]int, len(live)) // 1 + the index of the last request of each partition
	size := make([]int, len(live))
	for _, op := range ops {
		at, _ := slices.BinarySearchFunc(live, op.point, func(p feed.Partition, point string) int {
			switch {
			case p.Range.Max <= point:
				return -1
			case p.Range.Min > point:
				return 1
			}
			return 0
		})
		full := open[at] == 0
		if !full {
			q := requests[open[at]-1]
			full = len(q.operation) >= maxBulkOperations || size[at]+len(op.text) > maxBulkBytes
		}
		if full {
			requests = append(requests, bulkRequest{partition: live[at].ID})
			open[at], size[at] = len(requests), 0
		}
		q := &requests[open[at]-1]
		q.operation = append(q.operation, op)
		size[at] += len(op.text) + 1
	}
	return requests
}

// send sends one request and stores the results of its operations.
func (r *bulkRun) send(ctx context.Context, q bulkRequest) error {
	body := []byte{'['}
	for i, op := range q.operation {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, op.text...)
	}
	c := &call{span: "Bulk.Do", op: "bulk write", method: http.MethodPost, path: r.source.path() + "/docs", body: append(body, ']'), writes: true, free: true, header: http.Header{
		wire.HeaderBatch: {"True"}, wire.HeaderBatchAtomic: {"False"}, wire.HeaderBatchContinueOnError: {"True"},
		wire.HeaderPartitionID: {q.partition}, wire.HeaderIntendedContainer: {r.properties.rid},
	}}
	a, err := r.source.account.client.do(ctx, c)
	r.spent(c.charge)
	switch {
	case err != nil:
		return err
	case a.status == http.StatusTooManyRequests:
		r.retry(q.operation, a.wait(), false)
		return nil
	case a.is(http.StatusGone, wire.SubNameCacheStale), a.is(http.StatusBadRequest, wire.SubIncorrectContainer):
		if err := r.source.verify(ctx, r.properties); err != nil {
			return err
		}
		r.retry(q.operation, 0, true)
		return nil
	case a.status == http.StatusGone:
		r.retry(q.operation, 0, true)
		return nil
	case a.failure != nil:
		return r.source.refusal(actionCreate).failure("bulk write", a)
	}
	return r.take(q.operation, a.body)
}

// retry makes the next round send ops again, after the pause wait. If anew is true, that
// round lists the partitions first.
func (r *bulkRun) retry(ops []bulkOp, wait time.Duration, anew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.again = append(r.again, ops...)
	r.wait = max(r.wait, wait)
	r.anew = r.anew || anew
}

// errBulkAnswer reports that a response has another number of results than its request
// has operations.
var errBulkAnswer = errors.New("bulk: the number of results differs from the number of operations")

// take stores the results that the body of a response contains. ops are the operations of
// its request.
func (r *bulkRun) take(ops []bulkOp, body []byte) error {
	var results []struct {
		Status  int             `json:"statusCode"`
		Sub     int             `json:"subStatusCode"`
		ETag    string          `json:"eTag"`
		Body    json.RawMessage `json:"resourceBody"`
		Message string          `json:"message"`
		Wait    int64           `json:"retryAfterMilliseconds"`
	}
	if err := json.Unmarshal(body, &results); err != nil {
		return fmt.Errorf("bulk: read the response: %w", err)
	}
	if len(results) != len(ops) {
		return errBulkAnswer
	}
	for i, got := range results {
		switch {
		case got.Status == http.StatusTooManyRequests, got.Status == wire.StatusRetryWith:
			r.retry(ops[i:i+1], time.Duration(got.Wait)*time.Millisecond, false)
		case got.Status == http.StatusGone:
			r.retry(ops[i:i+1], 0, true)
		case got.Status == http.StatusRequestEntityTooLarge && got.Sub == wire.SubBatchResponseTooLarge:
			// The results of the other operations have filled the response, and the
			// service has not executed this operation.
			r.retry(ops[i:i+1], 0, false)
		case got.Status == http.StatusRequestTimeout, got.Status == http.StatusServiceUnavailable:
			r.retry(ops[i:i+1], bulkPause, false)
		default:
			r.mu.Lock()
			r.results[ops[i].index] = BulkResult{Status: got.Status, SubStatus: got.Sub, ETag: got.ETag, Body: got.Body, Message: got.Message}
			r.mu.Unlock()
		}
	}
	return nil
}

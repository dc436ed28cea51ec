package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

// preconditionError is an error that a change function of a test returns. The store must
// return it unwrapped.
type preconditionError struct{ etag string }

func (e *preconditionError) Error() string { return "condition not met: " + e.etag }

func TestErrorOfAChangeIsReturnedUnwrapped(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{})
	upsert(t, c, "a", "p", 1)
	pk := feed.PartitionKey{"p"}
	mine := &preconditionError{"x"}
	refuse := func([]byte) ([]byte, error) { return nil, mine }
	res, err := c.Change(t.Context(), pk, "a", refuse, storetype.WriteOptions{})
	if err != error(mine) { //nolint:errorlint // must not be wrapped
		t.Errorf("the error of one change is %#v", err)
	}
	if res.Body != nil || res.Partition != "0" || res.End != 1 || res.Charge != FailedCharge {
		t.Errorf("the result with the error is %+v", res)
	}
	_, err = c.Batch(t.Context(), pk, []storetype.Operation{{Kind: storetype.OpRead, ID: "a"}, {Kind: storetype.OpChange, ID: "a", Change: refuse}})
	var batch *storetype.BatchError
	if !errors.As(err, &batch) || batch.Err != error(mine) || batch.Index != 1 { //nolint:errorlint // as above
		t.Fatalf("the error of a batch is %#v", err)
	}
	if batch.Partition != "0" || batch.End != 1 || !slices.Equal(batch.Charges, []float64{1, FailedCharge}) || batch.Charge != batch.Charges[0]+batch.Charges[1] {
		t.Errorf("the batch error is %+v", batch)
	}
}

// Several goroutines change one item concurrently. Each call of a change function must
// receive the result of the previous one. No change may be lost, and no function may be
// called twice.
func TestChangesOfOneItemAreNotLost(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{})
	upsert(t, c, "a", "p", 0)
	const writers, changes = 4, 50
	var calls, n int // only the sequencer writes both, and the test reads them after the last write
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range changes {
				_, err := c.Change(t.Context(), feed.PartitionKey{"p"}, "a", func(old []byte) ([]byte, error) {
					calls++
					if !bytes.Contains(old, fmt.Appendf(nil, `"n":%d,`, n)) {
						return nil, fmt.Errorf("change %d got %s", calls, old)
					}
					n++
					return body("a", "p", n), nil
				}, storetype.WriteOptions{IfMatch: "*"})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	r, err := c.Read(t.Context(), feed.PartitionKey{"p"}, "a", storetype.ReadOptions{})
	if err != nil || field(t, r.Body, "n") != float64(writers*changes) || calls != writers*changes {
		t.Errorf("%s, %v, after %d calls", r.Body, err, calls)
	}
	for name, k := range map[string]struct {
		id   string
		o    storetype.WriteOptions
		want error
	}{
		"no item":         {"b", storetype.WriteOptions{}, feed.ErrNotFound},
		"another etag":    {"a", storetype.WriteOptions{IfMatch: `"x"`}, storetype.ErrPreconditionFailed},
		"the item exists": {"a", storetype.WriteOptions{IfNoneMatch: "*"}, storetype.ErrPreconditionFailed},
		"the right etag":  {"a", storetype.WriteOptions{IfMatch: r.ETag}, nil},
	} {
		ran := false
		_, err := c.Change(t.Context(), feed.PartitionKey{"p"}, k.id, func(old []byte) ([]byte, error) {
			ran = true
			return old, nil
		}, k.o)
		if !errors.Is(err, k.want) || ran != (k.want == nil) {
			t.Errorf("%s: %v; the function ran: %t", name, err, ran)
		}
	}
}

// A batch of a few bytes may request changes that write much larger documents. The store
// must refuse the batch when these documents exceed MaxBatchResult. Otherwise all writers
// would wait while it builds hundreds of megabytes.
func TestBatchIsBoundedByTheSizeOfItsResults(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{})
	pk := feed.PartitionKey{"p"}
	large := strings.Repeat("x", storetype.MaxDocumentSize-1000)
	const items = 5
	for n := range items {
		doc := fmt.Appendf(nil, `{"id":"%d","pk":"p","t":%q}`, n, large)
		if _, err := c.Upsert(t.Context(), pk, doc, storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	same := func(old []byte) ([]byte, error) { return old, nil }
	for _, kind := range []storetype.OpKind{storetype.OpChange, storetype.OpRead} {
		var ops []storetype.Operation
		for n := range items {
			ops = append(ops, storetype.Operation{Kind: kind, ID: fmt.Sprint(n), Change: same})
		}
		_, err := c.Batch(t.Context(), pk, ops)
		var batch *storetype.BatchError
		var size *storetype.TooLargeError
		if !errors.As(err, &batch) || batch.Index != 4 || !errors.As(err, &size) || size.What != "batch" || size.Limit != MaxBatchResult {
			t.Errorf("%d operations of kind %d on the largest documents: %v", items, kind, err)
		}
		if res, err := c.Batch(t.Context(), pk, ops[:4]); err != nil || len(res[3].Body) < len(large) {
			t.Errorf("4 of them: %v", err)
		}
	}
	// The documents of a failed batch do not count towards the limit of the next request.
	if _, err := c.Change(t.Context(), pk, "0", same, storetype.WriteOptions{}); err != nil {
		t.Error(err)
	}
}

func TestResultWithAnErrorNamesThePartition(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{Partitions: 3})
	made := upsert(t, c, "a", "p", 1)
	ctx, pk := t.Context(), feed.PartitionKey{"p"}
	wrong := storetype.WriteOptions{IfMatch: `"x"`}
	for name, do := range map[string]func() (storetype.Result, error){
		"create": func() (storetype.Result, error) {
			return c.Create(ctx, pk, body("a", "p", 1), storetype.WriteOptions{})
		},
		"upsert":  func() (storetype.Result, error) { return c.Upsert(ctx, pk, body("a", "p", 1), wrong) },
		"replace": func() (storetype.Result, error) { return c.Replace(ctx, pk, "a", body("a", "p", 1), wrong) },
		"delete":  func() (storetype.Result, error) { return c.Delete(ctx, pk, "none", storetype.WriteOptions{}) },
		"read":    func() (storetype.Result, error) { return c.Read(ctx, pk, "none", storetype.ReadOptions{}) },
		"conditional": func() (storetype.Result, error) {
			return c.Read(ctx, pk, "a", storetype.ReadOptions{IfNoneMatch: made.ETag})
		},
	} {
		r, err := do()
		if err == nil || r.Partition != made.Partition || r.End != made.End || r.Charge <= 0 || r.Body != nil || r.LSN != 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if r, err := c.Create(ctx, pk, []byte(`{`), storetype.WriteOptions{}); err == nil || r.Partition != made.Partition || r.Charge != FailedCharge {
		t.Errorf("the result for an invalid body: %+v, %v", r, err)
	}
	if r, err := c.Create(ctx, nil, []byte(`{`), storetype.WriteOptions{}); err == nil || r.Partition != "" {
		t.Errorf("the result for an invalid body without a key: %+v, %v", r, err)
	}
}

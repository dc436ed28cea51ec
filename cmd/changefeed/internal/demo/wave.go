package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/changefeed-go/changefeed/store"
)

// writers is the number of goroutines that write. Each waits for the disk, and the store
// commits those that wait together.
const writers = 64

// burst is the time between two bursts of writes. Bursts make batches of several changes.
const burst = 100 * time.Millisecond

// wave is one pass of all writers over the records, spread over a time.
type wave struct {
	data  dataset
	to    container
	count *counters
	// lasts is the minimum duration of the wave.
	lasts time.Duration
	// rows are the indices of the records that are written. write writes one.
	rows  []int
	write func(ctx context.Context, w *wave, r record) error
	// done counts the finished rows.
	done atomic.Int64
}

// share returns the part of the wave that is done, from 0 to 1.
func (w *wave) share() float64 { return float64(w.done.Load()) / float64(max(len(w.rows), 1)) }

// run writes all rows, each at its time. It returns when every writer has ended.
func (w *wave) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		all   sync.WaitGroup
		next  atomic.Int64
		began = time.Now()
	)
	for range writers {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(w.rows) {
					return
				}
				due := (w.lasts * time.Duration(i) / time.Duration(len(w.rows))).Truncate(burst)
				err := pause(ctx, time.Until(began.Add(due)))
				if err == nil {
					err = w.write(ctx, w, w.data.records[w.rows[i]])
				}
				if err != nil {
					cancel(fmt.Errorf("write record %d: %w", w.rows[i]+1, err))
					return
				}
				w.done.Add(1)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// pause waits for d, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// insert writes a record for the first time. It does not change a record of an earlier
// run.
func insert(ctx context.Context, w *wave, r record) error {
	key, err := keyOf(r.body, w.data.key)
	if err != nil {
		return err
	}
	lsn, err := w.to.create(ctx, key, r.body)
	switch {
	case errors.Is(err, store.ErrConflict):
		return nil
	case err != nil:
		return err
	}
	w.count.wrote(r.id, lsn)
	return nil
}

// update replaces a record by its next revision. If-Match detects another writer.
func update(ctx context.Context, w *wave, r record) error {
	key, err := keyOf(r.body, w.data.key)
	if err != nil {
		return err
	}
	now, etag, err := w.to.read(ctx, key, r.id)
	if err != nil {
		return err
	}
	body, err := nextRevision(now)
	if err != nil {
		return err
	}
	lsn, err := w.to.replace(ctx, key, r.id, body, etag)
	if err != nil {
		return err
	}
	w.count.wrote(r.id, lsn)
	return nil
}

// nextRevision returns a document with the next revision.
func nextRevision(body []byte) ([]byte, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(body, &object); err != nil {
		return nil, err
	}
	var n int
	if err := json.Unmarshal(object[revision], &n); err != nil {
		return nil, fmt.Errorf("its %s is %s: %w", revision, object[revision], err)
	}
	next, err := json.Marshal(n + 1)
	if err != nil {
		return nil, err
	}
	object[revision] = next
	return json.Marshal(object)
}

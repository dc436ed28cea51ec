package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/changefeed-go/changefeed/internal/follow"
	"github.com/changefeed-go/changefeed/storetype"
)

// writers is the number of goroutines that write records. Each write waits for the disk,
// and the store syncs the waiting writes together.
const writers = 64

// burst is the time between two bursts of writes. Because writes come in bursts, a batch
// contains several changes.
const burst = 100 * time.Millisecond

// wave is one pass over the records, in which goroutines write each selected record once.
// The writes are spread over a time.
type wave struct {
	data  dataset
	to    container
	count *counters
	// lasts is the minimum duration of the wave.
	lasts time.Duration
	// rows are the indexes of the records to write. write writes one of them.
	rows  []int
	write func(ctx context.Context, w *wave, r record) error
	// done counts the finished rows.
	done atomic.Int64
}

// share returns the share of the wave's records that have been written, from 0 to 1.
func (w *wave) share() float64 { return float64(w.done.Load()) / float64(max(len(w.rows), 1)) }

// run writes all records of the wave, each when it is due. It returns when all writers
// have ended.
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
				err := follow.Sleep(ctx, time.Until(began.Add(due)))
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

// insert writes a record for the first time. If an earlier run has written the record, it
// does nothing.
func insert(ctx context.Context, w *wave, r record) error {
	key, err := keyOf(r.body, w.data.key)
	if err != nil {
		return err
	}
	lsn, err := w.to.create(ctx, key, r.body)
	switch {
	case errors.Is(err, storetype.ErrConflict):
		return nil
	case err != nil:
		return err
	}
	w.count.wrote(r.id, lsn)
	return nil
}

// update replaces a record by its next revision. An If-Match header detects a write by
// somebody else.
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

// nextRevision returns a copy of a document in which the revision is one higher.
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

package changefeed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// waitingSource is a fakeSource that holds a read at the end of the feed until there is a
// change, as the embedded store does.
type waitingSource struct{ *fakeSource }

func (s waitingSource) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	until := time.Now().Add(r.Wait)
	for {
		page, err := s.fakeSource.Read(ctx, r)
		if err != nil || len(page.Changes) > 0 || time.Now().After(until) {
			return page, err
		}
	}
}

// batches is a handler that records the LSNs of each batch. Every call takes equally long,
// whatever the size of the batch.
type batches struct {
	collector
	sizes []int
}

func (h *batches) Handle(ctx context.Context, b *Batch) error {
	if err := h.collector.Handle(ctx, b); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sizes = append(h.sizes, len(b.Changes))
	return nil
}

// A handler that takes 200 ms for every call can handle MaxItems changes in that time. So it
// must keep up with as many writes, whatever the sizes of the pages in which they are read.
func TestSlowHandlerKeepsUpAtEveryRateThatMaxItemsAllows(t *testing.T) {
	const took, maxItems, calls = 200 * time.Millisecond, 20, 130
	for _, perCall := range []int{1, 5, 13, 19, 20} {
		for _, burst := range []int{1, 13} { // the changes that are written at once
			for _, waits := range []bool{true, false} {
				t.Run(fmt.Sprintf("%d per call/%d at once/source waits: %t", perCall, burst, waits), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						h := &batches{collector: collector{took: took}}
						fake := newFakeSource("0")
						var source feed.Source = fake
						if waits {
							source = waitingSource{fake}
						}
						start(t, Config{
							Source: source, Leases: newFakeStore(), Handler: h, Start: fromBeginning, MaxItems: maxItems, PollInterval: 100 * time.Millisecond,
						})
						pause(time.Second)
						const all = calls * maxItems
						for range all / burst {
							fake.write("0", burst)
							time.Sleep(took * time.Duration(burst) / time.Duration(perCall))
						}
						got := h.got()
						if behind := all - len(got); behind > 3*maxItems {
							t.Errorf("after the last write, %d of %d changes are not handled; the batches have %v changes", behind, all, h.sizes)
						}
						pause(time.Second)
						if got := h.got(); !slices.Equal(got, to(all)) {
							t.Errorf("a second later, %d of %d changes are handled, or not in order", len(got), all)
						}
						if most := slices.Max(h.sizes); most > maxItems {
							t.Errorf("a batch has %d changes", most)
						}
					})
				})
			}
		}
	}
}

// A batch of several pages is delivered, retried and checkpointed as one.
func TestBatchOfSeveralPagesHasThePositionOfItsLastPage(t *testing.T) {
	for name, every := range map[string]Checkpointing{"after every batch": {}, "manual": {Manual: true}, "by changes": {Changes: 5}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, leases := onePartition(1), newFakeStore()
				var calls [][]int64
				h := HandlerFunc(func(ctx context.Context, b *Batch) error {
					var lsns []int64
					for _, c := range b.Changes {
						lsns = append(lsns, c.LSN)
					}
					calls = append(calls, lsns)
					if b.Charge != float64(2*len(lsns)) { // each page of one change costs 2 RU
						t.Errorf("the batch %v costs %v RU", lsns, b.Charge)
					}
					time.Sleep(time.Second)
					if len(calls) == 2 {
						return errors.New("once more")
					}
					if every.Manual {
						return b.Checkpoint(ctx)
					}
					return nil
				})
				start(t, Config{
					Source: waitingSource{source}, Leases: leases, Handler: h, Start: fromBeginning, Checkpoint: every, MaxItems: 5, RenewInterval: 40 * time.Second,
				})
				pause(100 * time.Millisecond) // the handler works on change 1
				for range 7 {
					source.write("0", 1)
					pause(50 * time.Millisecond)
				}
				pause(5 * time.Second)
				want := [][]int64{{1}, {2, 3, 4, 5, 6}, {2, 3, 4, 5, 6}, {7, 8}}
				if !slices.EqualFunc(calls, want, slices.Equal[[]int64]) {
					t.Errorf("delivered %v; want %v", calls, want)
				}
				var stored []feed.Continuation
				for _, w := range leases.sent() {
					if c := w.lease.Continuation; c != "" && !slices.Contains(stored, c) {
						stored = append(stored, c)
					}
				}
				wantStored := []feed.Continuation{"1", "6", "8"}
				if every.Changes > 0 {
					wantStored = wantStored[1:2]
				}
				if !slices.Equal(stored, wantStored) {
					t.Errorf("the stored positions are %v; want %v", stored, wantStored)
				}
			})
		})
	}
}

// queue is the window of a worker, into which pages are pushed as the reader does.
type queue struct {
	*worker
	read int64
}

// queueOf returns an empty queue, for batches of up to maxItems changes.
func queueOf(maxItems, readAhead int) *queue {
	w := &worker{host: &host{cfg: Config{MaxItems: maxItems, ReadAhead: readAhead}}}
	w.window, w.reader = newWindow(w), reader{w: w}
	w.writer = leaseWriter{w: w, anchored: true, progress: newProgress("")}
	return &queue{worker: w}
}

func (q *queue) push(page feed.Page) {
	q.read++
	q.pushed(page, pagePosition{q.read, page.Continuation}, nil)
}

// take takes the next batch for the handler, and done puts it back as handled.
func (q *queue) take() *queuedBatch  { return q.window.next(false) }
func (q *queue) done(b *queuedBatch) { q.delivered(b, outcome{}); q.window.returned(b, true, 0) }

// pageOf returns a page with changes of the given LSNs. at is its position.
func pageOf(at string, lsns ...int64) feed.Page {
	page := feed.Page{Continuation: feed.Continuation(at), Charge: 1}
	for _, lsn := range lsns {
		page.Changes = append(page.Changes, feed.Change{LSN: lsn, Current: fmt.Appendf(nil, "%4d", lsn)})
	}
	return page
}

// batchesOf returns the position and the batches of the queue as text.
func batchesOf(q *queue) string {
	text := string(q.writer.progress.due.at)
	if l := q.window.lanes[0]; l != nil {
		for _, b := range l.queue {
			text += "["
			for _, c := range b.Changes {
				text += fmt.Sprint(c.LSN, " ")
			}
			text += "at " + string(b.own.at) + "]"
		}
	}
	return text
}

func TestQueueGathersPagesUpToMaxItems(t *testing.T) {
	for _, c := range []struct {
		name  string
		pages []feed.Page
		want  string
		asks  int // the number of changes that the next read asks for
	}{
		{"empty", nil, "", 4},
		{"small pages", []feed.Page{pageOf("a", 1), pageOf("b", 2, 3)}, "[1 2 3 at b]", 1},
		{"full", []feed.Page{pageOf("a", 1, 2), pageOf("b", 3, 4)}, "[1 2 3 4 at b]", 4},
		{"the next batch", []feed.Page{pageOf("a", 1, 2, 3, 4), pageOf("b", 5)}, "[1 2 3 4 at a][5 at b]", 3},
		{"a page that does not fit", []feed.Page{pageOf("a", 1, 2, 3), pageOf("b", 4, 5)}, "[1 2 3 at a][4 5 at b]", 2},
		{"a transaction is not cut", []feed.Page{pageOf("a", 1, 2, 3), pageOf("b", 4, 4, 4)}, "[1 2 3 4 4 4 at b]", 4},
		{"changes after the transaction", []feed.Page{pageOf("a", 1, 2, 3), pageOf("b", 4, 4, 5)}, "[1 2 3 at a][4 4 5 at b]", 1},
		{"pages without changes between", []feed.Page{pageOf("a", 1), pageOf("b"), pageOf("c", 2), pageOf("d")}, "[1 2 at d]", 2},
		{"pages without changes first", []feed.Page{pageOf("a"), pageOf("b"), pageOf("c", 1)}, "b[1 at c]", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := queueOf(4, 1<<20)
			bytes := 0
			for _, page := range c.pages {
				q.push(page)
				bytes += 4 * len(page.Changes)
			}
			if got := batchesOf(q); got != c.want || q.window.bytes != bytes {
				t.Errorf("%d bytes: %s; want %d: %s", q.window.bytes, got, bytes, c.want)
			}
			if asks := q.reader.request(lease.Lease{Range: feed.Full()}).MaxItems; asks != c.asks {
				t.Errorf("the next read asks for %d changes; want %d", asks, c.asks)
			}
			for b := q.take(); b != nil; b = q.take() {
				q.done(b)
				q.writer.progress.stored(q.writer.progress.due)
			}
			if last := len(c.pages); last > 0 && q.writer.progress.due.at != c.pages[last-1].Continuation || q.window.bytes != 0 {
				t.Errorf("%d bytes are in an empty queue at %+v", q.window.bytes, q.writer.progress.due)
			}
		})
	}
}

// Gathering copies the changes but not their documents, and leaves the source's slices alone.
func TestQueueDoesNotCopyDocuments(t *testing.T) {
	r := queueOf(10, 1<<20)
	first, second := pageOf("a", 1, 2, 3), pageOf("b", 4)
	shared := first.Changes
	first.Changes = shared[:2]
	r.push(first)
	r.push(second)
	b := r.take()
	if &b.Changes[0].Current[0] != &shared[0].Current[0] || &b.Changes[2].Current[0] != &second.Changes[0].Current[0] {
		t.Error("a document was copied")
	}
	if shared[2].LSN != 3 {
		t.Error("the source's array was overwritten")
	}
}

// The pages that were gathered with the first one of a batch count as read ahead while the
// handler works on the batch. Otherwise a lease could hold the memory of two full queues.
func TestGatheredPagesCountAsReadAhead(t *testing.T) {
	r := queueOf(10, 12)
	for i := range int64(4) {
		r.push(pageOf("a", i+1)) // 4 bytes each
	}
	if !r.windowFull() {
		t.Error("the queue is full, and another page is wanted")
	}
	all := r.take()
	if !r.windowFull() {
		t.Error("the handler has the whole queue, and another page is wanted")
	}
	r.done(all)
	r.push(pageOf("b", 5))
	if r.take() == nil || r.windowFull() {
		t.Error("the handler has one page, and no other is wanted")
	}
}

// The position of "now" must be stored before the first batch is delivered. It is read
// before the observer is open, and changes follow. The batch must not swallow that position.
func TestPositionOfNowIsNotGatheredIntoTheFirstBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, h := onePartition(5), newFakeStore(), &collector{}
		leases.marker = time.Now()
		leases.put(lease.Lease{ID: "lease-0", Token: "0", PartitionID: "0", Range: feed.Full()})
		observer := func(lease.Lease) (Observer, error) {
			time.Sleep(time.Second)
			source.write("0", 3)
			time.Sleep(10 * time.Second)
			return plainObserver{h}, nil
		}
		start(t, Config{Source: source, Leases: leases, Observer: observer})
		pause(time.Minute)
		if got := h.got(); !slices.Equal(got, []int64{6, 7, 8}) {
			t.Errorf("handled %v; want 6 to 8", got)
		}
	})
}

// movingSource is a feed without changes whose position moves all the time, as that of a range
// does while other ranges of its partition change.
type movingSource struct{ *fakeSource }

func (s movingSource) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	page, err := s.fakeSource.Read(ctx, r)
	page.Continuation = position(int64(len(s.requests())))
	return page, err
}

// A read that finds nothing moves the position, so that the next host does not read the same
// part of the feed again.
func TestPositionAfterReadsWithoutChangesIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := movingSource{newFakeSource("0")}, newFakeStore()
		r, _ := idle(t, leases, Config{Source: source})
		pause(time.Hour)
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if at, last := leases.doc("0").Continuation, position(int64(len(source.requests()))); at != last {
			t.Errorf("the lease is released at %q; the last read ended at %q", at, last)
		}
	})
}

// A source refuses the start time of a lease, at once or after a merge. The host reads on
// without it, so no later read may contain it. Otherwise each page would cost a refused read.
func TestRefusedStartTimeIsNotSentAgain(t *testing.T) {
	for name, refuses := range map[string]func(feed.Start) bool{
		"with the first read": func(from feed.Start) bool { return from.Kind() == feed.StartTime || !from.Since().IsZero() },
		"with a position":     func(from feed.Start) bool { return !from.Since().IsZero() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, leases, h := newFakeSource("0"), javaStore{newFakeStore()}, &collector{}
				refused := 0
				source.fail = func(_ int, r feed.Request) error {
					if !refuses(r.From) {
						return nil
					}
					refused++
					return fmt.Errorf("start time on a merged partition: %w", feed.ErrUnsupported)
				}
				source.write("", 5)
				start(t, Config{Source: source, Leases: leases, Handler: h, Start: feed.At(time.Now()), MaxItems: 1, PollInterval: time.Second})
				pause(time.Minute)
				if got := h.got(); !slices.Equal(got, to(5)) || refused != 1 {
					t.Errorf("%d reads were refused, and %v was handled; want one refusal, and 1 to 5", refused, got)
				}
			})
		})
	}
}

// patientSource holds a read without changes for the whole of its Wait.
type patientSource struct{ *fakeSource }

func (s patientSource) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	page, err := s.fakeSource.Read(ctx, r)
	if err == nil && len(page.Changes) == 0 && !sleep(ctx, r.Wait) {
		return feed.Page{}, ctx.Err()
	}
	return page, err
}

// A source may hold a read for the poll interval, however short the request timeout is.
func TestReadThatWaitsForChangesMayLastLongerThanTheRequestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := patientSource{newFakeSource("0")}
		_, said := idle(t, newFakeStore(), Config{Source: source, PollInterval: time.Minute, RequestTimeout: 2 * time.Second})
		pause(10 * time.Minute)
		if failures := said.of(Failed); len(failures) > 0 {
			t.Errorf("%d failures of idle reads, the first is %v", len(failures), failures[0].Err)
		}
	})
}

// BenchmarkSlowHandler simulates a handler that takes one unit of time for every call. In each
// unit so many changes are written, 13 at a time, and are read at once. The handler keeps up
// if no more than a batch waits in the end. The other numbers are the cost to gather pages.
func BenchmarkSlowHandler(b *testing.B) {
	const maxItems, burst = 100, 13
	changes := pageOf("a", to(maxItems)...).Changes
	for _, perCall := range []int{1, 30, 60, 99, 100} {
		b.Run(fmt.Sprintf("writes=%d", perCall), func(b *testing.B) {
			r := queueOf(maxItems, 1<<30)
			written, handled := 0, 0
			b.ReportAllocs()
			for b.Loop() {
				written += perCall
				for read := handled + r.window.bytes/4; written-read >= burst; { // a change has 4 bytes
					for unread := burst; unread > 0; {
						n := min(unread, r.reader.request(r.writer.doc).MaxItems)
						r.push(feed.Page{Changes: changes[:n:n], Continuation: "a"})
						unread -= n
						read += n
					}
				}
				if next := r.take(); next != nil {
					handled += len(next.Changes)
					r.done(next)
					r.writer.progress.stored(r.writer.progress.due)
				}
			}
			if written-handled > maxItems+burst {
				b.Errorf("%d changes wait after %d calls", written-handled, b.N)
			}
			b.ReportMetric(float64(written-handled), "waiting")
		})
	}
}

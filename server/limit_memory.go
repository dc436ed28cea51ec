package server

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/changefeed-go/changefeed/internal/querypage"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// The budget limits the memory that all requests use together (Options.MemoryLimit). It has two
// parts.
//
// The bytes that clients can delay are counted: headers, bodies, and answers that wait for their
// readers. Each class has a share of its own, so that stalled clients of one class do not stop the
// others. A class without room refuses with 429. It never waits, so nothing can deadlock. An
// existing answer is always counted, because a completed write must not be answered 429. No further
// answer begins until there is room.
//
// Work that no client can delay takes a slot. A class of work has a fixed number of slots, and each
// needs a limited amount of memory until its answer begins. Requests wait for a slot in the order
// of arrival, for at most slotWait. The holder of a slot never waits for the budget or a client.

// class is a kind of counted bytes.
type class int

const (
	ofHeaders class = iota
	ofBodies
	ofAnswers
	classes
)

// Shares of the memory limit, and the memory that a request with a slot may need.
const (
	headerShare = 8 // an eighth
	bodyShare   = 4
	answerShare = 4

	// A read has a page of the feed. A query has a page and a batch of index entries, and a sort
	// also its rows.
	readMemory  = 16 << 20
	queryMemory = 32 << 20
	sortMemory  = 64 << 20
	// A bulk request with patches or reads has bulkItems, and its answer twice: in parts and
	// complete.
	bulkMemory = 32 << 20
	// minReads and the like keep a few clients independent of each other in the smallest servers.
	minReads   = 4
	minQueries = 2
	minSorts   = 1
	minBulks   = 2
	// sortShare is the part of the limit that the rows of one sort may use, between minSortMemory
	// and querypage.MaxSortMemory.
	sortShare     = 8
	minSortMemory = 4 << 20

	// bodyFactor is how many copies of a body are in memory: as it came, and as the store writes
	// it.
	bodyFactor = 2
	// queryFactor is about how many times the size of its text a compiled query has.
	queryFactor = 32
	// longQuery is the size in bytes of a text whose parsing alone takes a slot for sorts.
	longQuery = 64 << 10

	// slotWait is how long a request waits for a slot.
	slotWait = 5 * time.Second
	// busyRetry is when a refused client retries.
	busyRetry = time.Second
)

// budget is the memory of all requests of a server. A nil budget has no limits.
type budget struct {
	limits [classes]int64
	used   [classes]atomic.Int64
	// cutStalled is called when a class has no room. It may close the connections of stalled
	// clients.
	cutStalled func()
	// rows limits the memory of the rows of one sort.
	rows int

	slots [slotClasses]chan struct{}
}

// newBudget returns the budget of a memory limit in bytes; nil for 0.
func newBudget(limit int64) *budget {
	if limit == 0 {
		return nil
	}
	b := &budget{
		limits:     [classes]int64{limit / headerShare, limit / bodyShare, limit / answerShare},
		cutStalled: func() {},
		rows:       int(min(max(limit/sortShare, minSortMemory), querypage.MaxSortMemory)),
	}
	for l, places := range [slotClasses]int64{
		readSlots: max(limit/readMemory, minReads), querySlots: max(limit/queryMemory, minQueries),
		sortSlots: max(limit/sortMemory, minSorts), bulkSlots: max(limit/bulkMemory, minBulks),
	} {
		b.slots[l] = make(chan struct{}, places)
	}
	return b
}

// reserve counts n more bytes of a class. If they do not fit, it counts nothing and returns false.
func (b *budget) reserve(c class, n int64) bool {
	if b.used[c].Add(n) <= b.limits[c] {
		return true
	}
	b.used[c].Add(-n)
	b.cutStalled()
	return false
}

// inFlight returns how many bytes are counted.
func (b *budget) inFlight() (n int64) {
	for c := range b.used {
		n += b.used[c].Load()
	}
	return n
}

// sortRows returns how many bytes the rows of one sort may take.
func (b *budget) sortRows() int {
	if b == nil {
		return querypage.MaxSortMemory
	}
	return b.rows
}

// heldMemory is the counted memory of one connection, or of one request without a guarded
// connection. With a nil budget, it counts nothing. Its methods may be called concurrently.
type heldMemory struct {
	b    *budget
	held [classes]atomic.Int64
	// slot is the slot of the request; nil if it has none. It belongs to the goroutine that serves
	// the request.
	slot chan struct{}
}

// unlimited is the memory of all requests if there is no budget.
var unlimited heldMemory

// grow counts n more bytes, or refuses with 429. It refuses bytes that can never fit with 413.
func (c *heldMemory) grow(of class, n int64) error {
	switch {
	case c.b == nil || n <= 0:
		return nil
	case c.held[of].Load()+n > c.b.limits[of]:
		return tooLarge("the request needs more memory than this server has for one (%d bytes); start the server with a larger --memory-limit", c.b.limits[of])
	case !c.b.reserve(of, n):
		return errBusy
	}
	c.held[of].Add(n)
	return nil
}

// add counts n bytes that are in memory already.
func (c *heldMemory) add(of class, n int64) {
	if c.b == nil || n <= 0 {
		return
	}
	c.held[of].Add(n)
	if c.b.used[of].Add(n) > c.b.limits[of] {
		c.b.cutStalled()
	}
}

// release releases the bytes of a class.
func (c *heldMemory) release(of class) {
	if c.b != nil {
		c.b.used[of].Add(-c.held[of].Swap(0))
	}
}

// releaseAll releases all bytes.
func (c *heldMemory) releaseAll() {
	for of := range classes {
		c.release(of)
	}
}

// size returns how many bytes are counted.
func (c *heldMemory) size() (n int64) {
	for of := range c.held {
		n += c.held[of].Load()
	}
	return n
}

// errBusy refuses a request for which there is no memory now. Nothing of it was done.
var errBusy = &statusError{
	status: http.StatusTooManyRequests, substatus: wire.SubNone, retryAfter: busyRetry,
	message: "The server's memory for requests is in use (--memory-limit); try again after the time in x-ms-retry-after-ms.",
}

// slotClass is a class of work. Each has a fixed number of slots.
type slotClass int

const (
	readSlots slotClass = iota
	querySlots
	sortSlots
	bulkSlots
	slotClasses
)

// acquireSlot waits for a slot. The beginning of the answer releases it, or releaseSlot. It refuses
// with 429 if answers have no room or the wait takes too long. It returns the error of the context,
// too.
func (x *request) acquireSlot(l slotClass) error {
	b := x.memory.b
	if b == nil {
		return nil
	}
	x.releaseSlot()
	to := b.slots[l]
	if !b.answerable() {
		return errBusy
	}
	select {
	case to <- struct{}{}:
	default:
		ctx, cancel := context.WithTimeoutCause(x.r.Context(), slotWait, errBusy)
		defer cancel()
		select {
		case to <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	x.memory.slot = to
	if !b.answerable() { // other requests have answered meanwhile
		x.releaseSlot()
		return errBusy
	}
	return nil
}

// answerable reports whether answers have room. If they have none, it closes stalled connections.
func (b *budget) answerable() bool {
	if b.used[ofAnswers].Load() < b.limits[ofAnswers] {
		return true
	}
	b.cutStalled()
	return false
}

// releaseSlot releases the slot of the request, if it has one.
func (x *request) releaseSlot() {
	if x.memory.slot != nil {
		<-x.memory.slot
		x.memory.slot = nil
	}
}

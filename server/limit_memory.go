package server

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/changefeed-go/changefeed/internal/querypage"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// The budget bounds the memory that all requests hold together (Options.MemoryLimit). It has two parts.
//
// Bytes that clients can hold up are counted: headers, bodies, and answers that wait for their
// readers. Each class has a share of its own, so that stalled clients of one class do not stop the
// others. A class that has no room refuses with 429. It never waits, so nothing can deadlock. An answer that
// exists is always counted, whether there is room or not: a write that was done must not
// be answered with 429. No further answer is begun until there is room.
//
// Work that no client can hold up runs in lanes. A lane admits a fixed number of requests at a time, each
// of which needs a bounded amount of memory until its answer begins. A request waits for a lane, in
// the order of arrival and for at most slotWait. A holder of a lane never waits for the budget or a client.

// class is a kind of counted bytes.
type class int

const (
	ofHeaders class = iota
	ofBodies
	ofAnswers
	classes
)

// Shares of the memory limit, and the memory that a request in a lane may need.
const (
	headerShare = 8 // an eighth
	bodyShare   = 4
	answerShare = 4

	// A read has a page of the feed. A query has a page and a batch of index entries, a sort its rows besides.
	readMemory  = 16 << 20
	queryMemory = 32 << 20
	sortMemory  = 64 << 20
	// A bulk request with patches or reads has bulkItems, and its answer twice: in parts and as it is sent.
	bulkMemory = 32 << 20
	// minReads and minQueries keep a few clients apart from each other in the smallest servers.
	minReads   = 4
	minQueries = 2
	minSorts   = 1
	minBulks   = 2
	// sortShare is the part of the limit that the rows of one sort may take, between minSortMemory and querypage.MaxSortMemory.
	sortShare     = 8
	minSortMemory = 4 << 20

	// bodyFactor is how many times a body is in memory while it is carried out: as it came, and as the store writes it.
	bodyFactor = 2
	// queryFactor is about how many times its text a parsed query takes.
	queryFactor = 32
	// longQuery is the text, in bytes, of a query that goes to the lane of sorts for its parsing alone.
	longQuery = 64 << 10

	// slotWait is how long a request waits for a lane.
	slotWait = 5 * time.Second
	// busyRetry is when a client that was refused is asked to come again.
	busyRetry = time.Second
)

// budget is the memory of all requests of a server. A nil budget has no bounds.
type budget struct {
	limits [classes]int64
	used   [classes]atomic.Int64
	// cutStalled is called when a class has no room; it may cut off stalled clients.
	cutStalled func()
	// rows bounds the memory of the rows of one sort.
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

// reserve counts n more bytes of a class. It reports false, and counts nothing, if they don't fit.
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

// claim is the counted memory of one connection, or of one request whose connection is not known. A claim
// of a nil budget counts nothing. Its methods may be called concurrently.
type heldMemory struct {
	b    *budget
	held [classes]atomic.Int64
	// lane is the lane in which the request has a place; nil: none. It belongs to the goroutine that serves the request.
	slot chan struct{}
}

// unlimited is the claim of all requests where there is no budget.
var unlimited heldMemory

// grow counts n more bytes, or refuses with 429. Bytes that can never fit are refused with 413.
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

// release gives back what is counted of a class.
func (c *heldMemory) release(of class) {
	if c.b != nil {
		c.b.used[of].Add(-c.held[of].Swap(0))
	}
}

// releaseAll gives back everything.
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

// errBusy refuses a request for which there is no memory at the moment. Nothing of it was done.
var errBusy = &statusError{
	status: http.StatusTooManyRequests, substatus: wire.SubNone, retryAfter: busyRetry,
	message: "The server's memory for requests is in use (--memory-limit); try again after the time in x-ms-retry-after-ms.",
}

// lane is a lane of the budget. Each admits a fixed number of requests at a time.
type slotClass int

const (
	readSlots slotClass = iota
	querySlots
	sortSlots
	bulkSlots
	slotClasses
)

// enter waits for a lane and takes a place in it, which the beginning of the answer gives back, or leave. It refuses
// with 429 when answers have no room or the wait takes too long. Error: the context's, too.
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
	if !b.answerable() { // others have answered meanwhile
		x.releaseSlot()
		return errBusy
	}
	return nil
}

// answerable reports whether answers have room. Without it, it looks for stalled clients.
func (b *budget) answerable() bool {
	if b.used[ofAnswers].Load() < b.limits[ofAnswers] {
		return true
	}
	b.cutStalled()
	return false
}

// leave gives the place in a lane back; without one it does nothing.
func (x *request) releaseSlot() {
	if x.memory.slot != nil {
		<-x.memory.slot
		x.memory.slot = nil
	}
}

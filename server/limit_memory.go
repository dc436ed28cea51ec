package server

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/changefeed-go/changefeed/internal/querypage"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// The budget limits the memory that all requests use together (Options.MemoryLimit). It
// has two parts.
//
// The first part counts the bytes that clients can delay: headers, bodies, and answers
// that wait for their readers. Each class has its own share, so that stalled clients of
// one class do not stop the others. A class without room refuses requests with 429. It
// never waits, so it cannot deadlock. An existing answer is always counted, because a
// completed write must not be answered 429. No further answer begins until there is room.
//
// The second part limits the work that no client can delay. Such work takes a slot. Each
// class of work has a fixed number of slots, and each slot needs a limited amount of
// memory until its answer begins. Requests wait for a slot in the order of arrival, for
// at most slotWait. The holder of a slot never waits for the budget or a client.

// class is a kind of counted bytes.
type class int

const (
	ofHeaders class = iota
	ofBodies
	ofAnswers
	classes
)

// Shares of the memory limit, and the memory that a request with a slot may use.
const (
	headerShare = 8 // an eighth
	bodyShare   = 4
	answerShare = 4

	// A read holds a page of the feed. A query holds a page and a batch of index entries.
	// A sort also holds its rows.
	readMemory  = 16 << 20
	queryMemory = 32 << 20
	sortMemory  = 64 << 20
	// A bulk request with patches or reads holds bulkItems and two copies of its answer:
	// its parts and the whole.
	bulkMemory = 32 << 20
	// The least numbers of slots keep a few clients independent of each other in the
	// smallest servers.
	minReads   = 4
	minQueries = 2
	minSorts   = 1
	minBulks   = 2
	// sortShare is the share of the limit that the rows of one sort may use. The result
	// is limited by minSortMemory and querypage.MaxSortMemory.
	sortShare     = 8
	minSortMemory = 4 << 20

	// bodyFactor is the number of copies of a body in memory: the received body, and the
	// copy that the store writes.
	bodyFactor = 2
	// queryFactor is the approximate size of a compiled query, as a multiple of its text.
	queryFactor = 32
	// longQuery is the size of a query text, in bytes, above which parsing alone needs a
	// slot for sorts.
	longQuery = 64 << 10

	// slotWait is the longest time that a request waits for a slot.
	slotWait = 5 * time.Second
	// busyRetry is the time after which a refused client should retry.
	busyRetry = time.Second
)

// budget is the memory of all requests of a server. A nil budget has no limits.
type budget struct {
	limits [classes]int64
	used   [classes]atomic.Int64
	// cutStalled is called when a class has no room. It may close the connections of
	// stalled clients.
	cutStalled func()
	// rows is the memory for the rows of one sort, in bytes.
	rows int

	slots [slotClasses]chan struct{}
}

// newBudget returns the budget of a memory limit in bytes. It returns nil if the limit is
// 0.
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

// reserve counts n more bytes of a class. If they do not fit, it counts nothing and
// returns false.
func (b *budget) reserve(c class, n int64) bool {
	if b.used[c].Add(n) <= b.limits[c] {
		return true
	}
	b.used[c].Add(-n)
	b.cutStalled()
	return false
}

// inFlight returns the number of counted bytes.
func (b *budget) inFlight() (n int64) {
	for c := range b.used {
		n += b.used[c].Load()
	}
	return n
}

// sortRows returns the memory for the rows of one sort, in bytes.
func (b *budget) sortRows() int {
	if b == nil {
		return querypage.MaxSortMemory
	}
	return b.rows
}

// heldMemory is the counted memory of one connection, or of one request without a guarded
// connection. With a nil budget, it counts nothing. It is safe for concurrent use.
type heldMemory struct {
	b    *budget
	held [classes]atomic.Int64
	// slot is the slot of the request, or nil. Only the goroutine that serves the request
	// may use it.
	slot chan struct{}
}

// unlimited is the memory of all requests if there is no budget.
var unlimited heldMemory

// grow counts n more bytes, or returns an error with 429. For bytes that can never fit,
// the error has 413.
func (c *heldMemory) grow(of class, n int64) error {
	switch {
	case c.b == nil || n <= 0:
		return nil
	case c.held[of].Load()+n > c.b.limits[of]:
		return tooLarge("the request needs more memory than one request may use (%d bytes); start the server with a larger --memory-limit", c.b.limits[of])
	case !c.b.reserve(of, n):
		return errBusy
	}
	c.held[of].Add(n)
	return nil
}

// add counts n bytes that are already in memory.
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

// size returns the number of counted bytes.
func (c *heldMemory) size() (n int64) {
	for of := range c.held {
		n += c.held[of].Load()
	}
	return n
}

// errBusy is the answer to a request for which there is no memory now. No part of the
// request was carried out.
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

// acquireSlot waits for a slot. The slot is released when the answer begins, or by
// releaseSlot. It returns an error with 429 if there is no room for answers or the wait
// takes too long. It returns the error of the request's context if that ends first.
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
	if !b.answerable() { // other requests may have answered meanwhile
		x.releaseSlot()
		return errBusy
	}
	return nil
}

// answerable reports whether there is room for answers. If there is none, it closes
// stalled connections.
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

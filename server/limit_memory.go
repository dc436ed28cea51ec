package server

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/changefeed-go/changefeed/internal/querypage"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// This file enforces Options.MemoryLimit, which limits the memory of all requests
// together. It uses two methods.
//
// Bytes whose lifetime depends on clients are counted: headers, bodies, and answers that
// clients have not read yet. Each of these classes has its own share of the limit, so
// that stalled clients of one class do not stop the others. If a class is full, a request
// that needs more of it is refused with 429. It never waits, so requests cannot deadlock.
// An existing answer is always counted, even beyond the limit, because a completed write
// must not be answered 429. No further answer begins until there is room.
//
// Work that does not wait for clients takes a slot: a read, a query, a sort or a bulk
// request. Each class of work has a fixed number of slots. The work in one slot needs a
// limited amount of memory until its answer begins. Requests get slots in the order of
// arrival, and wait for at most slotWait. The holder of a slot never waits for counted
// memory or for a client.

// class is a kind of counted memory: headers, bodies or answers.
type class int

const (
	ofHeaders class = iota
	ofBodies
	ofAnswers
	classes
)

// A share is the part of the memory limit that a class may use: 8 means an eighth. A
// constant such as readMemory is the memory that a request with a slot may use, in bytes.
const (
	headerShare = 8 // an eighth
	bodyShare   = 4
	answerShare = 4

	// A read holds one page of the change feed. A query also holds a batch of index
	// entries, and a sort also holds the rows that it sorts.
	readMemory  = 16 << 20
	queryMemory = 32 << 20
	sortMemory  = 64 << 20
	// A bulk request holds bulkItems bytes of items, and its answer twice: the parts and
	// the whole.
	bulkMemory = 32 << 20
	// These are the least numbers of slots, for servers with a small limit. With fewer,
	// one slow request could stop all others of its class.
	minReads   = 4
	minQueries = 2
	minSorts   = 1
	minBulks   = 2
	// sortShare is the part of the memory limit that the rows of one sort may use. The
	// result is at least minSortMemory and at most querypage.MaxSortMemory.
	sortShare     = 8
	minSortMemory = 4 << 20

	// bodyFactor is the number of copies of a request's body in memory: the body that was
	// received, and the copy that the store writes.
	bodyFactor = 2
	// queryFactor is the memory of a compiled query, approximately, as a multiple of the
	// length of its text.
	queryFactor = 32
	// longQuery is the length of a query text, in bytes, above which the query needs a
	// sort slot while it is parsed.
	longQuery = 64 << 10

	// slotWait is the longest time that a request waits for a slot. After that it is
	// answered 429.
	slotWait = 5 * time.Second
	// busyRetry is the time after which a client that got 429 should retry.
	busyRetry = time.Second
)

// budget counts the memory of all requests of one server and holds the slots. A nil
// budget has no limits.
type budget struct {
	limits [classes]int64
	used   [classes]atomic.Int64
	// cutStalled is called when a class is full. It closes connections whose clients are
	// stalled.
	cutStalled func()
	// rows is the memory that the rows of one sort may use, in bytes.
	rows int

	slots [slotClasses]chan struct{}
}

// newBudget returns the budget for a memory limit in bytes. It returns nil if the limit
// is 0, which means no limit.
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

// reserve adds n bytes to the count of a class and returns true. If they do not fit into
// the limit of the class, it changes nothing and returns false.
func (b *budget) reserve(c class, n int64) bool {
	if b.used[c].Add(n) <= b.limits[c] {
		return true
	}
	b.used[c].Add(-n)
	b.cutStalled()
	return false
}

// inFlight returns the number of bytes that are counted now, in all classes.
func (b *budget) inFlight() (n int64) {
	for c := range b.used {
		n += b.used[c].Load()
	}
	return n
}

// sortRows returns the memory that the rows of one sort may use, in bytes.
func (b *budget) sortRows() int {
	if b == nil {
		return querypage.MaxSortMemory
	}
	return b.rows
}

// heldMemory holds the counted bytes of one connection. If no guard watches the
// connection, it holds those of one request. With a nil budget it counts nothing. It is
// safe for concurrent use.
type heldMemory struct {
	b    *budget
	held [classes]atomic.Int64
	// slot is the slot that the request holds, or nil. Only the goroutine that serves the
	// request may use it.
	slot chan struct{}
}

// unlimited is the heldMemory of every request if the server has no memory limit.
var unlimited heldMemory

// grow counts n more bytes of a class. If they do not fit now, it returns an error with
// the status 429. If they could never fit, the status is 413.
func (c *heldMemory) grow(of class, n int64) error {
	switch {
	case c.b == nil || n <= 0:
		return nil
	case c.held[of].Load()+n > c.b.limits[of]:
		return failure(http.StatusRequestEntityTooLarge, wire.SubNone, "the request needs more memory than one request may use (%d bytes); start the server with a larger --memory-limit", c.b.limits[of])
	case !c.b.reserve(of, n):
		return errBusy
	}
	c.held[of].Add(n)
	return nil
}

// add counts n more bytes of a class, even beyond the limit, because they are already in
// memory.
func (c *heldMemory) add(of class, n int64) {
	if c.b == nil || n <= 0 {
		return
	}
	c.held[of].Add(n)
	if c.b.used[of].Add(n) > c.b.limits[of] {
		c.b.cutStalled()
	}
}

// release ends the counting of the bytes of one class.
func (c *heldMemory) release(of class) {
	if c.b != nil {
		c.b.used[of].Add(-c.held[of].Swap(0))
	}
}

// releaseAll ends the counting of the bytes of all classes.
func (c *heldMemory) releaseAll() {
	for of := range classes {
		c.release(of)
	}
}

// size returns the number of bytes that c counts, in all classes.
func (c *heldMemory) size() (n int64) {
	for of := range c.held {
		n += c.held[of].Load()
	}
	return n
}

// errBusy is the answer to a request that was refused for lack of memory. No part of the
// request was carried out.
var errBusy = &statusError{
	status: http.StatusTooManyRequests, substatus: wire.SubNone, retryAfter: busyRetry,
	message: "The server's memory for requests is in use (--memory-limit); try again after the time in x-ms-retry-after-ms.",
}

// slotClass is a class of work that needs a slot: a read, a query, a sort or a bulk
// request.
type slotClass int

const (
	readSlots slotClass = iota
	querySlots
	sortSlots
	bulkSlots
	slotClasses
)

// acquireSlot waits until a slot of class l is free and takes it. The slot is released
// when the answer begins, or by releaseSlot. It returns errBusy after slotWait, or if the
// memory for answers is full. It returns the error of the request's context if that ends
// first.
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

// answerable reports whether the memory for answers has room. If it is full, it also
// closes stalled connections.
func (b *budget) answerable() bool {
	if b.used[ofAnswers].Load() < b.limits[ofAnswers] {
		return true
	}
	b.cutStalled()
	return false
}

// releaseSlot releases the slot of the request. It does nothing if the request has none.
func (x *request) releaseSlot() {
	if x.memory.slot != nil {
		<-x.memory.slot
		x.memory.slot = nil
	}
}

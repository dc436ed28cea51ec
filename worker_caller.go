package changefeed

import "sync"

// caller makes blocking calls of one kind for a worker, one at a time, on a goroutine of
// its own. Each call returns a function that handles its result. That function goes to
// the worker's inbox and runs on the worker's goroutine.
//
// So a worker's state belongs to one goroutine, which never blocks. While a source, a
// store or a handler blocks, the worker can still renew the lease, notice the end of
// trust, and stop.
type caller struct {
	work chan func() answer
	// busy is true from the start of a call until the worker has received its result.
	// Only the worker uses it.
	busy bool
	// ended is called when the worker has received a result, before it is handled. It may be nil.
	ended func(*caller)
	done  sync.WaitGroup
}

// answer is a function that handles the result of a call, and the caller that made the
// call.
type answer struct {
	caller *caller
	then   func()
}

// newCaller returns a caller, whose goroutine open starts.
func newCaller() *caller { return &caller{work: make(chan func() answer, 1)} }

// open starts the goroutine of the caller. Answers go to inbox until the worker is over.
func (l *caller) open(inbox chan<- answer, over <-chan struct{}) {
	l.done.Go(func() {
		for call := range l.work {
			select {
			case inbox <- call():
			case <-over:
			}
		}
	})
}

// start makes a call on the caller's goroutine. then handles its result on the worker's
// goroutine. The caller must not be busy.
func (l *caller) start(call func() (then func())) {
	l.busy = true
	l.work <- func() answer { return answer{l, call()} }
}

// close ends the caller's goroutine when the current call has returned.
func (l *caller) close() { close(l.work) }

package changefeed

import "sync"

// caller carries out blocking calls of one kind for a worker, one at a time, on a
// goroutine of its own. What is to be done with a call's result is a function
// too; it is put into the worker's inbox and runs on the worker's goroutine.
//
// So a worker's state belongs to one goroutine, which never blocks, and whatever
// a source, a store or a handler does, the worker can renew the lease, notice
// that trust ends, and stop.
type caller struct {
	work chan func() answer
	// busy is true from start to the answer; it belongs to the worker.
	busy bool
	done sync.WaitGroup
}

// answer is what to do when a call has returned.
type answer struct {
	caller *caller
	then func()
}

// newCaller makes a lane; open starts its goroutine, which ends after close.
func newCaller() *caller { return &caller{work: make(chan func() answer, 1)} }

// open starts the lane's goroutine. inbox must have room for one answer of each
// lane, so that an answer nobody waits for holds up nobody.
func (l *caller) open(inbox chan<- answer) {
	l.done.Go(func() {
		for call := range l.work {
			inbox <- call()
		}
	})
}

// start carries out call. The lane must not be busy.
func (l *caller) start(call func() (then func())) {
	l.busy = true
	l.work <- func() answer { return answer{l, call()} }
}

// close ends the goroutine when the call under way has returned.
func (l *caller) close() { close(l.work) }

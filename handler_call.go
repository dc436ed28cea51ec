package changefeed

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
)

// errGoexit reports that the user's code ended its goroutine by runtime.Goexit.
var errGoexit = errors.New("the call ended its goroutine by runtime.Goexit, as FailNow, Fatal and Skip of package testing do; return an error instead")

// callUser calls the user's code and returns its failure as a *HandlerError. A failure is
// a returned error, a panic, or a call of runtime.Goexit. b is the batch that the call
// handles, or nil.
//
// A Goexit on the worker's goroutine would end it, and the lease would stay owned without
// being processed. So the call runs on a goroutine of its own.
func callUser(op string, b *queuedBatch, call func() error) error {
	failure := &HandlerError{Op: op}
	if b != nil && len(b.Changes) > 0 {
		failure.FirstLSN, failure.LastLSN = b.Changes[0].LSN, b.Changes[len(b.Changes)-1].LSN
	}
	stack := callAside(func() {
		failure.Err = guarded(call)
		if err := guarded(func() error { return failure.inspect(b) }); err != nil { // a method of the user's error has panicked
			failure.Err = err
			_ = failure.inspect(b)
		}
	})
	if stack != nil {
		failure.Stack, failure.Err = stack, errGoexit
		_ = failure.inspect(b)
		failure.Stack = stack
	}
	if failure.Err == nil {
		return nil
	}
	return failure
}

// guarded calls code of the user, and returns its error, or that of a panic.
func guarded(call func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = recovered(v)
		}
	}()
	return call()
}

// inspect finds out what the error of the user's code says beside its text. It calls methods
// of that error. b is the batch of the call, or nil. The result is nil.
func (e *HandlerError) inspect(b *queuedBatch) error {
	if e.Err == nil {
		return nil
	}
	if panicked, is := errors.AsType[*panicError](e.Err); is {
		e.Stack = panicked.stack
	}
	e.stops, e.gap = stops(e.Err), errors.Is(e.Err, ErrGap)
	if b == nil {
		return nil
	}
	err := e.Err
	if _, is := err.(*panicError); is { //nolint:errorlint // an error that wraps a panic was returned
		err = errGoexit // whatever the value of the panic, the whole batch has failed
	}
	var by *BatchError
	e.failed, by, e.problem = failedChanges(err, len(b.Changes))
	e.partial, e.culprit = by != nil, -1
	cause := e.Err
	if by != nil {
		e.culprit = slices.IndexFunc(e.failed, func(i int) bool { return !errors.Is(by.Errors[i], ErrNotHandled) })
		if e.culprit >= 0 {
			cause = by.Errors[e.failed[e.culprit]]
		}
	}
	e.permanent, e.cause = permanent(cause), cause.Error()
	return nil
}

// panicError is a panic of the user's code that was recovered.
type panicError struct {
	err   error
	stack []byte
}

func (e *panicError) Error() string { return "panic: " + e.err.Error() }
func (e *panicError) Unwrap() error { return e.err }

// recovered returns the error of a panic with the value v. It is called by the deferred
// function that recovers the panic, so the stack shows where the panic began.
func recovered(v any) *panicError {
	err, ok := v.(error)
	if !ok {
		err = fmt.Errorf("%v", v)
	}
	return &panicError{err, debug.Stack()}
}

// callAside runs call, which must not panic, on a goroutine of its own and waits for the end
// of that goroutine. It returns the stack of a call of runtime.Goexit, or nil if call returned.
func callAside(call func()) (stack []byte) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		returned := false
		defer func() {
			if !returned {
				stack = debug.Stack()
			}
		}()
		call()
		returned = true
	}()
	<-ended
	return stack
}

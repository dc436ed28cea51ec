package changefeed

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// errGoexit is the failure of user code that ended its goroutine.
var errGoexit = errors.New("the call ended its goroutine by runtime.Goexit, as FailNow, Fatal and Skip of package testing do; return an error instead")

// callUser calls the user's code and returns its failure as a *HandlerError. Nothing stops
// runtime.Goexit, and on the goroutine of the caller it would end the caller: the lease would be
// kept for ever with no further batch. So the call runs on a goroutine of its own.
func callUser(op string, p *queuedPage, call func() error) error {
	failure := &HandlerError{Op: op, Err: errGoexit}
	if p != nil && len(p.Changes) > 0 {
		failure.FirstLSN, failure.LastLSN = p.Changes[0].LSN, p.Changes[len(p.Changes)-1].LSN
	}
	var err error
	if stack := callAside(func() { err = recovered(op, p, call) }); stack != nil {
		failure.Stack = stack
		return failure
	}
	return err
}

// callAside runs call on a goroutine of its own and waits for the end of that goroutine. It
// returns the stack of a call of runtime.Goexit, or nil if call returned. A panic that
// call does not recover ends the program.
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

// recovered calls the user's code and returns its failure as a *HandlerError, a panic
// with its stack.
func recovered(op string, p *queuedPage, call func() error) (err error) {
	failure := &HandlerError{Op: op}
	if p != nil && len(p.Changes) > 0 {
		failure.FirstLSN, failure.LastLSN = p.Changes[0].LSN, p.Changes[len(p.Changes)-1].LSN
	}
	defer func() {
		if v := recover(); v != nil {
			failure.Stack = debug.Stack()
			failure.Err = fmt.Errorf("panic: %v", v)
			if cause, ok := v.(error); ok {
				failure.Err = fmt.Errorf("panic: %w", cause)
			}
			err = failure
		}
	}()
	if failure.Err = call(); failure.Err != nil {
		return failure
	}
	return nil
}

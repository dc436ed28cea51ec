package query

import (
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/internal/query/value"
)

// These are limits on the evaluation of one document.
const (
	// maxValue limits a value that a query creates, in bytes: an array of ARRAY(...), a
	// row, a concatenated string. It is far above the 2 MB of a document.
	maxValue = 16 << 20
	// maxKept limits the memory of DISTINCT and GROUP BY in a subquery for one document,
	// in bytes.
	maxKept = 32 << 20
	// maxTime limits the time of evaluating one document. A page cannot end within a
	// document before the document's first row, and clients do not wait much longer than
	// this.
	maxTime = 10 * time.Second
	// checkEvery is the number of steps between two calls of frame.stopped. A step is one
	// combination of a join, or stepBytes bytes of data that are processed.
	checkEvery = 4096
	stepBytes  = 512
	// longValue is the size in bytes from which work on a value is counted by its length,
	// and not only as one step.
	longValue = 4096
)

// frame is the state in which expressions are evaluated for one document.
type frame struct {
	extractor
	inner []looped // of the bindings other than the document
	steps int      // of work since the last call of stopped; see Spend
	// stopped is called from time to time. If it returns an error, the evaluation ends
	// with it. If stopped is nil, the evaluation is not interrupted.
	stopped func() error
	// began is the time at which stopped was first called for the current document.
	began time.Time
	args  []value.Value // a stack of the arguments of nested calls
	held  int           // size of args in bytes
	err   error         // why the evaluation ended: an *EvaluationError, or the error of stopped
	// notFinite reports whether the row that is being made lacks a value because it is
	// infinite or NaN.
	notFinite bool
	// group is the group for which the select list of a GROUP BY query is evaluated.
	group *group
}

// Spend counts one step of work, plus the steps of processing that many bytes. It reports
// whether to continue the evaluation.
func (f *frame) Spend(bytes int) bool {
	if f.steps += 1 + bytes/stepBytes; f.steps >= checkEvery && f.stopped != nil {
		f.steps = 0
		f.checkStopped()
	}
	return f.err == nil
}

// checkStopped calls stopped and checks the time limit of the document.
func (f *frame) checkStopped() {
	if f.err == nil {
		f.err = f.stopped()
	}
	switch now := time.Now(); {
	case f.began.IsZero():
		f.began = now
	case now.Sub(f.began) > maxTime:
		f.stop(fmt.Sprintf("The query takes more than %v for one item. Its joins and subqueries make too many combinations of the item's arrays, "+
			"or its functions process too much data: add conditions on the item or on one array alone, or join fewer arrays in one query.", maxTime))
	}
}

// read decodes the JSON raw. If the evaluation has ended, it returns undefined.
func (f *frame) read(raw []byte) value.Value {
	if len(raw) > longValue && !f.Spend(len(raw)) {
		return value.Value{}
	}
	return value.Decode(raw)
}

// spendOn calls Spend for a comparison of two values if they are long. It
// reports whether to continue the evaluation.
func (f *frame) spendOn(a, b value.Value) bool {
	n := len(a.Bytes) + len(b.Bytes)
	return n <= longValue || f.Spend(n)
}

// stop ends the evaluation of the document with an EvaluationError with this message.
func (f *frame) stop(message string) {
	if f.err == nil {
		f.err = &EvaluationError{Message: message}
	}
}

// made ends the evaluation with ErrNotFinite if the row that was made has a value that is
// infinite or NaN.
func (f *frame) made() {
	if f.notFinite && f.err == nil {
		f.err = ErrNotFinite
	}
	f.notFinite = false
}

// tooLarge reports whether size, the size of a value in bytes, exceeds maxValue. If so,
// it also ends the evaluation.
func (f *frame) tooLarge(size int) bool {
	if size <= maxValue {
		return false
	}
	f.stop(fmt.Sprintf("The query makes a value of more than %d bytes.", maxValue))
	return true
}

// holds reports whether a subquery may hold size bytes of rows or groups in memory. If
// size exceeds maxKept, it ends the evaluation and returns false.
func (f *frame) holds(size int) bool {
	if size > maxKept {
		f.stop(fmt.Sprintf("A subquery with DISTINCT or GROUP BY needs more than %d bytes of memory for one item.", maxKept))
	}
	return f.err == nil
}

// fail ends the evaluation because a function failed for the given reason. If the
// evaluation already has an error, that one is kept.
func (f *frame) fail(function, reason string) {
	if f.err == nil {
		f.err = &EvaluationError{Message: fmt.Sprintf("The function %s can't be evaluated: %s.", function, reason)}
	}
}

package query

import (
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/internal/query/value"
)

// Bounds of what one row, and the subqueries of one document, may hold.
const (
	// maxValue bounds a value that a query makes, in bytes: an array of ARRAY(...), a
	// row, a string put together. It is far beyond a document's 2 MB.
	maxValue = 16 << 20
	// maxKept bounds what DISTINCT and GROUP BY of a subquery hold of one document.
	maxKept = 32 << 20
	// maxTime is how long one document is evaluated: no answer begins in its middle
	// before it has a row there, and clients don't wait much longer.
	maxTime = 10 * time.Second
	// checkEvery is how many steps are done before somebody is asked whether the
	// result is still wanted: combinations that are run through, and bytes that are
	// gone over, by stepBytes of them.
	checkEvery = 4096
	stepBytes  = 512
	// longValue is from how many bytes on a value's are counted.
	longValue = 4096
)

// frame is what expressions are evaluated in: one document.
type frame struct {
	extractor
	inner []extractor // of the bindings other than the document
	steps int         // of work, since somebody was asked whether to go on; see spend
	// stopped returns the reason for which nobody wants the result any more; nil: nobody tells.
	stopped func() error
	// began is when it was first asked about the document.
	began time.Time
	args  []value.Value // a stack of arguments of the calls under way
	held  int           // what they take, in bytes
	err   error         // why the document can't be evaluated: an *EvaluationError, or what stopped returned
	// group is what expressions over groups see.
	group *group
}

// Spend notes one step of work, and what it takes to go over so many bytes. It
// says whether the evaluation still has a purpose.
func (f *frame) Spend(bytes int) bool {
	if f.steps += 1 + bytes/stepBytes; f.steps >= checkEvery && f.stopped != nil {
		f.steps = 0
		f.ask()
	}
	return f.err == nil
}

// ask asks whether to go on, and looks at the clock.
func (f *frame) ask() {
	if f.err == nil {
		f.err = f.stopped()
	}
	switch now := time.Now(); {
	case f.began.IsZero():
		f.began = now
	case now.Sub(f.began) > maxTime:
		f.stop(fmt.Sprintf("The query takes more than %v for one item. Its joins and subqueries make too many combinations of the item's arrays, "+
			"or its functions go over too much: add conditions on the item or on one array alone, or join fewer arrays in one query.", maxTime))
	}
}

// read is the value of JSON, undefined once the evaluation has no purpose.
func (f *frame) read(raw []byte) value.Value {
	if len(raw) > longValue && !f.Spend(len(raw)) {
		return value.Value{}
	}
	return value.Decode(raw)
}

// spendOn is spend of what it takes to look into two values, where that is much.
func (f *frame) spendOn(a, b value.Value) bool {
	n := len(a.Bytes) + len(b.Bytes)
	return n <= longValue || f.Spend(n)
}

// stop ends the evaluation of the document.
func (f *frame) stop(message string) {
	if f.err == nil {
		f.err = &EvaluationError{Message: message}
	}
}

// tooLarge ends the evaluation when a value has become too large.
func (f *frame) tooLarge(size int) bool {
	if size <= maxValue {
		return false
	}
	f.stop(fmt.Sprintf("The query makes a value of more than %d bytes.", maxValue))
	return true
}

// holds is false, and the evaluation ends, when a subquery holds too much.
func (f *frame) holds(size int) bool {
	if size > maxKept {
		f.stop(fmt.Sprintf("A subquery with DISTINCT or GROUP BY needs more than %d bytes of memory for one item.", maxKept))
	}
	return f.err == nil
}

// fail keeps the first error of a document.
func (f *frame) fail(function, reason string) {
	if f.err == nil {
		f.err = &EvaluationError{Message: fmt.Sprintf("The function %s can't be evaluated: %s.", function, reason)}
	}
}

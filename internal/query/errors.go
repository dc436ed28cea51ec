package query

import (
	"fmt"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
)

// EvaluationError says why a query can't be evaluated for a document: a subquery
// that stands for one value has several rows, a value grows too large, or a
// function can't do with its arguments. 400.
type EvaluationError struct {
	// Message is the whole sentence.
	Message string
}

// Error returns the message.
func (e *EvaluationError) Error() string { return e.Message }

// ServiceMessage returns the error as the service puts it into the message of its
// answer: {"Errors":["..."]}.
func (e *EvaluationError) ServiceMessage() string {
	return (&syntax.Error{Message: e.Message}).ServiceMessage()
}

// ParameterError says that a parameter of the query has no value, or one that
// its place doesn't take: 400.
type ParameterError struct {
	// Name is the parameter's, with its @.
	Name string
	// Reason says what is wrong with it.
	Reason string
}

// Error names the parameter and what is wrong.
func (e *ParameterError) Error() string {
	return fmt.Sprintf("the query's parameter %s %s", e.Name, e.Reason)
}

// PlanError says that a query is right within one partition key or range, and has
// no plan over several: 400, on a plan request and where a plan would be needed.
type PlanError struct {
	// Message is the service's sentence.
	Message string
}

// Error returns the service's sentence.
func (e *PlanError) Error() string { return e.Message }

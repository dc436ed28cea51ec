package query

import (
	"errors"
	"fmt"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
)

// EvaluationError reports why a query cannot be evaluated for a document. A scalar
// subquery has several rows, a value grows too large, or a function refuses its
// arguments. The HTTP status is 400.
type EvaluationError struct {
	// Message is the whole sentence.
	Message string
}

// Error returns the message.
func (e *EvaluationError) Error() string { return e.Message }

// ServiceMessage returns the error in the service's format: {"Errors":["..."]}.
func (e *EvaluationError) ServiceMessage() string {
	return (&syntax.Error{Message: e.Message}).ServiceMessage()
}

// ErrNotFinite reports that a row contains the infinite or NaN result of an operator, such as
// 1/0. Its text is that of the service, which answers with the HTTP status 400 and the
// sub-status 4001.
var ErrNotFinite = errors.New("The response content contains a numeric value that cannot be represented in JSON (e.g. Infinity and NaN).") //nolint:revive,staticcheck // the service's sentence

// ParameterError reports that a parameter of the query has no value or an unsuitable one.
// The HTTP status is 400.
type ParameterError struct {
	// Name is the name of the parameter, with its @.
	Name string
	// Reason completes the sentence that begins with the parameter's name.
	Reason string
}

// Error returns the name of the parameter and the reason.
func (e *ParameterError) Error() string {
	return fmt.Sprintf("the query's parameter %s %s", e.Name, e.Reason)
}

// PlanError reports that a query has no plan over several ranges, although it can run
// within one partition key or range. The HTTP status is 400. It occurs in a plan request
// and wherever the query needs a plan.
type PlanError struct {
	// Message is the service's sentence.
	Message string
}

// Error returns the service's sentence.
func (e *PlanError) Error() string { return e.Message }

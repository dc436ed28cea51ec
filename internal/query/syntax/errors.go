package syntax

import (
	"encoding/json"
	"fmt"
)

// The codes by which the service names what is wrong with a query. Others may
// be added.
const (
	// CodeSyntax: the text is not of the grammar.
	CodeSyntax = "SC1001"
	// CodeIdentifier: a name that is neither the collection's alias nor a function's.
	CodeIdentifier = "SC2001"
	// CodeFunction: no built-in function has that name.
	CodeFunction = "SC2005"
	// CodeDuplicate: two members of a select list or of an object have the same name.
	CodeDuplicate = "SC2022"
	// CodeGroupStar: SELECT * with GROUP BY.
	CodeGroupStar = "SC2041"
	// CodeArguments: a function has another number of arguments.
	CodeArguments = "SC2050"
	// CodeTop, CodeLimit and CodeOffset: the count is not an integer from 0 to 2147483647.
	CodeTop    = "SC2060"
	CodeLimit  = "SC2061"
	CodeOffset = "SC2062"
	// CodeAlias: two sources of a FROM have the same name.
	CodeAlias = "SC2011"
	// CodeStar: SELECT * without FROM, or of a join.
	CodeStar = "SC2040"
	// CodeSubqueryOrder, CodeSubqueryTop and CodeSubqueryLimit: what subqueries don't have.
	CodeSubqueryOrder = "SC2202"
	CodeSubqueryTop   = "SC2203"
	CodeSubqueryLimit = "SC2204"
	// CodeAggregate: an aggregate of an aggregate or a subquery.
	CodeAggregate = "SC2101"
	// CodeNotGrouped: the select list has what differs within a group.
	CodeNotGrouped = "SC2102"
	// CodeOrderBy: a sort key that is no path.
	CodeOrderBy = "2206"
	// CodeTooComplex: the text is longer or nested deeper than is read here.
	CodeTooComplex = "SC3001"
)

// Error says what is wrong with a query's text, and where. It is what a
// client did wrong: 400.
type Error struct {
	// Code is one of the constants above, or empty: some errors have none.
	Code string
	// Message is the service's sentence.
	Message string
	// Near is the text at fault, as it was written; empty at the end of the text.
	Near string
	// Offset and End are the byte positions in the text of what is at fault: [Offset, End).
	Offset, End int
	// Line and Column count from 1; Column counts bytes.
	Line, Column int
}

// Error returns the message with its place.
func (e *Error) Error() string {
	if e.Code == "" {
		return e.Message
	}
	return fmt.Sprintf("%s (%s, line %d, column %d)", e.Message, e.Code, e.Line, e.Column)
}

// ServiceMessage returns the error as the service puts it into the message of
// its answer: {"errors":[{"severity":"Error","location":{...},"code":...,"message":...}]}, or {"Errors":[...]} for what has no code.
func (e *Error) ServiceMessage() string {
	type location struct {
		Start int `json:"start"`
		End   int `json:"end"`
	}
	type entry struct {
		Severity string   `json:"severity"`
		Location location `json:"location"`
		Code     string   `json:"code"`
		Message  string   `json:"message"`
	}
	var answer any = map[string][]string{"Errors": {e.Message}}
	if e.Code != "" {
		answer = map[string][]entry{"errors": {{"Error", location{e.Offset, e.End}, e.Code, e.Message}}}
	}
	b, err := json.Marshal(answer)
	if err != nil {
		return e.Message
	}
	return string(b)
}

// UnsupportedError names a part of the language, or a function, that is right
// in the service and isn't evaluated here: 400. Nothing of the query was run.
type UnsupportedError struct {
	// What is the feature's name, such as "JOIN" or "the function ST_DISTANCE".
	What string
}

// Error names the feature.
func (e *UnsupportedError) Error() string {
	return e.What + " is not supported by this server"
}

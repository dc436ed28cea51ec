package syntax

import (
	"encoding/json"
	"fmt"
)

// Codes by which the service names the error in a query. More may be added.
const (
	// CodeSyntax: the text does not match the grammar.
	CodeSyntax = "SC1001"
	// CodeEnd: the text ends before the query does.
	CodeEnd = "SC1002"
	// CodeToken: a character begins no token.
	CodeToken = "SC1010"
	// CodeIdentifier: a name is neither an alias of the collection nor a function.
	CodeIdentifier = "SC2001"
	// CodeFunction: no built-in function has this name.
	CodeFunction = "SC2005"
	// CodeDuplicate: two members of a select list or of an object have the same name.
	CodeDuplicate = "SC2022"
	// CodeGroupStar: SELECT * has GROUP BY.
	CodeGroupStar = "SC2041"
	// CodeArguments: a function is called with a wrong number of arguments.
	CodeArguments = "SC2050"
	// CodeTop, CodeLimit and CodeOffset: the count is not an integer from 0 to
	// 2147483647.
	CodeTop    = "SC2060"
	CodeLimit  = "SC2061"
	CodeOffset = "SC2062"
	// CodeAlias: two sources of a FROM have the same name.
	CodeAlias = "SC2011"
	// CodeStar: SELECT * has no FROM, or is of a join.
	CodeStar = "SC2040"
	// CodeSubqueryOrder, CodeSubqueryTop and CodeSubqueryLimit: a subquery has ORDER BY,
	// TOP or OFFSET LIMIT.
	CodeSubqueryOrder = "SC2202"
	CodeSubqueryTop   = "SC2203"
	CodeSubqueryLimit = "SC2204"
	// CodeAggregate: the argument of an aggregate contains an aggregate or a subquery.
	CodeAggregate = "SC2101"
	// CodeNotGrouped: the select list contains a value that differs within a group.
	CodeNotGrouped = "SC2102"
	// CodeOrderBy: a sort key is not a path.
	CodeOrderBy = "2206"
	// CodeTooComplex: the text exceeds the maximum length or nesting.
	CodeTooComplex = "SC3001"
)

// Error describes an error in the text of a query and its position. The HTTP status is
// 400.
type Error struct {
	// Code is one of the constants above. It is empty for errors without a code.
	Code string
	// Message is the service's sentence.
	Message string
	// Near is the invalid part of the text. It is empty at the end of the text.
	Near string
	// Offset and End are byte positions in the text. The invalid part is [Offset, End).
	Offset, End int
	// Line and Column count from 1. Column counts bytes.
	Line, Column int
}

// Error returns the message with its code and position.
func (e *Error) Error() string {
	if e.Code == "" {
		return e.Message
	}
	return fmt.Sprintf("%s (%s, line %d, column %d)", e.Message, e.Code, e.Line, e.Column)
}

// ServiceMessage returns the error in the service's format. With a code it is
// {"errors":[{"severity":"Error","location":{...},"code":...,"message":...}]}, otherwise
// {"Errors":[...]}.
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

// UnsupportedError names a feature of the language, or a function, that the service has
// and this package does not evaluate. The HTTP status is 400. No part of the query was
// evaluated.
type UnsupportedError struct {
	// The name of the feature, such as "ORDER BY RANK" or "the function ST_DISTANCE".
	What string
}

// Error returns a sentence with the name of the feature.
func (e *UnsupportedError) Error() string {
	return e.What + " is not supported by this server"
}

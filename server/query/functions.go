package query

import (
	"bytes"
	"fmt"
	"math"
	"strings"
)

// function is a built-in function of its arguments' values.
type function struct {
	min, max int // arguments
	eval     func(args []value) value
}

// functions are the built-in functions, by their names in upper case.
var functions = map[string]function{
	"ARRAY_CONTAINS":   {2, 3, arrayContains},
	"CONTAINS":         {2, 3, onStrings(bytes.Contains)},
	"ENDSWITH":         {2, 3, onStrings(bytes.HasSuffix)},
	"STARTSWITH":       {2, 3, onStrings(bytes.HasPrefix)},
	"IS_ARRAY":         {1, 1, isKind(kindArray)},
	"IS_BOOL":          {1, 1, isKind(kindFalse, kindTrue)},
	"IS_BOOLEAN":       {1, 1, isKind(kindFalse, kindTrue)}, // what Java's SDK resumes a page with
	"IS_DEFINED":       {1, 1, func(a []value) value { return boolOf(a[0].kind != kindUndefined) }},
	"IS_FINITE_NUMBER": {1, 1, isKind(kindNumber)}, // JSON has no others
	"IS_INTEGER":       {1, 1, isInteger},
	"IS_NULL":          {1, 1, isKind(kindNull)},
	"IS_NUMBER":        {1, 1, isKind(kindNumber)},
	"IS_OBJECT":        {1, 1, isKind(kindObject)},
	"IS_PRIMITIVE":     {1, 1, isKind(kindNull, kindFalse, kindTrue, kindNumber, kindString)},
	"IS_STRING":        {1, 1, isKind(kindString)},
}

// known are the service's functions that aren't evaluated here. Naming them tells
// a missing function from a misspelt one.
var known = func() map[string]bool {
	m := map[string]bool{}
	for name := range strings.FieldsSeq(`
		ABS ACOS ASIN ATAN ATN2 CEILING COS COT DEGREES EXP FLOOR LOG LOG10 PI POWER RADIANS RAND ROUND SIGN SIN SQRT
		SQUARE TAN TRUNC NUMBERBIN INTADD INTBITAND INTBITLEFTSHIFT INTBITNOT INTBITOR INTBITRIGHTSHIFT INTBITXOR INTDIV
		INTMOD INTMUL INTSUB
		CONCAT INDEX_OF LEFT LENGTH LOWER LTRIM REGEXMATCH REPLACE REPLICATE REVERSE RIGHT RTRIM STRINGEQUALS STRINGJOIN
		STRINGSPLIT STRINGTOARRAY STRINGTOBOOLEAN STRINGTONULL STRINGTONUMBER STRINGTOOBJECT SUBSTRING SUBSTRING_AFTER
		SUBSTRING_BEFORE TOSTRING TRIM UPPER CONTAINS_ALL_CI CONTAINS_ALL_CS CONTAINS_ANY_CI CONTAINS_ANY_CS
		ARRAY_AVG ARRAY_CONCAT ARRAY_CONTAINS_ALL ARRAY_CONTAINS_ANY ARRAY_LENGTH ARRAY_MAX ARRAY_MEDIAN ARRAY_MIN
		ARRAY_SLICE ARRAY_SUM CHOOSE OBJECTTOARRAY SETDIFFERENCE SETEQUAL SETINTERSECT SETUNION
		DATETIMEADD DATETIMEBIN DATETIMEDIFF DATETIMEFORMAT DATETIMEFROMPARTS DATETIMEPART DATETIMETOTICKS
		DATETIMETOTIMESTAMP GETCURRENTDATETIME GETCURRENTDATETIMESTATIC GETCURRENTTICKS GETCURRENTTICKSSTATIC
		GETCURRENTTIMESTAMP GETCURRENTTIMESTAMPSTATIC TICKSTODATETIME TIMESTAMPTODATETIME
		IIF DOCUMENTID HASH TOHASH
		ST_AREA ST_DISTANCE ST_INTERSECTS ST_ISVALID ST_ISVALIDDETAILED ST_WITHIN
		FULLTEXTCONTAINS FULLTEXTCONTAINSALL FULLTEXTCONTAINSANY FULLTEXTSCORE RRF VECTORDISTANCE`) {
		m[name] = true
	}
	return m
}()

// checkCall finds the function of a call.
func (c *checker) checkCall(e *call) error {
	name := strings.ToUpper(e.name)
	switch f, ok := functions[name]; {
	case e.udf:
		return &UnsupportedError{What: "the user-defined function udf." + e.name}
	case ok && (len(e.args) < f.min || len(e.args) > f.max):
		return c.fail(e.tok, CodeArguments, fmt.Sprintf("The %s function requires %s.", name, arity(f.min, f.max)))
	case ok:
		return nil
	case name == "COUNT":
		return &UnsupportedError{What: "COUNT anywhere but as an item of the outermost SELECT"}
	case aggregates[name] != "":
		return &UnsupportedError{What: "the aggregate function " + name}
	case known[name]:
		return &UnsupportedError{What: "the function " + name}
	}
	return c.fail(e.tok, CodeFunction, fmt.Sprintf("'%s' is not a recognized built-in function name.", e.name))
}

func arity(low, high int) string {
	switch {
	case low != high:
		return fmt.Sprintf("%d to %d arguments", low, high)
	case low == 1:
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", low)
}

func isKind(kinds ...kind) func([]value) value {
	var set uint16
	for _, k := range kinds {
		set |= 1 << k
	}
	return func(a []value) value { return boolOf(set&(1<<a[0].kind) != 0) }
}

func isInteger(a []value) value {
	return boolOf(a[0].kind == kindNumber && a[0].num == math.Trunc(a[0].num))
}

// onStrings is a function of two strings; a third argument of true ignores case.
func onStrings(f func(s, sub []byte) bool) func([]value) value {
	return func(a []value) value {
		if a[0].kind != kindString || a[1].kind != kindString {
			return value{}
		}
		if len(a) == 3 {
			switch a[2].kind {
			case kindTrue:
				return boolOf(f(bytes.ToUpper(a[0].b), bytes.ToUpper(a[1].b)))
			case kindFalse:
			default:
				return value{}
			}
		}
		return boolOf(f(a[0].b, a[1].b))
	}
}

// arrayContains looks for a value in an array. With a third argument of true an
// object is found in one that has its members and maybe others.
func arrayContains(a []value) value {
	partial := false
	if len(a) == 3 {
		switch {
		case a[2].isBool():
			partial = a[2].kind == kindTrue
		case a[2].kind != kindUndefined:
			return value{}
		}
	}
	if a[0].kind != kindArray || a[1].kind == kindUndefined {
		return value{}
	}
	found := false
	eachElement(a[0].b, func(_ int, raw []byte) bool {
		v := decode(raw)
		if partial && v.kind == kindObject && a[1].kind == kindObject {
			found = hasMembers(v.b, a[1].b)
		} else {
			found = equal(v, a[1])
		}
		return !found
	})
	return boolOf(found)
}

func hasMembers(object, wanted []byte) bool {
	all := true
	eachMember(wanted, func(name, raw []byte) bool {
		v := lookup(object, name)
		all = v.kind != kindUndefined && equal(v, decode(raw))
		return all
	})
	return all
}

package value

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of functions into docs/queries.md")

// tableBegin and tableEnd are the lines in docs/queries.md around the generated table of
// functions.
const (
	tableBegin = "<!-- functions: generated from the registry by go test ./internal/query/value -run FunctionTable -update -->\n"
	tableEnd   = "<!-- end of functions -->"
)

// functionTable returns the table of all functions, in Markdown.
func functionTable() string {
	all := maps.Clone(Functions)
	for name := range Aggregates {
		all[name] = Function{class: classAggregate, min: 1, max: 1}
	}
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		if c := strings.Compare(string(all[a].class), string(all[b].class)); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	var b strings.Builder
	b.WriteString("| function | class | arguments | here |\n|---|---|---|---|\n")
	for _, name := range names {
		f := all[name]
		status := "evaluated"
		if k := Aggregates[name]; !k.Evaluated() || k == NoAggregate && !f.Evaluated() {
			status = "refused by name"
		}
		count := strings.TrimSuffix(strings.TrimSuffix(f.Arity(), "s"), " argument")
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, f.class, count, status)
	}
	return b.String()
}

func TestDocumentedFunctionTableIsTheRegistry(t *testing.T) {
	const page = "../../../docs/queries.md"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), tableBegin)
	table, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no table between %q and %q", page, tableBegin, tableEnd)
	}
	want := functionTable()
	if *update {
		if err := os.WriteFile(page, []byte(before+tableBegin+want+tableEnd+after), 0o644); err != nil { //nolint:gosec // documentation is public
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Errorf("the table of functions in docs/queries.md differs from the registry; write it with\n\tgo test ./internal/query/value -run FunctionTable -update\ngot\n%s\nwant\n%s", table, want)
	}
}

// The names are from the index page of the service's documentation in November 2025. Each
// function must either be evaluated or be refused with an error that names it.
func TestEveryFunctionOfTheServicesIndexIsKnown(t *testing.T) {
	for class, names := range map[class]string{
		classAggregate: `AVG COUNT MAX MIN SUM`,
		classArray: `ARRAY_AVG ARRAY_CONCAT ARRAY_CONTAINS ARRAY_CONTAINS_ALL ARRAY_CONTAINS_ANY ARRAY_LENGTH ARRAY_MAX ARRAY_MEDIAN ARRAY_MIN
			ARRAY_SLICE ARRAY_SUM CHOOSE OBJECTTOARRAY SETDIFFERENCE SETEQUAL SETINTERSECT SETUNION`,
		classConditional: `IIF`,
		classDate: `AGO DATETIMEADD DATETIMEBIN DATETIMEDIFF DATETIMEFORMAT DATETIMEFROMPARTS DATETIMEPART DATETIMETOTICKS DATETIMETOTIMESTAMP
			DAY GETCURRENTDATETIME GETCURRENTDATETIMESTATIC GETCURRENTTICKS GETCURRENTTICKSSTATIC GETCURRENTTIMESTAMP
			GETCURRENTTIMESTAMPSTATIC MONTH NOW TICKSTODATETIME TIMESTAMPTODATETIME YEAR`,
		classFullText: `FULLTEXTCONTAINS FULLTEXTCONTAINSALL FULLTEXTCONTAINSANY FULLTEXTSCORE RRF`,
		classItem:     `DOCUMENTID`,
		classMath: `ABS ACOS ASIN ATAN ATN2 CEILING COS COT DEGREES EXP FLOOR INTADD INTBITAND INTBITLEFTSHIFT INTBITNOT INTBITOR
			INTBITRIGHTSHIFT INTBITXOR INTDIV INTMOD INTMUL INTSUB LOG LOG10 NUMBERBIN PI POWER RADIANS RAND ROUND SIGN SIN SQRT SQUARE TAN TRUNC`,
		classSpatial: `ST_AREA ST_DISTANCE ST_INTERSECTS ST_ISVALID ST_ISVALIDDETAILED ST_WITHIN`,
		classString: `CONCAT CONTAINS CONTAINS_ALL_CI CONTAINS_ALL_CS CONTAINS_ANY_CI CONTAINS_ANY_CS ENDSWITH INDEX_OF LASTINDEXOF LEFT LENGTH
			LOWER LTRIM REGEXMATCH REPLACE REPLICATE REVERSE RIGHT RTRIM STARTSWITH STRINGEQUALS STRINGJOIN STRINGSPLIT STRINGTOARRAY
			STRINGTOBOOLEAN STRINGTONULL STRINGTONUMBER STRINGTOOBJECT SUBSTRING TOSTRING TRIM UPPER`,
		classType:   `IS_ARRAY IS_BOOL IS_DATETIME IS_DEFINED IS_FINITE_NUMBER IS_INTEGER IS_NULL IS_NUMBER IS_OBJECT IS_PRIMITIVE IS_STRING`,
		classVector: `VECTORDISTANCE`,
	} {
		for name := range strings.FieldsSeq(names) {
			f, ok := Functions[name]
			if class == classAggregate {
				_, ok = Aggregates[name]
				f.class = class
			}
			if !ok || f.class != class {
				t.Errorf("%s is known %v, of class %q, want %q", name, ok, f.class, class)
			}
		}
	}
}

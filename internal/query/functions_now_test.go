package query

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// The examples on the documentation's pages of AGO and NOW must have the documented
// results, at the time that the pages assume.
func TestTimesAroundNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2024, 10, 14, 14, 20, 30, 666888800, time.UTC)))
		for expression, want := range map[string]string{
			`AGO("yyyy", 1)`: `"2023-10-14T14:20:30.6668888Z"`, `AGO("yyyy", -1)`: `"2025-10-14T14:20:30.6668888Z"`, `AGO("ss", 30)`: `"2024-10-14T14:20:00.6668888Z"`, `AGO("ms", 4)`: `"2024-10-14T14:20:30.6628888Z"`,
			`NOW()`: `"2024-10-14T14:20:30.6668888Z"`, `NOW("yyyy", 1)`: `"2025-10-14T14:20:30.6668888Z"`, `NOW("yyyy", -1)`: `"2023-10-14T14:20:30.6668888Z"`, `NOW("ss", 30)`: `"2024-10-14T14:21:00.6668888Z"`, `NOW("ms", 4)`: `"2024-10-14T14:20:30.6708888Z"`,
			`GETCURRENTDATETIME()`: `"2024-10-14T14:20:30.6668888Z"`, `GETCURRENTDATETIMESTATIC()`: `"2024-10-14T14:20:30.6668888Z"`, `GETCURRENTTICKS()`: `17289156306668888`, `GETCURRENTTICKSSTATIC()`: `17289156306668888`,
			`GETCURRENTTIMESTAMP()`: `1728915630666`, `GETCURRENTTIMESTAMPSTATIC()`: `1728915630666`, `AGO("week", 1)`: ``, `NOW("dd", 0.5)`: ``, `AGO("dd", c.missing)`: ``,
		} {
			if got := evaluate(t, expression, `{}`); got != want {
				t.Errorf("%s is %s, want %s", expression, got, want)
			}
		}
	})
}

// The functions of the static time must return the time at which the query was bound, for
// every row. The functions of the current time must change from row to row, even with
// constant arguments.
func TestStaticTimesAreConstantWithinAQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, name := range []string{"GETCURRENTDATETIME", "GETCURRENTTICKS", "GETCURRENTTIMESTAMP"} {
			q, err := Parse(fmt.Sprintf("SELECT VALUE [%sSTATIC(), %sSTATIC(), [%s()][0]] FROM c", name, name, name))
			if err != nil {
				t.Fatal(err)
			}
			row := func(rows *Rows) (v [3]any) {
				raw, ok, err := rows.Eval([]byte(`{}`))
				if err != nil || !ok {
					t.Fatalf("%s: %v (%v)", name, ok, err)
				}
				if err := json.Unmarshal(raw, &v); err != nil {
					t.Fatal(err)
				}
				return v
			}
			bound := func() *Rows {
				b, err := q.Bind(nil)
				if err != nil {
					t.Fatal(err)
				}
				return b.Rows()
			}
			rows := bound()
			first := row(rows)
			time.Sleep(time.Second)
			second, later := row(rows), row(bound())
			if first[0] != first[1] || second[0] != first[0] || second[1] != first[0] || later[0] == first[0] {
				t.Errorf("%sSTATIC is %v, then %v, and in the next query %v", name, first[:2], second[:2], later[:2])
			}
			if first[2] != first[0] || second[2] == first[2] || second[2] != later[0] {
				t.Errorf("%s is %v, then %v", name, first[2], second[2])
			}
		}
	})
}

func TestRandomNumbersDifferFromRowToRow(t *testing.T) {
	seen := map[any]bool{}
	got, err := rowsOf("SELECT VALUE RAND() + 0 FROM c", nil, []json.RawMessage{[]byte(`{}`), []byte(`{}`), []byte(`{}`), []byte(`{}`)}...)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range got {
		n, ok := v.(float64)
		if !ok || n < 0 || n >= 1 {
			t.Errorf("RAND is %v", v)
		}
		seen[v] = true
	}
	if len(seen) != 4 {
		t.Errorf("four rows have %v", got)
	}
}

package server

import (
	"fmt"
	"slices"
	"testing"

	"github.com/changefeed-go/changefeed/storetype"
)

// A query groups documents by values of every JSON type. Each row must have the key of
// its own group, also if the key is an object or an array.
func TestEveryGroupHasItsOwnKeyOfAnyKind(t *testing.T) {
	// These are the values of the member v. An empty string means that documents have no
	// v.
	values := []string{``, `null`, `false`, `true`, `-1`, `12.5`, `""`, `"s"`, `[]`, `[1,[null]]`, `{}`, `{"a":{"b":[1]}}`}
	// These are GROUP BY expressions, each with its value as a format of v, and its value
	// if v is undefined.
	keys := []struct{ expression, defined, undefined string }{
		{`c.v`, `%s`, ``},
		{`{'a': c.v}`, `{"a":%s}`, `{}`},
		{`[c.v]`, `[%s]`, `[]`},
		{`{'a': {'b': [c.v, 1]}, 'c': 2}`, `{"a":{"b":[%s,1]},"c":2}`, `{"a":{"b":[1]},"c":2}`},
		{`[[c.v], {'a': c.v}]`, `[[%[1]s],{"a":%[1]s}]`, `[[],{}]`},
		{`(c.n = 99 ? c.n : {'a': c.v})`, `{"a":%s}`, `{}`},
	}
	for _, partitions := range []int{1, 5} {
		ts := newTestServer(t, Options{ServeAllQueries: true})
		c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: partitions})
		for i, v := range values {
			if v != "" {
				v = `,"v":` + v
			}
			for k := range 3 {
				put(t, c, `{"id":"%d-%d","pk":"k%d","n":%d%s}`, i, k, k, i, v)
			}
		}
		for _, key := range keys {
			var members, elements, partial []string
			for _, v := range values {
				k := key.undefined
				if v != "" {
					k = fmt.Sprintf(key.defined, v)
				}
				if k == "" {
					members = append(members, `{"n":3}`)
					elements = append(elements, `{"in":[3]}`)
					partial = append(partial, `{"groupByItems":[{}],"payload":{"n":3}}`)
					continue
				}
				members = append(members, `{"k":`+k+`,"n":3}`)
				elements = append(elements, `{"in":[`+k+`,3]}`)
				partial = append(partial, `{"groupByItems":[{"item":`+k+`}],"payload":{"k":`+k+`,"n":3}}`)
			}
			for format, want := range map[string][]string{
				"SELECT %[1]s AS k, COUNT(1) AS n FROM c GROUP BY %[1]s":       members,
				"SELECT VALUE {'in': [%[1]s, COUNT(1)]} FROM c GROUP BY %[1]s": elements,
				// This is the form of a GROUP BY query in a plan.
				`SELECT [{"item": %[1]s}] AS groupByItems, {"k": %[1]s, "n": COUNT(1)} AS payload FROM c GROUP BY %[1]s`: partial,
			} {
				text := fmt.Sprintf(format, key.expression)
				slices.Sort(want)
				for _, size := range []int{-1, 5} {
					got, _ := ts.askAll(items(size), nil, text)
					if slices.Sort(got); !slices.Equal(got, want) {
						t.Errorf("%s over %d partitions in pages of %d:\n got %s\nwant %s", text, partitions, size, got, want)
					}
				}
			}
		}
	}
}

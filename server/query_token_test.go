package server

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
)

var simpleToken = regexp.MustCompile(`^\{"token":"-RID:~[^#]+#RT:1#TRC:4#ISV:2#IEO:\d+#QCF:8","range":\{"min":"[0-9A-F]*","max":"[0-9A-F]+"\}\}$`)

// A continuation that is sent with another query, other parameters, or to another part of
// the container would make rows vanish in silence.
func TestContinuationsAreGoodForTheirQueryAndScopeOnly(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.withItems(2, 60, 9)
	ps, err := c.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	in := func(id string) headers { return together(items(4), headers{"x-ms-documentdb-partitionkeyrangeid": id}) }
	with := func(h headers, token string) headers { return together(h, headers{"x-ms-continuation": token}) }
	next := func(h headers, text string, params ...any) string {
		token := ts.ask(h, text, params...).want(200).header.Get("x-ms-continuation")
		if token == "" {
			t.Fatalf("%s has one page", text)
		}
		return token
	}
	a, b := in(ps[0].ID), in(ps[1].ID)
	const scan, sorted = "SELECT c.id FROM c WHERE c.v >= @from", `SELECT c._rid, [{"item": c.v}] AS orderByItems, c.v AS payload FROM c WHERE (true) ORDER BY c.v DESC`
	for text, params := range map[string][]any{scan: {"@from", 0}, sorted: nil} {
		token := next(a, text, params...)
		if text == scan && !simpleToken.MatchString(token) {
			t.Errorf("the continuation is %s", token)
		}
		second := next(with(a, token), text, params...)
		if !strings.HasPrefix(second, `[{"token":"-RID:~`) || !strings.Contains(second, "#RT:2#TRC:8#") {
			t.Errorf("the second page's continuation is %s", second)
		}
		for name, refused := range map[string]response{
			"another partition":    ts.ask(with(b, token), text, params...),
			"another key":          ts.ask(with(pk(`["k1"]`), next(latest(pk(`["k0"]`), items(2)), text, params...)), text, params...),
			"another query":        ts.ask(with(a, token), strings.Replace(text, "c.v", "c.w", 1), params...),
			"a damaged token":      ts.ask(with(a, strings.Replace(token, "TRC:4", "TRC:5", 1)), text, params...),
			"no token":             ts.ask(with(a, "garbage"), text, params...),
			"another range":        ts.ask(with(b, strings.Replace(token, ps[0].Range.Max, ps[1].Range.Max, 1)), text, params...),
			"the wrong parameters": ts.ask(with(a, token), text, "@from", 1),
		} {
			if text == sorted && name == "the wrong parameters" {
				continue // this query has none
			}
			if name == "another query" && text == sorted {
				refused = ts.ask(with(a, token), strings.Replace(text, " DESC", "", 1))
			}
			if refused.status != 400 || !strings.Contains(string(refused.body), "Invalid Continuation Token") {
				t.Errorf("%s: %s is answered with %d: %.200s", text, name, refused.status, refused.body)
			}
		}
	}
	// SDKs replace the condition of a sorted query when they resume, but not the user's.
	mine := strings.Replace(sorted, "(true)", `(c.id != "x") AND (true)`, 1)
	token := next(a, mine)
	for text, status := range map[string]int{
		strings.Replace(mine, "(true)", "(c.v < 50 OR IS_STRING(c.v))", 1): 200,
		strings.Replace(mine, `"x"`, `"y"`, 1):                             400,
		strings.Replace(mine, `(c.id != "x") AND `, "", 1):                 400,
		strings.Replace(mine, "(true)", "(c.w < 50)", 1):                   400,
	} {
		ts.ask(with(a, token), text).want(status)
	}
	// In a query of the user's own, no condition is the SDK's.
	for of, others := range map[string][]string{
		"SELECT c.id FROM c WHERE c.v > 5 ORDER BY c.v": {
			"SELECT c.id FROM c WHERE c.v < 5 ORDER BY c.v", "SELECT c.id FROM c WHERE c.v > 6 ORDER BY c.v",
			"SELECT c.id FROM c WHERE true ORDER BY c.v", "SELECT c.id FROM c ORDER BY c.v",
		},
		sorted: {
			strings.Replace(sorted, "(true)", "(c.v > 50)", 1),         // against the order
			strings.Replace(sorted, "(true)", "(c.v != 50)", 1),        // not a place in the order
			strings.Replace(sorted, "(true)", "(c.v < c.v)", 1),        // not a value
			strings.Replace(sorted, "(true)", "(ABS(c.v) < 50)", 1),    // not of the key
			strings.Replace(sorted, "(true)", "(c.v < 9) AND true", 1), // the user's, and the SDK's
		},
	} {
		token := next(a, of)
		for _, text := range others {
			ts.ask(with(a, token), text).want(400).wantText("Invalid Continuation Token")
		}
	}
	two := strings.NewReplacer(`"item": c.v}]`, `"item": c.v}, {"item": c.id}]`, "c.v DESC", "c.v DESC, c.id").Replace(sorted)
	token = next(a, two)
	for filter, status := range map[string]int{
		`(c.v <= 50 AND c.id >= "a")`:                 200, // the forms of SDKs
		`(c.v < 50) OR (c.v = 50 AND c.id >= "a")`:    200,
		`((c.v < 50 OR NOT IS_DEFINED(c.v)))`:         200,
		`(c.id >= "a" AND c.v <= 50)`:                 400,
		`(c.v <= 60 AND c.v <= 50)`:                   400,
		`(c.v <= 60 AND (c.v <= 50 AND c.id >= "a"))`: 400,
	} {
		ts.ask(with(a, token), strings.Replace(two, "true", filter, 1)).want(status)
	}
	value := strings.Replace(sorted, "(true)", "(true) AND IS_DEFINED(c.v)", 1)
	token = next(a, value)
	ts.ask(with(a, token), strings.Replace(value, "(true)", "(c.v <= 50)", 1)).want(200)
	ts.ask(with(a, token), strings.Replace(value, "(true)", "(c.v <= 50) AND (c.v <= 40)", 1)).want(400)
	token = next(a, sorted)
	ts.ask(with(a, token), mine).want(400)
	ts.ask(with(a, token), strings.Replace(sorted, "(true)", "(c.v < 50)", 1)).want(200)
	// A container's continuation is not one of a partition's, and the other way round.
	ts.ask(with(items(4), next(a, scan, "@from", 0)), scan, "@from", 0).want(400)
	// A partition's continuation is not one of a key in it, and a key's not one of its range.
	key, keys := keyIn(t, c, ps[0])
	ts.ask(with(together(pk(key), items(4)), next(a, scan, "@from", 0)), scan, "@from", 0).want(400).wantText("Invalid Continuation Token")
	ts.ask(with(together(keys, items(2)), next(latest(pk(key), items(2)), scan, "@from", 0)), scan, "@from", 0).want(400).wantText("Invalid Continuation Token")
	// The parts of a partition continue where it was.
	token = next(a, scan, "@from", 0)
	before := ts.ask(a, scan, "@from", 0).rows()
	children, err := c.Split(t.Context(), ps[0].ID, "")
	if err != nil {
		t.Fatal(err)
	}
	ts.ask(with(a, token), scan, "@from", 0).want(410, 1002)
	got := before
	for _, p := range children {
		rows, _ := ts.askAll(with(in(p.ID), token), nil, scan, "@from", 0)
		got = append(got, rows...)
	}
	rest, _ := ts.askAll(b, nil, scan, "@from", 0)
	slices.Sort(got)
	if len(got)+len(rest) != 60 || len(slices.Compact(got)) != len(got) {
		t.Errorf("%d rows of the split partition and %d of the other one", len(got), len(rest))
	}
}

// keyIn returns a key of withItems that is in partition p, and the headers of the range that
// has this key only.
func keyIn(t *testing.T, c *engine.Container, p feed.Partition) (key string, keys headers) {
	t.Helper()
	for i := range 9 {
		id := fmt.Sprintf("k%d", i)
		r, err := c.KeyRange(feed.PartitionKey{id})
		if err != nil {
			t.Fatal(err)
		}
		if p.Range.Contains(r) {
			return `["` + id + `"]`, headers{wire.HeaderStartEPK: r.Min, wire.HeaderEndEPK: r.Max}
		}
	}
	t.Fatalf("no key is in partition %s", p.ID)
	return "", nil
}

// A read over several partitions has one continuation, and range says where it is. Sent to another
// partition, it would leave rows out in silence.
func TestContinuationsOverPartitionsAreGoodForTheirScope(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.withItems(2, 60, 9)
	ps, err := c.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := together(items(7), headers{wire.HeaderCrossPartition: "true"})
	form := regexp.MustCompile(`^\[?\{"token":"-RID:~[^#]+#RT:\d#TRC:\d+#ISV:2#IEO:\d+#QCF:8","range":\{"min":"([0-9A-F]*)","max":"([0-9A-F]+)"\}\}\]?$`)
	rows, borders, seen := 0, 0, map[string]bool{}
	for token := ""; ; {
		a := ts.ask(together(all, headers{"x-ms-continuation": token}), "SELECT c.id FROM c").want(200)
		page := a.object()["Documents"].([]any)
		rows += len(page)
		for _, row := range page {
			seen[row.(map[string]any)["id"].(string)] = true
		}
		if token = a.header.Get("x-ms-continuation"); token == "" {
			break
		}
		m := form.FindStringSubmatch(token)
		if m == nil {
			t.Fatalf("the continuation is %s", token)
		}
		in := 0
		if m[1] != "" {
			in = 1
		}
		if m[1] != ps[in].Range.Min || m[2] != ps[in].Range.Max {
			t.Errorf("the range of %s is no partition's", token)
		}
		if len(page) < 7 {
			borders++
		}
		for i, p := range ps {
			status := 400
			if i == in {
				status = 200
			}
			ts.ask(together(items(7), headers{"x-ms-documentdb-partitionkeyrangeid": p.ID, "x-ms-continuation": token}), "SELECT c.id FROM c").want(status)
		}
		ts.ask(latest(pk(`["k0"]`), headers{"x-ms-continuation": token}), "SELECT c.id FROM c").want(400)
	}
	if rows != 60 || len(seen) != 60 || borders != 1 {
		t.Errorf("%d rows, %d of them different, and %d pages at the end of a partition", rows, len(seen), borders)
	}
}

// Documents that are read without a query have such continuations, too.
func TestContinuationsOfTheReadFeedAreGoodForTheirScopeOnly(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.withItems(2, 60, 9)
	ps, err := c.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	key, keys := keyIn(t, c, ps[0])
	other, _ := keyIn(t, c, ps[1])
	in := func(id string) headers { return headers{wire.HeaderPartitionID: id} }
	scopes := map[string]headers{"partition": in(ps[0].ID), "other partition": in(ps[1].ID), "key": pk(key), "key's range": keys, "other key": pk(other), "container": nil}
	read := func(h headers, token string) response {
		return ts.do("GET", orders+"/docs", together(h, items(2), headers{wire.HeaderContinuation: token}), "")
	}
	tokens := map[string]string{}
	for name, h := range scopes {
		tokens[name] = read(h, "").want(200).header.Get(wire.HeaderContinuation)
		second := read(h, tokens[name]).want(200).header.Get(wire.HeaderContinuation)
		if !strings.Contains(tokens[name], "#RT:1#TRC:2#") || !strings.Contains(second, "#RT:2#TRC:4#") {
			t.Errorf("%s: the continuations are %s and %s", name, tokens[name], second)
		}
		for _, damaged := range []string{"garbage", "[]", "{}", strings.Replace(tokens[name], "TRC:2", "TRC:3", 1)} {
			read(h, damaged).want(400).wantText("Invalid Continuation Token")
		}
	}
	parts := []string{"partition of container", "other partition of container", "key's range of container", "key's range of partition"}
	for of, token := range tokens {
		for name, h := range scopes {
			if name != of && !slices.Contains(parts, name+" of "+of) {
				read(h, token).want(400).wantText("Invalid Continuation Token")
			}
		}
	}
	children, err := c.Split(t.Context(), ps[0].ID, "")
	if err != nil {
		t.Fatal(err)
	}
	read(in(ps[0].ID), tokens["partition"]).want(410, 1002)
	n := 2
	for _, h := range []headers{in(children[0].ID), in(children[1].ID), in(ps[1].ID)} {
		token := tokens["partition"]
		if h[wire.HeaderPartitionID] == ps[1].ID {
			token = ""
		}
		for more := true; more; more = token != "" {
			a := read(h, token).want(200)
			n, token = n+len(a.rows()), a.header.Get(wire.HeaderContinuation)
		}
	}
	if n != 60 {
		t.Errorf("%d documents were read, of 60", n)
	}
}

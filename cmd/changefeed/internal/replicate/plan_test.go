package replicate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
)

func keyed(t *testing.T, source, target string) shape {
	t.Helper()
	var s shape
	var err error
	if s.source.paths, err = parseKeyPaths(strings.Split(source, ",")); err != nil {
		t.Fatal(err)
	}
	if s.target.paths, err = parseKeyPaths(strings.Split(target, ",")); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestADocumentIsTakenApartAndKeepsItsText(t *testing.T) {
	s := keyed(t, "/a,/n/x", `/b,/"q q",/id`)
	for _, c := range []struct{ raw, id, source, target, body string }{
		{
			`{"_rid":"r","id":"i\u00fc", "a" : 1.50,"n":{"x":true,"_ts":1},"b":"B","q q":null,"_self":"s","_etag":"e","_attachments":"a","_ts":7,"_lsn":3}`,
			"iü", `[1.5,true]`, `["B",null,"iü"]`, `{"id":"i\u00fc","a" : 1.50,"n":{"x":true,"_ts":1},"b":"B","q q":null}`,
		},
		{`{"id":"i","_lsn":7,"_rid":"r","_ts":7,"_lsn":3}`, "i", `[{},{}]`, `[{},{},"i"]`, `{"id":"i","_lsn":7}`}, // the first is the user's own
		{`{"id":"i"}`, "i", `[{},{}]`, `[{},{},"i"]`, `{"id":"i"}`},
		{`{"_ts":1,"n":5,"b":[1],"a":{},"id":""}`, "", `[{},{}]`, `[{},{},""]`, `{"n":5,"b":[1],"a":{},"id":""}`},
		{`{"id":"i","n":{"x":null}}`, "i", `[{},null]`, `[{},{},"i"]`, `{"id":"i","n":{"x":null}}`},
	} {
		d, err := s.parse(json.RawMessage(c.raw))
		if err != nil {
			t.Errorf("%s: %v", c.raw, err)
			continue
		}
		if d.id != c.id || d.source.String() != c.source || d.target.String() != c.target || string(d.body) != c.body {
			t.Errorf("%s is id %q, keys %s and %s, body %s", c.raw, d.id, d.source, d.target, d.body)
		}
	}
	for _, bad := range []string{``, `{}`, `[]`, `{"id":1}`, `{"id":"a"`, `{"a":1}`} {
		if d, err := s.parse(json.RawMessage(bad)); err == nil {
			t.Errorf("%q is taken for a document: %+v", bad, d)
		}
	}
	for _, bad := range []string{"", "a", "/", "/a//b"} {
		if _, err := parseKeyPaths([]string{bad}); err == nil {
			t.Errorf("%q is taken for a path", bad)
		}
	}
}

// told returns a plan as text, for comparisons.
func told(p *plan) string {
	what := p.target.String()
	if p.gone {
		what = "gone"
	}
	text := fmt.Sprintf("%s/%s %s left %v", p.source, p.id, what, slices.Sorted(maps.Keys(p.left)))
	if p.search {
		text += " search"
	}
	if p.there {
		text += " there"
	}
	return text
}

func TestABatchIsCollapsedToOnePlanForEachDocument(t *testing.T) {
	doc := func(id, a, b string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"id":%q,"a":%q,"b":%q,"_ts":1}`, id, a, b))
	}
	all := feed.Full()
	for name, c := range map[string]struct {
		rules   rules
		changes []feed.Change
		want    []string
		unsure  int
	}{
		"written before the beginning, into an empty target": {
			rules{moves: true, empty: true, ends: []protocol.End{{Range: all, LSN: 10}}},
			[]feed.Change{{LSN: 9, Current: doc("1", "x", "B")}, {LSN: 10, Current: doc("2", "x", "B")}, {LSN: 11, Current: doc("3", "x", "B")}},
			[]string{`["x"]/1 ["B"] left []`, `["x"]/2 ["B"] left []`, `["x"]/3 ["B"] left [] search there`},
			0,
		},
		"written before the beginning, the target wasn't empty": {
			rules{moves: true, ends: []protocol.End{{Range: all, LSN: 10}}},
			[]feed.Change{{LSN: 9, Current: doc("1", "x", "B")}},
			[]string{`["x"]/1 ["B"] left [] search there`},
			0,
		},
		"of two ends the earlier one counts": {
			rules{moves: true, empty: true, ends: []protocol.End{{Range: feed.Range{Max: "80"}, LSN: 10}, {Range: feed.Range{Min: "80", Max: "FF"}, LSN: 5}}},
			[]feed.Change{{LSN: 7, Current: doc("1", "x", "B")}},
			[]string{`["x"]/1 ["B"] left [] search there`},
			0,
		},
		"without moves nothing is looked up, and that is counted": {
			rules{},
			[]feed.Change{{LSN: 1, Current: doc("1", "x", "B")}, {LSN: 2, Current: doc("1", "y", "B")}},
			[]string{`["x"]/1 ["B"] left [] there`, `["y"]/1 ["B"] left [] there`},
			2,
		},
		"versions contain a document's old key": {
			rules{moves: true, empty: true, ends: []protocol.End{{Range: all, LSN: 100}}},
			[]feed.Change{
				{Op: feed.Create, Current: doc("1", "x", "A")},
				{Op: feed.Replace, Current: doc("1", "x", "B"), Previous: doc("1", "x", "A")},
				{Op: feed.Create, Current: doc("2", "x", "A")},
				{Op: feed.Replace, Current: doc("1", "x", "C"), Previous: doc("1", "x", "B")},
			},
			[]string{`["x"]/1 ["C"] left [["A"] ["B"]] there`, `["x"]/2 ["A"] left []`},
			0,
		},
		"a document moves and moves back": {
			rules{moves: true},
			[]feed.Change{
				{Op: feed.Replace, Current: doc("1", "x", "B"), Previous: doc("1", "x", "A")},
				{Op: feed.Replace, Current: doc("1", "x", "A"), Previous: doc("1", "x", "B")},
			},
			[]string{`["x"]/1 ["A"] left [["B"]] there`},
			0,
		},
		"a delete, and a document that comes back": {
			rules{moves: true},
			[]feed.Change{
				{Op: feed.Delete, DeletedID: "1", DeletedKey: feed.PartitionKey{"x"}, Previous: doc("1", "x", "A")},
				{Op: feed.Delete, DeletedID: "2", DeletedKey: feed.PartitionKey{"x"}, Previous: doc("2", "x", "A")},
				{Op: feed.Create, Current: doc("2", "x", "B")},
			},
			[]string{`["x"]/1 gone left [["A"]] there`, `["x"]/2 ["B"] left [["A"]] there`},
			0,
		},
		"without previous images all is looked up but creates": {
			rules{moves: true},
			[]feed.Change{
				{Op: feed.Delete, DeletedID: "1", DeletedKey: feed.PartitionKey{"x"}},
				{Op: feed.Replace, Current: doc("2", "x", "B")},
				{Op: feed.Create, Current: doc("3", "x", "B")},
			},
			[]string{`["x"]/1 gone left [] search there`, `["x"]/2 ["B"] left [] search there`, `["x"]/3 ["B"] left []`},
			0,
		},
	} {
		r := c.rules
		r.shape, r.rekeyed = keyed(t, "/a", "/b"), true
		plans, unsure, err := r.collapse(all, c.changes)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, p := range plans {
			got = append(got, told(p))
		}
		if !slices.Equal(got, c.want) || unsure != c.unsure {
			t.Errorf("%s:\n got %q, %d unsure\nwant %q, %d", name, got, unsure, c.want, c.unsure)
		}
	}
	r := rules{shape: keyed(t, "/a", "/b"), rekeyed: true}
	for _, bad := range []feed.Change{{LSN: 4, Current: json.RawMessage(`{"a":1}`)}, {Op: feed.Delete, DeletedID: "1", LSN: 4}, {Op: feed.Delete, LSN: 4}} {
		if _, _, err := r.collapse(all, []feed.Change{bad}); err == nil || !strings.Contains(err.Error(), "LSN 4") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// The lines once said "copied 1 documents".
func TestReportCountsOneDocumentInTheSingular(t *testing.T) {
	p := &progress{write: &writer{}}
	for n, want := range []string{"copied 0 documents,", "copied 1 document,", "copied 2 documents,"} {
		p.write.copied.Store(int64(n))
		p.add(measurement{at: time.Unix(int64(n), 0), leases: 1, owned: 1})
		if got := p.line("copied"); !strings.HasPrefix(got, want) {
			t.Errorf("%q; want %q", got, want)
		}
	}
}

func TestProgressReportsRateAndTimeLeft(t *testing.T) {
	p := &progress{write: &writer{}}
	now := time.Unix(1_800_000_000, 0)
	for i := range 30 { // it takes 5 s for 100 documents and 1,000 LSNs, so at the end five minutes are left
		p.write.copied.Store(int64(i * 100))
		p.add(measurement{at: now.Add(time.Duration(i) * 5 * time.Second), behind: int64(89_000 - i*1000), part: .333, leases: 4, owned: 3})
	}
	const want = "copied 2,900 documents, 20/s, 33 % of the way, about 5m0s left, 3 of 4 leases owned"
	if got := p.line("copied"); got != want {
		t.Errorf("%q; want %q", got, want)
	}
	p.write.moved.Store(1)
	p.write.deleted.Store(1_000_000)
	p.add(measurement{at: now.Add(150 * time.Second), leases: 4, owned: 4, caughtUp: true})
	if got := p.line("copied"); !strings.Contains(got, "1 moved, 1,000,000 deleted") || !strings.Contains(got, "caught up, 4 of 4") {
		t.Error(got)
	}
	if p.behind.Load() != 0 {
		t.Error("the lag is not zero after the copy has caught up")
	}
}

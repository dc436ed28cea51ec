package changefeed

import (
	"testing"

	"github.com/changefeed-go/changefeed/feed"
)

// A change that waits must not keep the buffer of its whole page in memory.
func TestChangesOfKeysDoNotKeepTheirPage(t *testing.T) {
	k, err := newKeyReader([]string{"/k"}, Config{Concurrency: 2})
	if err != nil {
		t.Fatal(err)
	}
	page := []feed.Change{{Current: []byte(`{"k":1}`), Previous: []byte(`{"k":2}`)}}
	copies, _ := k.of(page)
	if c := copies[0]; &c.Current[0] == &page[0].Current[0] || &c.Previous[0] == &page[0].Previous[0] || string(c.Current) != `{"k":1}` {
		t.Error("the change shares memory with its page")
	}
}

// Two documents may spell the same key in different ways, and a delete has the key's components.
func TestKeysOfChangesDoNotDependOnTheirSpelling(t *testing.T) {
	type change = feed.Change
	doc := func(text string) change { return change{Current: []byte(text)} }
	k, err := newKeyReader([]string{"/a", `/"b c"/d`}, Config{Concurrency: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i, same := range [][]change{
		{doc(`{"a":1,"b c":{"d":"é"}}`), doc(`{ "b c" : {"x":[{}], "d":"\u00e9"}, "a": 1.0e0 }`), {Op: feed.Delete, DeletedKey: feed.PartitionKey{1.0, "é"}}, {Op: feed.Delete, Previous: []byte(`{"a":10e-1,"b c":{"d":"é"}}`)}},
		{doc(`{"a":0}`), doc(`{"a":-0.0,"b c":{}}`), doc(`{"a":0,"b c":7}`), {Op: feed.Delete, DeletedKey: feed.PartitionKey{0.0, feed.Undefined}}},
		{doc(`{"a":null,"b c":{"d":true}}`), {Op: feed.Delete, DeletedKey: feed.PartitionKey{nil, true}}},
		{doc(`{"a":"x","b c":{"d":"y"}}`), doc(`{"a":"x","b c":{"d":"y"},"a":"z"}`)},
		{doc(`{"a":"xs","b c":{"d":""}}`)},
		{doc(`{"a":"x","b c":{"d":"s"}}`)},
		{doc(`{"a":false}`)},
		{doc(`{"b c":{"d":false}}`)},
	} {
		first := k.key(&same[0])
		if first.alone {
			t.Errorf("%s has no key", same[0].Current)
		}
		for _, c := range same {
			if got := k.key(&c); got != first {
				t.Errorf("case %d: %s %v has the key %+v; want %+v", i, c.Current, c.DeletedKey, got, first)
			}
		}
		other := doc(`{"a":1,"b c":{"d":"é"}}`)
		if i > 0 && first == k.key(&other) {
			t.Errorf("case %d has the key of another one", i)
		}
	}
	for _, c := range []change{
		{},
		doc(`{"a":[1]}`), doc(`{"a":{}}`), doc(`[]`), doc(`{"a":1,`), doc(`{"a":1e999}`),
		{Op: feed.Delete, DeletedKey: feed.PartitionKey{"x"}},
		{Op: feed.Delete, DeletedKey: feed.PartitionKey{"x", 1}},
	} {
		if got := k.key(&c); !got.alone && string(c.Current) != `[]` {
			t.Errorf("%s %v has the key %+v", c.Current, c.DeletedKey, got)
		}
	}
}

package feed_test

import (
	"reflect"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
)

func TestPartitionKeyStringIsTheHeaderForm(t *testing.T) {
	for _, c := range []struct {
		key  feed.PartitionKey
		text string
	}{
		{feed.PartitionKey{"a"}, `["a"]`},
		{feed.PartitionKey{"ü😀\x01"}, `["ü😀\u0001"]`},
		{feed.PartitionKey{nil, true, false, 1.5, feed.Undefined}, `[null,true,false,1.5,{}]`},
		{feed.PartitionKey{}, `[]`},
		{feed.PartitionKey{""}, `[""]`},
		{feed.PartitionKey{"]"}, `["]"]`},
		{feed.PartitionKey{"a", "b"}, `["a","b"]`},
		{feed.PartitionKey{`a"b\`}, `["a\"b\\"]`},
	} {
		if got := c.key.String(); got != c.text {
			t.Errorf("text of %#v = %s; want %s", c.key, got, c.text)
		}
		back, err := feed.ParsePartitionKey(c.text)
		if err != nil || !reflect.DeepEqual(back, c.key) {
			t.Errorf("parse of %s = %#v, %v; want %#v", c.text, back, err, c.key)
		}
	}
}

func TestPartitionKeyOfEveryGoNumberIsANumber(t *testing.T) {
	for _, n := range []any{7, int8(7), int64(7), uint32(7), float32(7)} {
		back, err := feed.ParsePartitionKey(feed.PartitionKey{n}.String())
		if err != nil || !reflect.DeepEqual(back, feed.PartitionKey{float64(7)}) {
			t.Errorf("%T is parsed as %#v, %v", n, back, err)
		}
	}
}

func TestParsePartitionKeyRefusesOtherTexts(t *testing.T) {
	for _, text := range []string{
		``, `null`, `"a"`, `{}`, `[`, `["a"`, `["a"] x`, `[{"a":1}]`, `[["a"]]`, `[1e999]`, `["a",]`,
		`["]`, `["`, `["a\"]`, "[\"a\tb\"]", `["a"b"]`,
	} {
		if key, err := feed.ParsePartitionKey(text); err == nil {
			t.Errorf("parse of %s = %#v; want an error", text, key)
		}
	}
}

// FuzzParsePartitionKey checks texts that ParsePartitionKey accepts. The key's String
// must be a text that is parsed as the same key.
func FuzzParsePartitionKey(f *testing.F) {
	f.Add(`["a",1,null,true,{}]`)
	f.Add(`["\ud800", -0, 1e300]`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		key, err := feed.ParsePartitionKey(text)
		if err != nil {
			return
		}
		back, err := feed.ParsePartitionKey(key.String())
		if err != nil || !reflect.DeepEqual(back, key) {
			t.Errorf("%q is parsed as %#v, and its text as %#v, %v", text, key, back, err)
		}
	})
}

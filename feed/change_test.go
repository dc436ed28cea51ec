package feed_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/feed"
)

func TestChangeIDReturnsTheTopLevelMember(t *testing.T) {
	for _, c := range []struct{ json, want string }{
		{`{"id":"a"}`, "a"},
		{` { "n" : 1 , "id" : "a" } `, "a"},
		{`{"nested":{"id":"no","x":[{"id":"no"},"]}"]},"id":"yes"}`, "yes"},
		{`{"text":"\"id\":\"no\"\\","id":"yes"}`, "yes"},
		{`{"\u0069d":"escaped name"}`, "escaped name"},
		{`{"id":"\u00fc\n\ud83d\ude00"}`, "ü\n😀"},
		{`{"a":true,"b":null,"c":-1.5e3,"d":[],"e":{},"id":""}`, ""},
		{`{"ID":"other case","Id":"other case","id":"yes"}`, "yes"},
	} {
		got, err := feed.Change{Current: json.RawMessage(c.json)}.ID()
		if err != nil || got != c.want {
			t.Errorf("ID of %s = %q, %v; want %q", c.json, got, err, c.want)
		}
	}
}

func TestChangeIDErrorNamesTheChange(t *testing.T) {
	for _, text := range []string{
		``, `null`, `[]`, `"id"`, `{`, `{}`, `{"id"`, `{"id"}`, `{"id":`, `{"id":1}`, `{"id":null}`, `{"id":"open`,
		`{"a":1}`, `{"a":{"id":"nested"}}`, `{"a":,"id":"x"}`, `{"a":]`, `{"a":1 "id":"x"}`, `{"id":"\x"}`,
	} {
		id, err := feed.Change{Current: json.RawMessage(text), LSN: 42}.ID()
		if !errors.Is(err, feed.ErrNoID) {
			t.Errorf("ID of %s = %q, %v; want ErrNoID", text, id, err)
			continue
		}
		if !strings.Contains(err.Error(), "LSN 42") {
			t.Errorf("error %q does not name the change", err)
		}
	}
}

func TestChangeIDOfADeleteIsTheDeletedID(t *testing.T) {
	gone := feed.Change{Op: feed.Delete, DeletedID: "a", Previous: json.RawMessage(`{"id":"b"}`)}
	if id, err := gone.ID(); err != nil || id != "a" {
		t.Errorf("ID of a delete = %q, %v; want a", id, err)
	}
	gone.DeletedID = ""
	if id, err := gone.ID(); err != nil || id != "b" {
		t.Errorf("ID of a delete with a previous image and no DeletedID = %q, %v; want b", id, err)
	}
	if _, err := (feed.Change{Op: feed.Delete}).ID(); !errors.Is(err, feed.ErrNoID) {
		t.Errorf("ID of a delete that names nothing: %v; want ErrNoID", err)
	}
}

// FuzzChangeID compares Change.ID with a full JSON decoder. For every valid object both
// must find the same id. For any other text ID must return. Valid means RFC 8259 in
// UTF-8, without half surrogate pairs, because encoding/json replaces those.
func FuzzChangeID(f *testing.F) {
	f.Add([]byte(`{"id":"a","n":[1,{"id":"b"}]}`))
	f.Add([]byte(`{"x":"\\\"","\u0069d":"\ud83d\ude00"}`))
	f.Add([]byte(`{"id":{},"id":"second"}`))
	f.Add([]byte(`{"a":1,`))
	f.Fuzz(func(t *testing.T, item []byte) {
		got, err := feed.Change{Current: item}.ID()
		want, ok := firstMember(item, "id")
		if !ok {
			return
		}
		if text, isString := want.(string); isString != (err == nil) || got != text {
			t.Errorf("ID of %q = %q, %v; a decoder finds %v", item, got, err, want)
		}
	})
}

// firstMember returns the value of the first top-level member called name in a JSON
// object, or nil if there is none. It returns false if object is not a valid JSON object.
func firstMember(object []byte, name string) (value any, ok bool) {
	if !jsontext.Value(object).IsValid(jsontext.AllowDuplicateNames(true)) {
		return nil, false
	}
	d := json.NewDecoder(strings.NewReader(string(object)))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, false
		}
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, false
		}
		if key == name {
			return v, true
		}
	}
	return nil, true
}

func BenchmarkChangeID(b *testing.B) {
	item := json.RawMessage(`{"text":"` + strings.Repeat("x", 900) + `","id":"item-17","n":1}`)
	c := feed.Change{Current: item}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.ID(); err != nil {
			b.Fatal(err)
		}
	}
}

package keypath_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/keypath"
)

func TestParse(t *testing.T) {
	for path, want := range map[string][]string{
		"":                             nil,
		"/a":                           {"a"},
		"/a/b":                         {"a", "b"},
		`/"a/b"/c`:                     {"a/b", "c"},
		`/"say \"hi\""`:                {`say "hi"`},
		`/a"b`:                         {`a"b`},
		"/Straße/\u4e16":               {"Straße", "\u4e16"},
		"/" + strings.Repeat("n", 300): {strings.Repeat("n", 300)},
	} {
		if got, err := keypath.Parse(path); err != nil || !slices.Equal(got, want) {
			t.Errorf("Parse(%q) = %q, %v; want %q", path, got, err, want)
		}
	}
}

func TestParseRefusesMalformedPaths(t *testing.T) {
	for path, want := range map[string]string{
		"a":     "slash",
		`/"a"b`: "slash",
		`/"a`:   "JSON string",
		`/"\x"`: "JSON string",
		"/":     "empty",
		"/a//b": "empty",
		"/a/":   "empty",
		`/""`:   "empty",
		"/\xff": "UTF-8",
	} {
		if got, err := keypath.Parse(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %q, %v; want an error with %q", path, got, err, want)
		}
	}
}

func TestLookup(t *testing.T) {
	document := map[string]any{"a": map[string]any{"b": 1.0, "n": nil}, "c": "text"}
	for _, c := range []struct {
		path  string
		want  any
		found bool
	}{
		{"/a/b", 1.0, true}, {"/a/n", nil, true}, {"/c", "text", true}, {"/a/x", nil, false}, {"/c/d", nil, false}, {"/a/n/x", nil, false},
	} {
		names, err := keypath.Parse(c.path)
		if got, found := keypath.Lookup(document, names); err != nil || got != c.want || found != c.found {
			t.Errorf("Lookup(%s) = %v, %v; want %v, %v", c.path, got, found, c.want, c.found)
		}
	}
}

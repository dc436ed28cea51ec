package demo

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/storetype"
)

func TestFlightsAreTwentyThousandKeyedByTheirRow(t *testing.T) {
	d, err := load(mustDefaults(t, Config{}))
	if err != nil {
		t.Fatal(err)
	}
	if len(d.records) != 20_000 || d.name != "flights" || d.key != "origin" || d.newKey != "destination" {
		t.Fatalf("got %d records named %s, keyed by %s and %s", len(d.records), d.name, d.key, d.newKey)
	}
	var first map[string]any
	if err := json.Unmarshal(d.records[0].body, &first); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"id": "1", "date": "2001/01/01 00:47", "delay": 66.0, "distance": 1750.0,
		"origin": "DTW", "destination": "LAS", revision: 1.0,
	}
	for name, value := range want {
		if first[name] != value {
			t.Errorf("the first flight's %s is %v, want %v", name, first[name], value)
		}
	}
	if len(first) != len(want) {
		t.Errorf("the first flight has %d fields, want %d: %v", len(first), len(want), first)
	}
	if last := d.records[19_999].id; last != "20000" {
		t.Errorf("the last flight's id is %s", last)
	}
}

func TestRecordsOfBothFormsAndOfEveryWayToNameThem(t *testing.T) {
	for _, c := range []struct {
		name, text, id string
		want           []string
	}{
		{"array with ids", `[{"id":"a","k":1},{"id":"b","k":2}]`, "", []string{"a", "b"}},
		{"one per line with ids", "{\"id\":\"a\",\"k\":1}\n{\"id\":\"b\",\"k\":2}\n", "", []string{"a", "b"}},
		{"a byte order mark", "\ufeff{\"id\":\"a\",\"k\":1}\r\n{\"id\":\"b\",\"k\":2}\r\n", "", []string{"a", "b"}},
		{"no id: the row", "{\"k\":1}\n\n{\"k\":2}", "", []string{"1", "2"}},
		{"numbers as ids", ` [ {"id":17,"k":1}, {"id":1e3,"k":1} ] `, "", []string{"17", "1e3"}},
		{"a field of another name", `{"no":"x","k":1}{"no":"y","k":1}`, "no", []string{"x", "y"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := load(mustDefaults(t, Config{Input: file(t, "in.json", c.text), ID: c.id, Key: "k"}))
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, r := range d.records {
				var body struct{ ID string }
				if err := json.Unmarshal(r.body, &body); err != nil || body.ID != r.id {
					t.Errorf("record %s has the body %s (%v)", r.id, r.body, err)
				}
				ids = append(ids, r.id)
			}
			if got, want := strings.Join(ids, " "), strings.Join(c.want, " "); got != want {
				t.Errorf("ids are %s, want %s", got, want)
			}
			if d.newKey != "id" || d.name != "in" {
				t.Errorf("container %s, new key %s", d.name, d.newKey)
			}
		})
	}
}

func TestRecordsLimitsHowManyAreRead(t *testing.T) {
	// The third record is invalid. It is not read, because Records is 2.
	in := file(t, "in.ndjson", `{"k":1}{"k":2}{"k":`)
	d, err := load(mustDefaults(t, Config{Input: in, Key: "k", Records: 2}))
	if err != nil || len(d.records) != 2 {
		t.Fatalf("got %d records, error %v", len(d.records), err)
	}
}

func TestBadRecordsAreRefusedByName(t *testing.T) {
	for _, c := range []struct {
		name, text string
		cfg        Config
		want       string
	}{
		{"empty", "", Config{Key: "k"}, "no record"},
		{"empty array", "[]", Config{Key: "k"}, "no record"},
		{"broken", `{"k":1}{"k"`, Config{Key: "k"}, "record 2"},
		{"unended array", `[{"k":1}`, Config{Key: "k"}, "the array has no end"},
		{"two arrays", "[{\"k\":1}]\n[{\"k\":2}]", Config{Key: "k"}, "unexpected data after the array"},
		{"key is no float64", `{"k":1e999}`, Config{Key: "k"}, "record 1: k is 1e999 (--key)"},
		{"too large to be copied", `{"k":"` + strings.Repeat("x", storetype.MaxDocumentSize-100) + `"}`, Config{Key: "k"}, "record 1 has 2097"},
		{"not an object", `[{"k":1},7]`, Config{Key: "k"}, "record 2"},
		{"null", `[{"k":1},null]`, Config{Key: "k"}, "record 2 is null"},
		{"no key", `{"k":1}{"j":1}`, Config{Key: "k"}, `record 2 has no field "k" (--key)`},
		{"no new key", `{"k":1}`, Config{Key: "k", NewKey: "n"}, `no field "n" (--new-key)`},
		{"key is an object", `{"k":{}}`, Config{Key: "k"}, "record 1: k is {} (--key)"},
		{"no id", `{"id":"1","k":1}{"k":1}`, Config{Key: "k"}, `record 2 has no field "id"`},
		{"id twice", `{"id":"1","k":1}{"id":"1","k":2}`, Config{Key: "k"}, `records 1 and 2 have the same id "1"`},
		{"id is a list", `{"id":[],"k":1}`, Config{Key: "k"}, "an id must be a text or a number"},
		{"id with a slash", `{"id":"a/b","k":1}`, Config{Key: "k"}, "none of / \\ ? #"},
		{"two ids", `{"no":"1","id":"x","k":1}`, Config{Key: "k", ID: "no"}, "use --id id"},
		{"our own field", `{"demo_revision":1,"k":1}`, Config{Key: "k"}, "demo_revision"},
		{"too few", `{"k":1}`, Config{Key: "k", Records: 5}, "but there are only 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.Input = file(t, "in.json", c.text)
			_, err := load(mustDefaults(t, c.cfg))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	if _, err := load(Config{Input: filepath.Join(t.TempDir(), "none.json"), Key: "k"}); err == nil || !strings.Contains(err.Error(), "--input") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestImpossibleConfigurationsAreRefusedByFlag(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Hosts: -1}, "--hosts is -1"},
		{Config{Hosts: 17}, "--hosts is 17"},
		{Config{Records: -1}, "--records is -1"},
		{Config{Key: "k"}, "--input, which is missing"},
		{Config{Input: "x"}, "--key is missing"},
	} {
		if _, err := c.cfg.withDefaults(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one with %q", c.cfg, err, c.want)
		}
	}
}

func TestContainerNamesOfFiles(t *testing.T) {
	for path, want := range map[string]string{
		"/tmp/orders.json": "orders", "a b.ndjson": "a b", ".json": "records", `q?#x.json`: "q--x",
	} {
		if got := containerName(path); got != want {
			t.Errorf("containerName(%q) is %q, want %q", path, got, want)
		}
	}
}

func mustDefaults(t *testing.T, c Config) Config {
	t.Helper()
	c, err := c.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A JSON number may be too large for a float64. That is an error only in the field of the
// key.
func TestAKeyIsFoundBesideANumberBeyondFloat64(t *testing.T) {
	key, err := keyOf([]byte(`{"k":7,"n":1e999}`), "k")
	if err != nil || key.String() != "[7]" {
		t.Errorf("%v, %v", key, err)
	}
}

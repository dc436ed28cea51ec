package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// initDir writes files into a new directory, and returns the path of shop.json in it.
func initDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "shop.json")
}

// shopFile is an init file with documents of both forms.
const shopFile = `{"databases": [{"id": "shop", "throughput": 1000, "containers": [
	{"id": "orders", "partitionKey": {"paths": ["/customer"], "kind": "Hash", "version": 2}, "throughput": 20000, "defaultTtl": -1,
		"uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/n"]}]},
		"documents": [
			{"id": "1", "customer": "ada", "n": 1},
			{"id": "2", "customer": "ada", "n": 2}]},
	{"id": "items", "partitionKey": {"paths": ["/id"]}, "documents": "items.ndjson"}]}]}`

const itemsFile = "{\"id\":\"a\"}\n\n{\"id\":\"b\",\"n\":1}" // a blank line, and no line break at the end

func TestInitCreatesWhatDoesNotExistYet(t *testing.T) {
	path, data := initDir(t, map[string]string{"shop.json": shopFile, "items.ndjson": itemsFile}), filepath.Join(t.TempDir(), "data")
	for _, c := range []Config{{}, {Data: data}} {
		c.TLS, c.Init = plain, path
		r := start(t, c)
		if got := r.values["init"]; got != "created 1 database, 2 containers and 4 documents" {
			t.Errorf("the banner tells %q", got)
		}
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
	}
	change := func(do func(*store.Container, *store.DB) error) {
		t.Helper()
		db, err := store.Open(data, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := db.Container(t.Context(), "shop", "orders")
		if err := errors.Join(err, do(c, db), db.Check(t.Context()), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	change(func(c *store.Container, _ *store.DB) error {
		p, err := c.Properties(t.Context())
		if p.DefaultTTL != -1 || p.Partitions != 2 || p.Throughput != 20000 || len(p.UniqueKeys) != 1 {
			t.Errorf("the container's properties are %+v", p)
		}
		_, second := c.Replace(t.Context(), feed.PartitionKey{"ada"}, "1", []byte(`{"id":"1","customer":"ada","n":9}`), storetype.WriteOptions{})
		_, third := c.Delete(t.Context(), feed.PartitionKey{"ada"}, "2", storetype.WriteOptions{})
		return errors.Join(err, second, third)
	})
	r := start(t, Config{TLS: plain, Data: data, Init: path})
	if got := r.values["init"]; got != "created 0 databases, 0 containers and 1 document; 6 existed and stay as they are" {
		t.Errorf("the second start tells %q", got)
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	change(func(c *store.Container, _ *store.DB) error {
		first, err := c.Read(t.Context(), feed.PartitionKey{"ada"}, "1", storetype.ReadOptions{})
		_, second := c.Read(t.Context(), feed.PartitionKey{"ada"}, "2", storetype.ReadOptions{})
		if !strings.Contains(string(first.Body), `"n":9`) {
			t.Errorf("the changed document is now %s", first.Body)
		}
		return errors.Join(err, second)
	})
}

// refusal starts a server that must not start, and returns its error.
func refusal(t *testing.T, c Config) string {
	t.Helper()
	c.Listen, c.TLS, c.Partitions, c.Out, c.Log = "127.0.0.1:0", plain, 1, io.Discard, io.Discard
	ctx, stop := context.WithCancel(t.Context())
	c.Out = writerFunc(func([]byte) { stop() }) // it has started
	defer stop()
	err := Run(ctx, c)
	if _, ok := errors.AsType[*ConfigError](err); !ok {
		t.Errorf("error %v, which is no ConfigError", err)
		return ""
	}
	return err.Error()
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) { f(b); return len(b), nil }

// A file that is wrong anywhere must create nothing, and its error must lead to the line.
func TestInitIsCheckedAsAWholeBeforeAnythingIsCreated(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"no JSON", `"id": "items",`, `"id": "items"`, "shop.json:7:17: not valid JSON: a comma or a closing bracket is expected"},
		{"characters before", `"defaultTtl": -1,`, `"größe": "量", "a" 1,`, "shop.json:2:130: not valid JSON: a colon is expected"},
		{"half an object", `{"id": "2", "customer": "ada", "n": 2}]},`, "{\"id\": \"2\",\n\n", "shop.json:9:2: not valid JSON: a member's name is expected"},
		{"a name twice", `"defaultTtl": -1,`, `"throughput": 400,`, `shop.json:2:112: the member "throughput" is in its object twice; remove one of them`},
		{"another top", `{"databases"`, `{"database"`, `shop.json:1:14: a file of --init has no member "database"; its form is {"databases":[`},
		{"another type", `"throughput": 1000, "containers": [`, `"containers": 1, "x": [`, "shop.json:1:45: containers must be an array, not 1"},
		{"a member of a database", `"throughput": 1000`, `"ttl": 1`, `shop.json:1:38: a database of --init has no member "ttl"`},
		{"no id", `"id": "shop", `, ``, "shop.json:1:16: the database has no id"},
		{"a database twice", `"databases": [`, "\"databases\": [{\"id\": \"shop\"},\n", `shop.json:2:1: database "shop" is in the file twice`},
		{"a container twice", `"id": "items"`, `"id": "orders"`, `shop.json:7:2: container "orders" is in its database twice`},
		{"a container's name", `"id": "items"`, `"id": "a/b"`, `shop.json:7:2: container "a/b" cannot be created: The input name presented contains`},
		{"throughput", `20000`, `"20000"`, `shop.json:2:105: throughput is "20000"; it must be a whole number`},
		{"a property", `"defaultTtl"`, `"defaultTTL"`, `shop.json:2:2: a container has no property "defaultTTL"; remove it`},
		{"a property of the server", `"defaultTtl"`, `"_rid": "", "defaultTtl"`, `property "_rid" of a container; remove it`},
		{"no key", `, "partitionKey": {"paths": ["/id"]}`, ``, `shop.json:7:2: container "items" cannot be created: `},
		{"a document", `"id": "2"`, `"id": 2`, `shop.json:6:4: the document cannot be created in container "orders": `},
		{"a document twice", `"id": "2"`, `"id": "1"`, `shop.json:6:4: container "orders" has another document with this id`},
		{"a unique key", `"n": 2`, `"n": 1`, "shop.json:6:4: the document has the values of another one at the unique key /n"},
		{"no such documents", `items.ndjson`, `none.ndjson`, "shop.json:7:67: cannot read the documents: "},
		{"a document's line", `items.ndjson`, `bad.ndjson`, "bad.ndjson:2:7: not valid JSON: the text ends too early: a value is expected"},
		{"a line's document", `items.ndjson`, `twice.ndjson`, "twice.ndjson:5:1: container \"items\" has another document with this id"},
	} {
		text := strings.Replace(shopFile, c.old, c.new, 1)
		if text == shopFile {
			t.Fatalf("%s: the file has no %s", c.name, c.old)
		}
		path := initDir(t, map[string]string{
			"shop.json": text, "items.ndjson": itemsFile, "bad.ndjson": "{\"id\":\"a\"}\n{\"id\":\n", "twice.ndjson": itemsFile + "\n{\"id\":\"c\"}\n{\"id\":\"a\"}",
		})
		data := filepath.Join(t.TempDir(), "data")
		if err := refusal(t, Config{Init: path, Data: data}); !strings.Contains(err, c.want) {
			t.Errorf("%s: %s; want %s", c.name, err, c.want)
		}
		if _, err := os.Stat(data); !os.IsNotExist(err) {
			t.Errorf("%s: the data directory exists: %v", c.name, err)
		}
	}
	if err := refusal(t, Config{Init: filepath.Join(t.TempDir(), "none.json")}); !strings.Contains(err, "--init: cannot read the file") {
		t.Errorf("no file: %s", err)
	}
}

func TestInitRefusesAContainerThatExistsWithOtherProperties(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"defaultTtl": -1`, `"defaultTtl": 60`, `container "orders" exists, and its defaultTtl is -1 and not 60; change the file, or delete the container`},
		{`"/customer"`, `"/n"`, `container "orders" exists, and its partitionKey is {"paths":["/customer"]`},
	} {
		data := t.TempDir()
		files := map[string]string{"shop.json": shopFile, "items.ndjson": itemsFile}
		if err := start(t, Config{TLS: plain, Data: data, Init: initDir(t, files)}).end(); err != nil {
			t.Fatal(err)
		}
		files["shop.json"] = strings.Replace(strings.Replace(shopFile, c.old, c.new, 1), `"databases": [`, `"databases": [{"id": "first"},`, 1)
		if err := refusal(t, Config{Data: data, Init: initDir(t, files)}); !strings.Contains(err, c.want) {
			t.Errorf("%s; want %s", err, c.want)
		}
		db, err := store.Open(data, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Database(t.Context(), "first"); !errors.Is(err, feed.ErrNotFound) {
			t.Errorf("a database was created before the refusal: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		// A property that the file does not give may be anything, for instance changed by an SDK.
		files["shop.json"] = strings.Replace(shopFile, `"defaultTtl": -1,`, ``, 1)
		if got := start(t, Config{TLS: plain, Data: data, Init: initDir(t, files)}).values["init"]; !strings.Contains(got, "7 existed") {
			t.Errorf("without the property: %q", got)
		}
	}
}

// Clients must not be sent to a server whose init file is not carried out yet.
func TestServerIsReadyOnlyAfterInit(t *testing.T) {
	path := initDir(t, map[string]string{"shop.json": shopFile})
	pipe := filepath.Join(filepath.Dir(path), "items.ndjson")
	if err := makePipe(pipe); err != nil {
		t.Skipf("no named pipes here: %v", err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed at once
	if err != nil {
		t.Fatal(err)
	}
	probe := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	ready := func() int {
		t.Helper()
		a, err := http.Get("http://" + probe + "/ready") //nolint:noctx // to this process
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Body.Close(); err != nil {
			t.Fatal(err)
		}
		return a.StatusCode
	}
	ctx, stop := context.WithCancel(t.Context())
	banner, done := make(chan string, 16), make(chan error, 1)
	go func() {
		done <- Run(ctx, Config{
			Listen: "127.0.0.1:0", TLS: plain, Partitions: 1, Health: probe, Init: path, Log: io.Discard,
			Out: writerFunc(func(b []byte) { banner <- string(b) }),
		})
	}()
	for _, stage := range []string{"tried", "carried out"} {
		// Opening the pipe waits until the server reads it.
		f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := ready(); got != http.StatusServiceUnavailable || len(banner) > 0 {
			t.Errorf("while the file is %s, /ready has status %d, and the banner was printed %d times", stage, got, len(banner))
		}
		// The next reader gets a pipe of its own, because this one's reader may be slow to go.
		if err := errors.Join(os.Remove(pipe), makePipe(pipe)); err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString(itemsFile)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if text := <-banner; !strings.HasSuffix(text, "\nready\n") {
		t.Errorf("the banner is %s", text)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

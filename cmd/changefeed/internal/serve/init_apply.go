package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/follow"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// This file creates what the file of --init describes. All of it is created in a store in
// memory first. So whatever is wrong with the file is found before the server's own store is
// opened, and by the same code that would refuse it there.

// initTarget is a store in which an init file is carried out, and a server over it. The
// server gets the requests that a client would send for databases and containers, because
// their properties are those of the REST API. Documents go to the store, whose errors are
// more exact.
type initTarget struct {
	db      *store.DB
	handler http.Handler
	key     wire.Key
	// empty reports that nothing existed before, so that a document that exists is in the
	// file twice.
	empty bool
}

// initCounts counts what an init file has created, and what existed already.
type initCounts struct{ databases, containers, documents, kept int }

func (n initCounts) String() string {
	text := fmt.Sprintf("created %s, %s and %s", view.Plural(n.databases, "database", "databases"),
		view.Plural(n.containers, "container", "containers"), view.Plural(n.documents, "document", "documents"))
	if n.kept > 0 {
		text += fmt.Sprintf("; %d existed and stay as they are", n.kept)
	}
	return text
}

// initPlan is an init file that was tried in memory.
type initPlan struct {
	file *initFile
	// wanted are the properties of the containers as the server answers them, by link.
	wanted map[string]map[string]jsontext.Value
}

// planInit reads the init file of c and tries it in memory. It returns nil if there is none.
func (c Config) planInit(ctx context.Context) (plan *initPlan, err error) {
	if c.Init == "" {
		return nil, nil //nolint:nilnil // no file means nothing to do
	}
	f, err := readInit(c.Init)
	if err != nil {
		return nil, err
	}
	db, err := store.OpenMemory(store.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	handler, err := server.New(db, server.Options{Keys: c.keys(), Partitions: c.Partitions, Versions: c.Versions})
	if err != nil {
		return nil, err
	}
	t, err := c.initTarget(db, handler)
	if err != nil {
		return nil, err
	}
	t.empty = true
	plan = &initPlan{file: f, wanted: map[string]map[string]jsontext.Value{}}
	if _, err := t.apply(ctx, f); err != nil {
		return nil, err
	}
	for _, d := range f.databases {
		for _, k := range d.containers {
			if plan.wanted[k.link(d)], err = t.properties(ctx, d, k); err != nil {
				return nil, err
			}
			if err := k.checkMembers(plan.wanted[k.link(d)]); err != nil {
				return nil, err
			}
		}
	}
	return plan, nil
}

// initialize carries out the plan in the server's own store, and tells what was created. A
// nil plan creates nothing.
func (c Config) initialize(ctx context.Context, plan *initPlan, db *store.DB, handler http.Handler) (string, error) {
	if plan == nil {
		return "", nil
	}
	t, err := c.initTarget(db, handler)
	if err != nil {
		return "", err
	}
	n, err := plan.apply(ctx, t)
	return n.String(), err
}

func (c Config) initTarget(db *store.DB, handler http.Handler) (*initTarget, error) {
	key, err := wire.ParseKey(c.keys()[0])
	return &initTarget{db: db, handler: handler, key: key}, err
}

// apply carries out the plan in a server's own store. It changes nothing if a container
// exists with other properties.
func (p *initPlan) apply(ctx context.Context, t *initTarget) (initCounts, error) {
	for _, d := range p.file.databases {
		for _, k := range d.containers {
			have, err := t.properties(ctx, d, k)
			if err != nil {
				return initCounts{}, err
			}
			if err := k.compare(have, p.wanted[k.link(d)]); err != nil {
				return initCounts{}, err
			}
		}
	}
	return t.apply(ctx, p.file)
}

// compare returns an error if a container exists, with the properties have, and one of the
// properties that the file gives is another one there.
func (k initContainer) compare(have, want map[string]jsontext.Value) error {
	if have == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(k.given)) {
		if !sameJSON(have[name], want[name]) {
			return k.refuse("container %q exists, and its %s is %.300s and not %.300s; change the file, or delete the container", k.id, name, orNull(have[name]), orNull(want[name]))
		}
	}
	return nil
}

// checkMembers returns an error if the file gives a property that is not among those of the
// created container. The server drops properties that it does not know.
func (k initContainer) checkMembers(created map[string]jsontext.Value) error {
	for _, name := range slices.Sorted(maps.Keys(k.given)) {
		switch {
		case strings.HasPrefix(name, "_"):
			return k.refuse("the server itself sets the property %.60q of a container; remove it", name)
		case created[name] == nil && k.given[name].Kind() != 'n':
			return k.refuse("a container has no property %.60q; remove it", name)
		}
	}
	return nil
}

func orNull(v jsontext.Value) jsontext.Value {
	if v == nil {
		return jsontext.Value("null")
	}
	return v
}

func sameJSON(a, b jsontext.Value) bool {
	var x, y any
	return json.Unmarshal(orNull(a), &x) == nil && json.Unmarshal(orNull(b), &y) == nil && reflect.DeepEqual(x, y)
}

func (d initDatabase) link() string { return "/dbs/" + url.PathEscape(d.id) }

func (k initContainer) link(d initDatabase) string {
	return d.link() + "/colls/" + url.PathEscape(k.id)
}

// properties returns the properties of a container, or nil if it does not exist.
func (t *initTarget) properties(ctx context.Context, d initDatabase, k initContainer) (map[string]jsontext.Value, error) {
	a, err := t.send(ctx, http.MethodGet, k.link(d), nil, "")
	if err != nil || a.status == http.StatusNotFound {
		return nil, err
	}
	var m map[string]jsontext.Value
	if a.status != http.StatusOK {
		return nil, k.refuse("cannot read container %q: %s", k.id, reasonOf(a))
	}
	return m, json.Unmarshal(a.body.Bytes(), &m)
}

// apply creates everything in a file that does not exist.
func (t *initTarget) apply(ctx context.Context, f *initFile) (n initCounts, err error) {
	for _, d := range f.databases {
		if err := t.create(ctx, "/dbs", map[string]jsontext.Value{"id": quote(d.id)}, d.throughput, &n.databases, &n.kept); err != nil {
			return n, d.refuse("database %q cannot be created: %v; correct the file", d.id, err)
		}
		for _, k := range d.containers {
			if err := t.create(ctx, d.link()+"/colls", k.given, k.throughput, &n.containers, &n.kept); err != nil {
				return n, k.refuse("container %q cannot be created: %v; correct the file", k.id, err)
			}
			if err := t.fill(ctx, d, k, &n); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// create sends the request to create a database or a container. It adds 1 to created, or to
// kept if the resource exists.
func (t *initTarget) create(ctx context.Context, path string, body map[string]jsontext.Value, throughput string, created, kept *int) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	a, err := t.send(ctx, http.MethodPost, path, text, throughput)
	switch {
	case err != nil:
		return err
	case a.status == http.StatusCreated:
		*created++
	case a.status == http.StatusConflict:
		*kept++
	default:
		return errors.New(reasonOf(a))
	}
	return nil
}

// fill creates the documents of a container.
func (t *initTarget) fill(ctx context.Context, d initDatabase, k initContainer, n *initCounts) error {
	c, err := t.db.Container(ctx, d.id, k.id)
	if err != nil {
		return err
	}
	return k.each(func(doc initDocument) error {
		_, err := c.Create(ctx, nil, doc.text, storetype.WriteOptions{NoBody: true})
		for throttled, ok := errors.AsType[*feed.ThrottledError](err); ok; throttled, ok = errors.AsType[*feed.ThrottledError](err) {
			if err := follow.Sleep(ctx, throttled.RetryAfter); err != nil {
				return err
			}
			_, err = c.Create(ctx, nil, doc.text, storetype.WriteOptions{NoBody: true})
		}
		unique, twice := errors.AsType[*storetype.UniqueKeyError](err)
		switch {
		case err == nil:
			n.documents++
		case twice:
			return doc.refuse("the document has the values of another one at the unique key %s of container %q; change one of them", strings.Join(unique.Paths, ", "), k.id)
		case errors.Is(err, storetype.ErrConflict) && t.empty:
			return doc.refuse("container %q has another document with this id and partition key in the file; remove one of them", k.id)
		case errors.Is(err, storetype.ErrConflict):
			n.kept++
		case ctx.Err() != nil:
			return ctx.Err()
		default:
			return doc.refuse("the document cannot be created in container %q: %v; correct the file", k.id, err)
		}
		return nil
	})
}

// send sends a signed request to the server. throughput is that of a new database or
// container, or empty.
func (t *initTarget) send(ctx context.Context, method, path string, body []byte, throughput string) (*initAnswer, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	p, err := wire.ParsePath(r.URL.EscapedPath())
	if err != nil {
		return nil, err
	}
	r.Header.Set(wire.HeaderDate, wire.FormatTime(time.Now()))
	r.Header.Set(wire.HeaderVersion, initVersion)
	if throughput != "" {
		r.Header.Set(wire.HeaderOfferThroughput, throughput)
	}
	payload := wire.Payload(method, p.SignedType(), p.Links()[0], r.Header.Get(wire.HeaderDate), "")
	r.Header.Set("Authorization", wire.Authorization(t.key.Sign(payload)))
	a := &initAnswer{header: http.Header{}, status: http.StatusOK}
	t.handler.ServeHTTP(a, r)
	return a, ctx.Err()
}

// initVersion is the version of the REST API whose properties an init file has.
const initVersion = "2020-07-15"

// initAnswer is an http.ResponseWriter that keeps the answer.
type initAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *initAnswer) Header() http.Header         { return a.header }
func (a *initAnswer) WriteHeader(status int)      { a.status = status }
func (a *initAnswer) Write(b []byte) (int, error) { return a.body.Write(b) }

// reasonOf returns the message of an answer that refuses a request.
func reasonOf(a *initAnswer) string {
	var e wire.ErrorBody
	if err := json.Unmarshal(a.body.Bytes(), &e); err != nil || e.Message == "" {
		return fmt.Sprintf("the answer has status %d", a.status)
	}
	message, _, _ := strings.Cut(e.Message, "\nActivityId:")
	var list struct{ Errors []string }
	if text, is := strings.CutPrefix(message, "Message: "); is && json.Unmarshal([]byte(text), &list) == nil {
		message = strings.Join(list.Errors, " ")
	}
	return strings.TrimSpace(message)
}

// quote returns s as JSON.
func quote(s string) jsontext.Value {
	b, _ := jsontext.AppendQuote(nil, s) // a text from JSON is valid UTF-8
	return b
}

package connect

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/rest"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// Documents is a client of an account's databases, containers and documents, for what the
// command needs of them. Its errors for answers wrap an *azcore.ResponseError; see [Status].
// It is safe for concurrent use.
type Documents struct {
	account *cosmos.Account
	names   names
}

// Documents returns the client of the account's documents.
func (o *Opened) Documents() Documents { return Documents{o.Account, o.names} }

// send sends a request and decodes the answer into answer, unless that is nil.
func (d Documents) send(ctx context.Context, r rest.Request, answer any) (rest.Response, error) {
	got, err := d.raw(ctx, r)
	if err == nil && answer != nil {
		if err = json.Unmarshal(got.Body, answer); err != nil {
			err = fmt.Errorf("%s: the answer cannot be read: %w", r.Operation, err)
		}
	}
	return got, err
}

// raw sends a request. Its errors have the names of the account, for [Advice].
func (d Documents) raw(ctx context.Context, r rest.Request) (rest.Response, error) {
	got, err := rest.Send(ctx, d.account, r)
	if err != nil {
		err = &namedError{err, d.names}
	}
	return got, err
}

// list returns the ids in a list of resources, whose member has the name member.
func (d Documents) list(ctx context.Context, path, member string) (names []string, err error) {
	for continuation := ""; ; {
		r := rest.Request{Operation: "list " + path, Path: path, Header: http.Header{}}
		if continuation != "" {
			r.Header.Set(wire.HeaderContinuation, continuation)
		}
		var page map[string]json.RawMessage
		got, err := d.send(ctx, r, &page)
		if err != nil {
			return nil, err
		}
		var resources []struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(page[member], &resources); err != nil {
			return nil, fmt.Errorf("list %s: the answer cannot be read: %w", path, err)
		}
		for _, resource := range resources {
			names = append(names, resource.ID)
		}
		if continuation = got.Header.Get(wire.HeaderContinuation); continuation == "" {
			return names, nil
		}
	}
}

// Databases returns the names of all databases.
func (d Documents) Databases(ctx context.Context) ([]string, error) {
	return d.list(ctx, "/dbs", "Databases")
}

// Database returns a client of a database, which need not exist.
func (d Documents) Database(name string) Database { return Database{d, name} }

// Container returns a client of a container, which need not exist.
func (d Documents) Container(database, container string) ContainerDocuments {
	return ContainerDocuments{d.Database(database), container}
}

// Database is a client of one database.
type Database struct {
	documents Documents
	name      string
}

func (d Database) path() string { return "/dbs/" + url.PathEscape(d.name) }

func (d Database) send(ctx context.Context, verb, method, path string, body any, header http.Header) error {
	r := rest.Request{Operation: verb + " database " + d.name, Method: method, Path: path, Header: header}
	if body != nil {
		var err error
		if r.Body, err = json.Marshal(body); err != nil {
			return err
		}
	}
	_, err := d.documents.send(ctx, r, nil)
	return err
}

// Read returns nil if the database exists.
func (d Database) Read(ctx context.Context) error {
	return d.send(ctx, "read", http.MethodGet, d.path(), nil, nil)
}

// Create creates the database.
func (d Database) Create(ctx context.Context) error {
	return d.send(ctx, "create", http.MethodPost, "/dbs", map[string]string{"id": d.name}, nil)
}

// Delete deletes the database and all of its containers.
func (d Database) Delete(ctx context.Context) error {
	return d.send(ctx, "delete", http.MethodDelete, d.path(), nil, nil)
}

// Containers returns the names of the database's containers.
func (d Database) Containers(ctx context.Context) ([]string, error) {
	return d.documents.list(ctx, d.path()+"/colls", "DocumentCollections")
}

// CreateContainer creates a container with properties in the form of the REST protocol. It
// gets no throughput of its own if t is zero. Without a partitionKey among the properties it
// gets none, as containers of early clients, and the service takes that only from these.
func (d Database) CreateContainer(ctx context.Context, properties map[string]any, t Throughput) error {
	header := t.header()
	if properties["partitionKey"] == nil {
		header.Set(wire.HeaderVersion, keylessVersion)
	}
	return d.send(ctx, "create a container in", http.MethodPost, d.path()+"/colls", properties, header)
}

// keylessVersion is a version of the REST API in which a new container needs no partition
// key. From 2018-12-31 on it needs one.
const keylessVersion = "2018-06-18"

// Throughput is the throughput of a container in request units per second: a fixed one, or
// the maximum of an automatic one.
type Throughput struct{ Manual, Autoscale int }

func (t Throughput) header() http.Header {
	switch {
	case t.Autoscale > 0:
		return http.Header{wire.HeaderOfferAutopilot: {fmt.Sprintf(`{"maxThroughput":%d}`, t.Autoscale)}}
	case t.Manual > 0:
		return http.Header{wire.HeaderOfferThroughput: {strconv.Itoa(t.Manual)}}
	}
	return http.Header{}
}

// ContainerDocuments is a client of the documents of one container.
type ContainerDocuments struct {
	database Database
	name     string
}

func (c ContainerDocuments) path() string {
	return c.database.path() + "/colls/" + url.PathEscape(c.name)
}

func (c ContainerDocuments) what() string { return "container " + c.database.name + "/" + c.name }

// Properties are the properties of a container.
type Properties struct {
	RID          string       `json:"_rid"`
	PartitionKey PartitionKey `json:"partitionKey"`
	DefaultTTL   *int         `json:"defaultTtl"`
	// Members has all properties as the service sent them.
	Members map[string]json.RawMessage `json:"-"`
}

// PartitionKey is the definition of a container's partition key.
type PartitionKey struct {
	Paths   []string `json:"paths"`
	Kind    string   `json:"kind"`
	Version int      `json:"version,omitempty"`
	// SystemKey is true if the container was created without a partition key.
	SystemKey bool `json:"systemKey,omitempty"`
}

// MultiHash is the kind of a partition key with several paths, and Hash that of others.
const (
	Hash      = "Hash"
	MultiHash = "MultiHash"
)

// Properties reads the properties of the container.
func (c ContainerDocuments) Properties(ctx context.Context) (p Properties, err error) {
	got, err := c.database.documents.send(ctx, rest.Request{Operation: "read " + c.what(), Path: c.path()}, &p)
	if err == nil {
		err = json.Unmarshal(got.Body, &p.Members)
	}
	return p, err
}

// Delete deletes the container.
func (c ContainerDocuments) Delete(ctx context.Context) error {
	_, err := c.database.documents.send(ctx, rest.Request{Operation: "delete " + c.what(), Method: http.MethodDelete, Path: c.path()}, nil)
	return err
}

// Throughput reads the throughput of the container. It is zero if the container has none of
// its own.
func (c ContainerDocuments) Throughput(ctx context.Context) (t Throughput, err error) {
	p, err := c.Properties(ctx)
	if err != nil {
		return t, err
	}
	body, err := json.Marshal(map[string]any{
		"query": "SELECT * FROM c WHERE c.offerResourceId = @rid", "parameters": []rest.Parameter{{Name: "@rid", Value: p.RID}},
	})
	if err != nil {
		return t, err
	}
	var offers struct {
		Offers []struct {
			Content struct {
				Throughput int `json:"offerThroughput"`
				Autopilot  struct {
					Max int `json:"maxThroughput"`
				} `json:"offerAutopilotSettings"`
			} `json:"content"`
		}
	}
	_, err = c.database.documents.send(ctx, rest.Request{
		Operation: "read the throughput of " + c.what(), Method: http.MethodPost, Path: "/offers", Body: body,
		Header: http.Header{"Content-Type": {wire.ContentTypeQuery}, wire.HeaderIsQuery: {"True"}},
	}, &offers)
	if err != nil || len(offers.Offers) == 0 {
		return t, err
	}
	content := offers.Offers[0].Content
	if content.Autopilot.Max > 0 {
		return Throughput{Autoscale: content.Autopilot.Max}, nil
	}
	return Throughput{Manual: content.Throughput}, nil
}

// Document is a document as the service stored it.
type Document struct {
	Body   []byte
	Header http.Header
}

// ETag returns the ETag of the document.
func (d Document) ETag() string { return d.Header.Get("Etag") }

// document sends a request for a document. id is empty for a create, and etag unless the
// document must still have it.
func (c ContainerDocuments) document(ctx context.Context, verb, method string, k feed.PartitionKey, id, etag string, body []byte) (Document, error) {
	r := rest.Request{Operation: verb + " a document of " + c.what(), Method: method, Path: c.path() + "/docs", Body: body, Header: http.Header{}}
	if id != "" {
		r.Path += "/" + url.PathEscape(id)
	}
	if etag != "" {
		r.Header.Set("If-Match", etag)
	}
	key := wire.NoKey
	if len(k) > 0 {
		key = wire.ASCII(k.String())
	}
	r.Header.Set(wire.HeaderPartitionKey, key)
	got, err := c.database.documents.send(ctx, r, nil)
	return Document{got.Body, got.Header}, err
}

// Create creates a document. Like the other methods, it takes an empty key in a container
// that was created without a partition key.
func (c ContainerDocuments) Create(ctx context.Context, k feed.PartitionKey, body []byte) (Document, error) {
	return c.document(ctx, "create", http.MethodPost, k, "", "", body)
}

// Read reads a document.
func (c ContainerDocuments) Read(ctx context.Context, k feed.PartitionKey, id string) (Document, error) {
	return c.document(ctx, "read", http.MethodGet, k, id, "", nil)
}

// Replace replaces a document that has an ETag.
func (c ContainerDocuments) Replace(ctx context.Context, k feed.PartitionKey, id, etag string, body []byte) (Document, error) {
	return c.document(ctx, "replace", http.MethodPut, k, id, etag, body)
}

// DeleteDocument deletes a document that has an ETag.
func (c ContainerDocuments) DeleteDocument(ctx context.Context, k feed.PartitionKey, id, etag string) error {
	_, err := c.document(ctx, "delete", http.MethodDelete, k, id, etag, nil)
	return err
}

// Query returns the pages of a query over all partitions; see [rest.Query].
func (c ContainerDocuments) Query(ctx context.Context, text string, size int, parameters ...rest.Parameter) iter.Seq2[rest.Page, error] {
	q := rest.Query{Operation: "query " + c.what(), Path: c.path(), Text: text, Parameters: parameters, PageSize: size}
	return q.Pages(ctx, c.database.documents.raw)
}

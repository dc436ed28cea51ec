package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// Client sends requests to a server without an SDK. It is safe for concurrent use.
type Client struct {
	endpoint string
	key      wire.Key
	http     *http.Client
}

// Container identifies a container by its database and its name.
type Container struct{ Database, Name string }

func (c Container) path(rest ...string) string {
	p := "/dbs/" + url.PathEscape(c.Database) + "/colls/" + url.PathEscape(c.Name)
	for _, r := range rest {
		p += "/" + url.PathEscape(r)
	}
	return p
}

// NewClient returns a client of the server at endpoint. It returns an error if the
// account key is invalid.
func NewClient(endpoint, key string) (*Client, error) {
	k, err := wire.ParseKey(key)
	if err != nil {
		return nil, err
	}
	return &Client{endpoint: strings.TrimSuffix(endpoint, "/"), key: k, http: newHTTPClient()}, nil
}

// Do sends a request for an escaped path and returns the answer. headers are names and
// values in turns. It returns an error if the status is 400 or more.
func (c *Client) Do(ctx context.Context, method, path, body string, headers ...string) (http.Header, []byte, error) {
	kind, link := "_changefeed", strings.TrimPrefix(path, "/_changefeed/")
	if link == path {
		p, err := wire.ParsePath(path)
		if err != nil {
			return nil, nil, err
		}
		kind, link = p.SignedType(), p.Links()[0]
	} else if plain, err := url.PathUnescape(link); err == nil {
		link = plain
	}
	r, err := http.NewRequestWithContext(ctx, method, c.endpoint+path, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if body == "" {
		r.Body, r.GetBody, r.ContentLength = http.NoBody, nil, 0
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	r.Header.Set(wire.HeaderDate, wire.FormatTime(time.Now()))
	r.Header.Set("Authorization", wire.Authorization(c.key.Sign(wire.Payload(method, kind, link, r.Header.Get(wire.HeaderDate), ""))))
	a, err := c.http.Do(r)
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(a.Body)
	if err := errors.Join(err, a.Body.Close()); err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if a.StatusCode >= http.StatusBadRequest {
		return a.Header, text, fmt.Errorf("%s %s: %s %s", method, path, a.Status, text)
	}
	return a.Header, text, nil
}

// CreateDatabase creates a database.
func (c *Client) CreateDatabase(ctx context.Context, name string) error {
	_, _, err := c.Do(ctx, http.MethodPost, "/dbs", fmt.Sprintf(`{"id":%q}`, name))
	return err
}

// CreateContainer creates a container with a number of physical partitions and a
// partition key path (/pk, /id).
func (c *Client) CreateContainer(ctx context.Context, at Container, path string, partitions int) error {
	throughput := 400
	if partitions > 1 { // as in the service, a container has one partition per 10,000 RU/s
		throughput = 10_000 * partitions
	}
	_, _, err := c.Do(ctx, http.MethodPost, "/dbs/"+url.PathEscape(at.Database)+"/colls",
		fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":[%q],"kind":"Hash","version":2},"defaultTtl":-1}`, at.Name, path),
		wire.HeaderOfferThroughput, strconv.Itoa(throughput))
	return err
}

// Upsert creates or replaces a document with the given partition key.
func (c *Client) Upsert(ctx context.Context, at Container, key, document string) error {
	_, _, err := c.Do(ctx, http.MethodPost, at.path("docs"), document,
		wire.HeaderPartitionKey, keyHeader(key), wire.HeaderUpsert, "true", "Prefer", "return=minimal")
	return err
}

// Replace replaces the document with the given id. If etag is not empty, the request
// fails if the document has another ETag.
func (c *Client) Replace(ctx context.Context, at Container, key, id, document, etag string) error {
	headers := []string{wire.HeaderPartitionKey, keyHeader(key)}
	if etag != "" {
		headers = append(headers, "If-Match", etag)
	}
	_, _, err := c.Do(ctx, http.MethodPut, at.path("docs", id), document, headers...)
	return err
}

// Delete deletes a document.
func (c *Client) Delete(ctx context.Context, at Container, key, id string) error {
	_, _, err := c.Do(ctx, http.MethodDelete, at.path("docs", id), "", wire.HeaderPartitionKey, keyHeader(key))
	return err
}

// Documents returns all documents of a container.
func (c *Client) Documents(ctx context.Context, at Container) ([]json.RawMessage, error) {
	var all []json.RawMessage
	for continuation := ""; ; {
		headers := []string{}
		if continuation != "" {
			headers = append(headers, wire.HeaderContinuation, continuation)
		}
		h, text, err := c.Do(ctx, http.MethodGet, at.path("docs"), "", headers...)
		if err != nil {
			return nil, err
		}
		var page struct{ Documents []json.RawMessage }
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Documents...)
		if continuation = h.Get(wire.HeaderContinuation); continuation == "" {
			return all, nil
		}
	}
}

// keyHeader returns the value of the partition key header for a key of one string.
func keyHeader(key string) string {
	text, _ := json.Marshal([]string{key}) // a string can always be encoded
	return string(text)
}

// Partition is a live physical partition of a container.
type Partition struct {
	ID        string
	Min, Max  string
	Parents   []string
	Documents int
}

// Partitions returns a container's partitions in the order of their ranges.
func (c *Client) Partitions(ctx context.Context, at Container) ([]Partition, error) {
	return c.partitions(ctx, http.MethodGet, at)
}

// Split splits a partition in its middle and returns the two new partitions.
func (c *Client) Split(ctx context.Context, at Container, id string) ([]Partition, error) {
	return c.partitions(ctx, http.MethodPost, at, id, "split")
}

// Merge merges a partition with the next one and returns the new partition.
func (c *Client) Merge(ctx context.Context, at Container, id string) ([]Partition, error) {
	return c.partitions(ctx, http.MethodPost, at, id, "merge")
}

func (c *Client) partitions(ctx context.Context, method string, at Container, rest ...string) ([]Partition, error) {
	_, text, err := c.Do(ctx, method, "/_changefeed"+at.path(append([]string{"partitions"}, rest...)...), "")
	if err != nil {
		return nil, err
	}
	var all struct{ Partitions []Partition }
	return all.Partitions, json.Unmarshal(text, &all)
}

// SplitFirst splits the first partition of a container in its middle.
func (c *Client) SplitFirst(ctx context.Context, at Container) error {
	return c.changeFirst(ctx, at, "split", 2)
}

// MergeFirst merges the first two partitions of a container.
func (c *Client) MergeFirst(ctx context.Context, at Container) error {
	return c.changeFirst(ctx, at, "merge", 1)
}

// changeFirst splits or merges the first partition of a container. It returns an error
// unless the result is want partitions.
func (c *Client) changeFirst(ctx context.Context, at Container, verb string, want int) error {
	all, err := c.Partitions(ctx, at)
	if err != nil {
		return err
	}
	made, err := c.partitions(ctx, http.MethodPost, at, all[0].ID, verb)
	if err == nil && len(made) != want {
		err = fmt.Errorf("%s of partition %s returned %v", verb, all[0].ID, made)
	}
	return err
}

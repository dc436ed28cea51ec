// Package wiretest has a client of the REST protocol that uses no SDK. It is for tests
// and benchmarks that need control over each request and connection. [New] returns a
// [Client], and [Client.Do] signs and sends a request.
package wiretest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// Client sends requests to one server. It is safe for concurrent use.
type Client struct {
	// Endpoint is the server's URL, without a slash at its end.
	Endpoint string
	// Key signs the requests.
	Key wire.Key
	// HTTP sends the requests. If nil, http.DefaultClient is used.
	HTTP *http.Client
}

// New returns a client of the server at endpoint. The client signs with the emulators'
// key and sends its requests with by.
func New(endpoint string, by *http.Client) (*Client, error) {
	key, err := wire.ParseKey(wire.EmulatorKey)
	if err != nil {
		return nil, err
	}
	return &Client{Endpoint: strings.TrimSuffix(endpoint, "/"), Key: key, HTTP: by}, nil
}

// Request returns a signed request for an escaped path. headers alternate between names
// and values.
func (c *Client) Request(ctx context.Context, method, path, body string, headers ...string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.Endpoint+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body == "" {
		r.Body, r.GetBody, r.ContentLength = http.NoBody, nil, 0
	}
	if len(headers)%2 != 0 {
		return nil, fmt.Errorf("%d headers are not pairs of names and values", len(headers))
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r, Sign(r, c.Key, time.Now())
}

// Sign sets the date of a request to at, and signs the request with key.
func Sign(r *http.Request, key wire.Key, at time.Time) error {
	p, err := wire.ParsePath(r.URL.EscapedPath())
	if err != nil {
		return err
	}
	r.Header.Set(wire.HeaderDate, wire.FormatTime(at))
	payload := wire.Payload(r.Method, p.SignedType(), p.Links()[0], r.Header.Get(wire.HeaderDate), "")
	r.Header.Set("Authorization", wire.Authorization(key.Sign(payload)))
	return nil
}

// Do sends a signed request and reads the whole response. It returns a *[StatusError] if
// the status is 400 or above.
func (c *Client) Do(ctx context.Context, method, path, body string, headers ...string) (http.Header, []byte, error) {
	r, err := c.Request(ctx, method, path, body, headers...)
	if err != nil {
		return nil, nil, err
	}
	by := c.HTTP
	if by == nil {
		by = http.DefaultClient
	}
	a, err := by.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = a.Body.Close() }() // read to its end
	var b bytes.Buffer
	if _, err := io.Copy(&b, a.Body); err != nil {
		return nil, nil, err
	}
	if a.StatusCode >= http.StatusBadRequest {
		return a.Header, b.Bytes(), &StatusError{Status: a.StatusCode, Text: fmt.Sprintf("%s %s: %s %s", method, path, a.Status, b.Bytes())}
	}
	return a.Header, b.Bytes(), nil
}

// StatusError is a response that refuses the request.
type StatusError struct {
	Status int
	// Text describes the request and the response.
	Text string
}

func (e *StatusError) Error() string { return e.Text }

// Put upserts a document with the JSON body. container is the container's path, and pk
// the document's partition key, a string.
func (c *Client) Put(ctx context.Context, container, pk, body string) error {
	_, _, err := c.Do(ctx, http.MethodPost, container+"/docs", body,
		wire.HeaderPartitionKey, `["`+pk+`"]`, wire.HeaderUpsert, "true", "Prefer", "return=minimal")
	return err
}

// Make creates a database and a container in it, partitioned by /pk. It returns the
// container's path.
func (c *Client) Make(ctx context.Context, database, container string) (path string, err error) {
	if _, _, err := c.Do(ctx, http.MethodPost, "/dbs", fmt.Sprintf(`{"id":%q}`, database)); err != nil {
		return "", err
	}
	path = "/dbs/" + url.PathEscape(database) + "/colls"
	_, _, err = c.Do(ctx, http.MethodPost, path, fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}`, container))
	return path + "/" + url.PathEscape(container), err
}

// Feed reads the change feed of a container from the beginning, in pages of at most size
// documents, and calls page with the text of each page.
func (c *Client) Feed(ctx context.Context, container string, size int, page func(text []byte) error) error {
	for etag := ""; ; {
		headers := []string{wire.HeaderAIM, wire.AIMIncremental, wire.HeaderMaxItemCount, fmt.Sprint(size)}
		if etag != "" {
			headers = append(headers, "If-None-Match", etag)
		}
		h, text, err := c.Do(ctx, http.MethodGet, container+"/docs", "", headers...)
		if err != nil {
			return err
		}
		if len(text) == 0 { // 304: there are no new changes
			return nil
		}
		if etag = h.Get("Etag"); etag == "" {
			return fmt.Errorf("a page of %s has no etag", container)
		}
		if err := page(text); err != nil {
			return err
		}
	}
}

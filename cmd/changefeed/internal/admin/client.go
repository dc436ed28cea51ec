// Package admin is a client of the admin API of `changefeed serve`, which docs/admin.md
// describes.
package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// Sender sends requests. An [http.Client] is one.
type Sender interface {
	Do(r *http.Request) (*http.Response, error)
}

// Client calls the admin API of one server. It is safe for concurrent use.
type Client struct {
	endpoint *url.URL
	key      wire.Key
	http     Sender
}

// New returns a client of the server at endpoint, which signs requests with key, an
// account key in base64. c sends the requests. An error names the flag whose value is
// invalid.
func New(endpoint, key string, c Sender) (*Client, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("--endpoint is %q: it must be a URL of the form https://127.0.0.1:8081/", endpoint)
	}
	k, err := wire.ParseKey(key)
	if err != nil {
		return nil, fmt.Errorf("--key is invalid: %w", err)
	}
	return &Client{endpoint: u, key: k, http: c}, nil
}

// Partition is a live physical partition. LSN, Documents, Bytes and Frozen are set only
// in the result of [Client.Partitions].
type Partition struct {
	ID        string   `json:"id"`
	Min       string   `json:"min"`
	Max       string   `json:"max"`
	Parents   []string `json:"parents"`
	LSN       int64    `json:"lsn"`
	Documents int64    `json:"documents"`
	Bytes     int64    `json:"bytes"`
	Frozen    bool     `json:"frozen"`
}

// PartitionList is the answer to a request for partitions.
type PartitionList struct {
	Partitions []Partition `json:"partitions"`
}

// Partitions lists the live partitions of a container.
func (c *Client) Partitions(ctx context.Context, database, container string) ([]Partition, error) {
	return c.partitions(ctx, http.MethodGet, nil, "dbs", database, "colls", container, "partitions")
}

// Split splits a partition at the effective partition key at. If at is empty, it splits
// the partition in the middle. It returns the new partitions.
func (c *Client) Split(ctx context.Context, database, container, partition, at string) ([]Partition, error) {
	return c.partitions(ctx, http.MethodPost, map[string]string{"at": at}, "dbs", database, "colls", container, "partitions", partition, "split")
}

// Merge merges a partition with the neighbouring partition with. If with is empty, it
// merges it with the next one. It returns the new partition.
func (c *Client) Merge(ctx context.Context, database, container, partition, with string) ([]Partition, error) {
	return c.partitions(ctx, http.MethodPost, map[string]string{"with": with}, "dbs", database, "colls", container, "partitions", partition, "merge")
}

// partitions sends a request whose answer is a list of partitions.
func (c *Client) partitions(ctx context.Context, method string, body any, path ...string) ([]Partition, error) {
	var list PartitionList
	err := c.call(ctx, method, body, &list, path...)
	return list.Partitions, err
}

// call sends a signed request with body as JSON, and decodes the answer into answer, unless
// that is nil.
func (c *Client) call(ctx context.Context, method string, body, answer any, path ...string) error {
	sent := make([]string, len(path))
	for i, segment := range path {
		sent[i] = url.PathEscape(segment)
	}
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	target := strings.TrimSuffix(c.endpoint.String(), "/") + "/_changefeed/" + strings.Join(sent, "/")
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(text))
	if err != nil {
		return err
	}
	date := wire.FormatTime(time.Now())
	r.Header.Set(wire.HeaderDate, date)
	r.Header.Set("Authorization", wire.Authorization(c.key.Sign(wire.Payload(method, "_changefeed", strings.Join(path, "/"), date, ""))))
	got, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("ask %s: %w", c.endpoint, err)
	}
	defer func() { _ = got.Body.Close() }() // the body was only read
	reply, err := io.ReadAll(io.LimitReader(got.Body, 64<<20))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", c.endpoint, err)
	}
	if err := wire.Stranger(got.StatusCode, got.Header, reply); err != nil {
		return &strangerError{fmt.Errorf("%s is %w", c.endpoint, err)}
	}
	if got.StatusCode >= http.StatusMultipleChoices {
		return c.refusal(got, reply)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(reply, answer); err != nil {
		return &strangerError{fmt.Errorf("%s did not answer as expected (is it a changefeed server?): %w", c.endpoint, err)}
	}
	return nil
}

// strangerError reports that some other server is at the endpoint. It is
// [feed.ErrMisconfigured], so that the command names the flags to check.
type strangerError struct{ error }

// Unwrap returns the error underneath.
func (e *strangerError) Unwrap() error { return e.error }

// Is implements the interface of [errors.Is].
func (e *strangerError) Is(target error) bool { return target == feed.ErrMisconfigured }

// NotFoundError reports that the container, or a partition of it, does not exist.
type NotFoundError struct{ message string }

func (e *NotFoundError) Error() string { return e.message }

// StatusError reports an answer whose HTTP status is a failure.
type StatusError struct {
	Status int
	// Request is the request that was answered.
	Request *http.Request
	message string
}

func (e *StatusError) Error() string { return e.message }

// refusal returns the error for an answer with a failure status.
func (c *Client) refusal(answer *http.Response, body []byte) error {
	status := answer.StatusCode
	var e wire.ErrorBody
	if err := json.Unmarshal(body, &e); err != nil || e.Message == "" {
		if wire.RequiresTLS(status, string(body)) {
			return fmt.Errorf("%s requires TLS; use https:// in --endpoint", c.endpoint)
		}
		unexplained := &StatusError{status, answer.Request, fmt.Sprintf("%s answers with status %d and no reason: is it a changefeed server?", c.endpoint, status)}
		if status < http.StatusInternalServerError { // otherwise a proxy may answer while the server is down
			return &strangerError{unexplained}
		}
		return unexplained
	}
	message, _, _ := strings.Cut(e.Message, "\nActivityId:")
	switch status {
	case http.StatusNotFound:
		return &NotFoundError{message}
	case http.StatusForbidden:
		return fmt.Errorf("the server rejects the request: %s", message)
	}
	return &StatusError{status, answer.Request, message}
}

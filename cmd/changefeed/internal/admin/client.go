// Package admin is a client of a server's admin API, see docs/admin.md.
package admin

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// Config says which server is meant.
type Config struct {
	// Endpoint is the server's URL, Key an account key of it (base64).
	Endpoint, Key string
	// Certificate is the path of a certificate (PEM) to trust beside the system's. Default: none.
	Certificate string
	// Client sends the requests. Default: one that trusts Certificate.
	Client *http.Client
}

// Client calls the admin API of one server.
type Client struct {
	endpoint *url.URL
	key      wire.Key
	http     *http.Client
}

// requestTime bounds a request: a list counts the documents of a partition that was just
// split, which takes some seconds when it has millions.
const requestTime = time.Minute

// New makes a client. The error names the field that can't be used.
func New(c Config) (*Client, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("--endpoint is %q: it is a URL of the form https://127.0.0.1:8081/", c.Endpoint)
	}
	key, err := wire.ParseKey(c.Key)
	if err != nil {
		return nil, fmt.Errorf("--key can't be used: %w", err)
	}
	if c.Client != nil {
		return &Client{endpoint: u, key: key, http: c.Client}, nil
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if c.Certificate != "" {
		pem, err := os.ReadFile(c.Certificate)
		if err != nil {
			return nil, fmt.Errorf("--certificate: %w", err)
		}
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool() // a system that has none
		}
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--certificate: %s has no certificate in PEM", c.Certificate)
		}
		transport.TLSClientConfig.RootCAs = roots
	}
	return &Client{endpoint: u, key: key, http: &http.Client{Transport: transport, Timeout: requestTime}}, nil
}

// Partition is a live physical partition. The counts are those of a list only.
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

// Partitions lists the live partitions of a container.
func (c *Client) Partitions(ctx context.Context, database, container string) ([]Partition, error) {
	return c.call(ctx, http.MethodGet, nil, "dbs", database, "colls", container, "partitions")
}

// Split divides a partition at an effective partition key; empty: in the middle.
func (c *Client) Split(ctx context.Context, database, container, partition, at string) ([]Partition, error) {
	return c.call(ctx, http.MethodPost, map[string]string{"at": at}, "dbs", database, "colls", container, "partitions", partition, "split")
}

// Merge joins a partition with a neighbour; empty: the next one.
func (c *Client) Merge(ctx context.Context, database, container, partition, with string) ([]Partition, error) {
	return c.call(ctx, http.MethodPost, map[string]string{"with": with}, "dbs", database, "colls", container, "partitions", partition, "merge")
}

// call sends a signed request, and reads the partitions of its answer.
func (c *Client) call(ctx context.Context, method string, body any, path ...string) ([]Partition, error) {
	sent := make([]string, len(path))
	for i, segment := range path {
		sent[i] = url.PathEscape(segment)
	}
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	target := strings.TrimSuffix(c.endpoint.String(), "/") + "/_changefeed/" + strings.Join(sent, "/")
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	date := wire.FormatTime(time.Now())
	r.Header.Set(wire.HeaderDate, date)
	r.Header.Set("Authorization", wire.Authorization(c.key.Sign(wire.Payload(method, "_changefeed", strings.Join(path, "/"), date, ""))))
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, c.advise(err)
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	reply, err := io.ReadAll(io.LimitReader(answer.Body, 64<<20))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.endpoint, err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, c.refusal(answer.StatusCode, reply)
	}
	var list struct{ Partitions []Partition }
	if err := json.Unmarshal(reply, &list); err != nil {
		return nil, fmt.Errorf("%s answers with something else than partitions (is it a changefeed server?): %w", c.endpoint, err)
	}
	return list.Partitions, nil
}

// advise says what to do about a server that can't be reached.
func (c *Client) advise(err error) error {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		dns       *net.DNSError
	)
	switch {
	case errors.As(err, &authority):
		return fmt.Errorf("the certificate of %s is not trusted: give --certificate FILE, whose path the server prints when it starts", c.endpoint)
	case errors.As(err, &name):
		return fmt.Errorf("the certificate of %s is for another name: %w; use a name it has, or start the server with --public-endpoint", c.endpoint, err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s doesn't speak TLS: use http:// in --endpoint", c.endpoint)
	case errors.Is(err, syscall.ECONNREFUSED):
		return &unreachableError{fmt.Sprintf("nobody listens at %s: start `changefeed serve`, or give its --endpoint", c.endpoint), err}
	case errors.As(err, &dns):
		return fmt.Errorf("%s is not known: %w", c.endpoint.Hostname(), err)
	}
	return fmt.Errorf("ask %s: %w", c.endpoint, err)
}

// NotFoundError reports that the container, or a partition of it, does not exist.
type NotFoundError struct{ message string }

func (e *NotFoundError) Error() string { return e.message }

// StatusError is an answer other than success.
type StatusError struct {
	Status  int
	message string
}

func (e *StatusError) Error() string { return e.message }

// unreachableError has a text of its own for the error underneath.
type unreachableError struct {
	message string
	err     error
}

func (e *unreachableError) Error() string { return e.message }

// Unwrap returns the error underneath.
func (e *unreachableError) Unwrap() error { return e.err }

// refusal is the error that an answer says.
func (c *Client) refusal(status int, body []byte) error {
	var e wire.ErrorBody
	if err := json.Unmarshal(body, &e); err != nil || e.Message == "" {
		if status == http.StatusBadRequest && bytes.Contains(body, []byte("HTTP request to an HTTPS server")) {
			return fmt.Errorf("%s speaks TLS: use https:// in --endpoint", c.endpoint)
		}
		return &StatusError{status, fmt.Sprintf("%s answers with status %d and no reason: is it a changefeed server?", c.endpoint, status)}
	}
	message, _, _ := strings.Cut(e.Message, "\nActivityId:")
	switch status {
	case http.StatusNotFound:
		return &NotFoundError{message}
	case http.StatusUnauthorized:
		return fmt.Errorf("the server refuses the key: give the --key that it printed when it started (%s)", message)
	case http.StatusForbidden:
		return fmt.Errorf("the server refuses: %s", message)
	}
	return &StatusError{status, message}
}

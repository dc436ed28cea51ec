package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

// An exchange is a request that passed the proxy, and its answer.
type exchange struct {
	method, path string
	header       http.Header
	sent         []byte
	status       int
	subStatus    string
	answered     []byte
}

// query says whether it is a query, or the request for its plan.
func (e exchange) query() bool {
	return e.header.Get("X-Ms-Cosmos-Is-Query-Plan-Request") != "" || e.header.Get("X-Ms-Documentdb-Isquery") != ""
}

// A proxy passes on what it gets, and remembers it. Its methods may be called concurrently.
type proxy struct {
	// endpoint is its own URL.
	endpoint string

	server  *http.Server
	serving sync.WaitGroup

	mu  sync.Mutex // guards log
	log []exchange
}

type sentKey struct{}

// newProxy starts a proxy in front of a server. The Host header stays as the client sends it, so the server
// calls itself by the proxy's name.
func newProxy(ctx context.Context, endpoint string) (*proxy, error) {
	target, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, err
	}
	p := &proxy{endpoint: "http://localhost:" + port + "/"}
	pass := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, r.In.Host
		},
		ModifyResponse: p.remember,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { // a host was killed, or the server ends
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	p.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(sent))
		pass.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), sentKey{}, sent)))
	})}
	p.serving.Go(func() { _ = p.server.Serve(listener) }) // ends with close
	return p, nil
}

func (p *proxy) remember(a *http.Response) error {
	answered, err := io.ReadAll(a.Body)
	if err := errors.Join(err, a.Body.Close()); err != nil {
		return err
	}
	a.Body = io.NopCloser(bytes.NewReader(answered))
	sent, _ := a.Request.Context().Value(sentKey{}).([]byte)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, exchange{
		a.Request.Method, a.Request.URL.Path, a.Request.Header.Clone(), sent, a.StatusCode, a.Header.Get("X-Ms-Substatus"), answered,
	})
	return nil
}

func (p *proxy) close() {
	_ = p.server.Close()
	p.serving.Wait()
}

// since returns what passed after the first so many exchanges.
func (p *proxy) since(count int) []exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log[count:len(p.log):len(p.log)]
}

func (p *proxy) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.log)
}

// A write is a successful create or replace of a document in a lease container.
type write struct {
	exchange
	document lease
}

// A lease is what the recorder looks at in a document of a lease container, be it a lease, a marker or a lock.
type lease struct {
	ID                string
	LeaseToken        *string
	ContinuationToken *string
	Owner             *string
	Timestamp         time.Time
	Version           *int
}

func (l lease) token() string { return text(l.LeaseToken) }

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// writes returns the writes to a lease container, by its path, since the first so many exchanges.
func (p *proxy) writes(since int, container string) ([]write, error) {
	var all []write
	for _, e := range p.since(since) {
		post := e.method == http.MethodPost && e.path == container+"/docs"
		put := e.method == http.MethodPut && strings.HasPrefix(e.path, container+"/docs/")
		if !post && !put || e.status >= http.StatusMultipleChoices || !bytes.HasPrefix(e.sent, []byte("{")) || e.query() {
			continue
		}
		w := write{exchange: e}
		if err := json.Unmarshal(e.sent, &w.document); err != nil {
			return nil, fmt.Errorf("%s %s: %w", e.method, e.path, err)
		}
		all = append(all, w)
	}
	return all, nil
}

// feedRequests describes the reads of a monitored container's change feed: by which headers, and what was answered. Each kind once, in
// the order of the first of them.
func feedRequests(all []exchange, container string) []string {
	var kinds []string
	seen := map[string]bool{}
	names := []string{
		"A-Im", "If-None-Match", "If-Modified-Since", "X-Ms-Max-Item-Count", "X-Ms-Documentdb-Partitionkeyrangeid", "X-Ms-Read-Key-Type",
		"X-Ms-Start-Epk", "X-Ms-End-Epk", "X-Ms-Cosmos-Changefeed-Wire-Format-Version", "X-Ms-Cosmos-Sdk-Supportedcapabilities",
	}
	for _, e := range all {
		if e.method != http.MethodGet || e.path != container+"/docs" {
			continue
		}
		kind := ""
		for _, n := range names {
			value := e.header.Get(n)
			switch {
			case value == "":
				continue
			case n == "If-None-Match" && value != "*":
				value = "ETAG"
			case n == "If-Modified-Since":
				value = "TIME"
			}
			kind += fmt.Sprintf("%s: %s; ", n, value)
		}
		kind += fmt.Sprintf("-> %d", e.status)
		if e.subStatus != "" && e.subStatus != "0" {
			kind += "/" + e.subStatus
		}
		if !seen[kind] {
			seen[kind] = true
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

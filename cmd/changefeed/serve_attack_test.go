package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/internal/wire/wiretest"
)

// This test attacks a server's memory in all known ways at once, while one good client
// uses the server.

const (
	// attackMemory is the server's --memory-limit in MiB, and the maximum memory of the
	// process.
	attackMemory = 256
	attackTime   = 30 * time.Second
	// attackGap is the longest time that the good client may be without a successful
	// request.
	attackGap = 10 * time.Second
)

// attack is a server under attack. Each attacker uses one connection, and opens another
// when the server closes it.
type attack struct {
	*server
	t         *testing.T
	ctx       context.Context
	container string
	opened    atomic.Int64
	all       sync.WaitGroup
}

// run keeps n attackers of one kind running. The server may answer, delay or close their
// connections.
func (a *attack) run(n int, kind func(conn net.Conn)) {
	address := strings.TrimPrefix(a.Endpoint, "http://")
	for range n {
		a.all.Go(func() {
			var d net.Dialer
			for a.ctx.Err() == nil {
				conn, err := d.DialContext(a.ctx, "tcp", address)
				if err == nil {
					a.opened.Add(1)
					stop := context.AfterFunc(a.ctx, func() { _ = conn.SetDeadline(time.Now()) })
					kind(conn)
					stop()
					_ = conn.Close()
				}
				select {
				case <-a.ctx.Done():
				case <-time.After(2 * time.Second):
				}
			}
		})
	}
}

// stall keeps a connection open without reading, until the server closes it.
func (a *attack) stall(conn net.Conn) {
	for a.ctx.Err() == nil {
		if _, err := conn.Write(nil); err != nil {
			return
		}
		select {
		case <-a.ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// signed writes a signed request to conn and reports whether it could. announced is the
// Content-Length, if it is larger than the body that is sent.
func (a *attack) signed(conn net.Conn, method, path, body string, announced int, headers ...string) bool {
	r, err := a.Request(a.ctx, method, path, "", headers...)
	if err != nil {
		return false
	}
	var head strings.Builder
	fmt.Fprintf(&head, "%s %s HTTP/1.1\r\nHost: s\r\nContent-Length: %d\r\n", method, path, max(announced, len(body)))
	if err := r.Header.Write(&head); err != nil {
		return false
	}
	_, err = io.WriteString(conn, head.String()+"\r\n"+body)
	return err == nil
}

// attackers starts the attackers of all kinds.
func (a *attack) attackers() {
	body := `{"id":"b","pk":"k","text":"` + strings.Repeat("x", 1900<<10)
	a.run(300, func(conn net.Conn) { // the body ends before its announced length
		if a.signed(conn, http.MethodPost, a.container+"/docs", body, 2<<20, wire.HeaderPartitionKey, `["k"]`) {
			_, _ = io.Copy(io.Discard, conn)
		}
	})
	a.run(300, func(conn net.Conn) { // the answers are not read
		for range 4 {
			if !a.signed(conn, http.MethodGet, a.container+"/docs", "", 0, wire.HeaderAIM, wire.AIMIncremental, wire.HeaderMaxItemCount, "-1") {
				return
			}
		}
		a.stall(conn)
	})
	a.run(16, func(conn net.Conn) { // large rows are sorted by large keys
		const text = `{"query":"SELECT * FROM c ORDER BY c.text"}`
		if a.signed(conn, http.MethodPost, a.container+"/docs", text, 0, "Content-Type", wire.ContentTypeQuery, wire.HeaderIsQuery, "true",
			wire.HeaderPartitionKey, `["k"]`, wire.HeaderMaxItemCount, "-1") {
			_ = conn.SetReadDeadline(time.Now().Add(attackGap))
			_, _ = conn.Read(make([]byte, 1)) // wait until the answer begins
		}
	})
	long := "GET / HTTP/1.1\r\nHost: s\r\nX: " + strings.Repeat("x", 250<<10)
	a.run(500, func(conn net.Conn) { // the request has one long header
		_, _ = io.WriteString(conn, long)
		_, _ = io.Copy(io.Discard, conn)
	})
	var many strings.Builder
	many.WriteString("GET / HTTP/1.1\r\nHost: s\r\n")
	for n := 0; many.Len() < 60<<10; n++ {
		fmt.Fprintf(&many, "%x:\r\n", n)
	}
	a.run(500, func(conn net.Conn) { // the request has many short headers, each of which takes much more memory than its text
		_, _ = io.WriteString(conn, many.String())
		_, _ = io.Copy(io.Discard, conn)
	})
}

// served repeats a request of the good client until it succeeds, as an SDK would. It
// returns the time that this took. It fails the test if that is too long.
func (a *attack) served(c *wiretest.Client, do func() error) time.Duration {
	began := time.Now()
	for {
		err := do()
		if err == nil {
			return time.Since(began)
		}
		refused := (*wiretest.StatusError)(nil)
		if errors.As(err, &refused) && refused.Status != http.StatusTooManyRequests {
			a.t.Errorf("the good client was refused: %.300s", refused)
			return time.Since(began)
		}
		if time.Since(began) > 2*attackGap {
			a.t.Fatalf("the good client was not served in %s; %v", time.Since(began), err)
		}
		if refused == nil { // the server had closed the idle connection
			c.HTTP.CloseIdleConnections()
		}
		<-time.After(100 * time.Millisecond)
	}
}

// TestServerSurvivesEveryAttackOnItsMemory checks that clients cannot make a server
// exceed its memory limit, and that a good client is served meanwhile.
func TestServerSurvivesEveryAttackOnItsMemory(t *testing.T) {
	if !*serverMemory {
		t.Skip("run with -serve.memory")
	}
	t.Run("stalled clients", attackByStalling)
	t.Run("large documents", attackByLargeDocuments)
}

// attackByStalling attacks with clients that send slowly, read slowly, send long headers,
// or sort large rows.
func attackByStalling(t *testing.T) {
	s := startServe(t, 4, "--data", t.TempDir(), "--memory-limit", fmt.Sprint(attackMemory))
	ctx, cancel := context.WithTimeout(t.Context(), attackTime)
	defer cancel()
	container, err := s.Make(ctx, "shop", "orders")
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 250<<10)
	for n := range 200 {
		if err := s.Put(ctx, container, "k", fmt.Sprintf(`{"id":"%d","pk":"k","text":"%03d%s"}`, n, n, large)); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("loaded: %d MiB", s.resident(t, "VmRSS")>>20)
	a := &attack{server: s, t: t, ctx: ctx, container: container}
	a.attackers()
	var worst time.Duration
	var done int
	key := []string{wire.HeaderPartitionKey, `["good"]`}
	for n := 0; ctx.Err() == nil; n++ {
		id := fmt.Sprint("good", n)
		for _, do := range []func() error{
			func() error { return s.Put(t.Context(), container, "good", fmt.Sprintf(`{"id":%q,"pk":"good"}`, id)) },
			func() error {
				_, _, err := s.Do(t.Context(), http.MethodGet, container+"/docs/"+id, "", key...)
				return err
			},
			func() error {
				_, _, err := s.Do(t.Context(), http.MethodPost, container+"/docs", `{"query":"SELECT * FROM c WHERE c.id = '`+id+`'"}`,
					append(key, "Content-Type", wire.ContentTypeQuery, wire.HeaderIsQuery, "true")...)
				return err
			},
		} {
			worst = max(worst, a.served(s.Client, do))
			done++
		}
	}
	a.all.Wait()
	most := s.resident(t, "VmHWM")
	t.Logf("%d connections of attackers; the good client: %d requests, the slowest %s; %d MiB at most", a.opened.Load(), done, worst, most>>20)
	if worst > attackGap {
		t.Errorf("the good client waited %s", worst)
	}
	if most > attackMemory<<20 {
		t.Errorf("the process took %d MiB, more than --memory-limit %d", most>>20, attackMemory)
	}
	deadline := time.Now().Add(time.Minute)
	for s.resident(t, "VmRSS") > most/2 && time.Now().Before(deadline) {
		<-time.After(time.Second)
	}
	t.Logf("%d MiB %s after the attack", s.resident(t, "VmRSS")>>20, time.Since(deadline.Add(-time.Minute)).Round(time.Second))
	s.stop(t)
}

const (
	// floodDocuments is the number of documents on the server. Each one has floodSize
	// bytes.
	floodDocuments = 100
	floodSize      = 1900 << 10
	floodTime      = 12 * time.Second
)

// attackByLargeDocuments attacks with clients that send valid signed requests and read
// the answers. Their requests concern documents of nearly the maximum size.
func attackByLargeDocuments(t *testing.T) {
	data := t.TempDir()
	start := func(t *testing.T) *server {
		return startServe(t, 8, "--data", data, "--memory-limit", fmt.Sprint(attackMemory))
	}
	s := start(t)
	container, err := s.Make(t.Context(), "shop", "orders")
	if err != nil {
		t.Fatal(err)
	}
	document := func(n int) string {
		return fmt.Sprintf(`{"id":"%d","pk":"k","text":"%s"}`, n, strings.Repeat(string(rune('a'+n%26)), floodSize))
	}
	for n := range floodDocuments {
		if err := s.Put(t.Context(), container, "k", document(n)); err != nil {
			t.Fatal(err)
		}
	}
	s.stop(t)
	key := []string{wire.HeaderPartitionKey, `["k"]`}
	small := `{"operations":[{"op":"set","path":"/small","value":1}]}`
	batch := func(atomic bool, operation func(n int) string) func(n int) (method, path, body string, headers []string) {
		operations := make([]string, floodDocuments)
		for n := range operations {
			operations[n] = operation(n)
		}
		if atomic {
			operations = operations[:2] // the items of a transaction have at most 4 MiB together
		}
		body := "[" + strings.Join(operations, ",") + "]"
		return func(int) (string, string, string, []string) {
			return http.MethodPost, container + "/docs", body, append(key, wire.HeaderBatch, "true", wire.HeaderBatchAtomic, fmt.Sprint(atomic),
				wire.HeaderBatchContinueOnError, fmt.Sprint(!atomic))
		}
	}
	patch := func(n int) string {
		return fmt.Sprintf(`{"operationType":"Patch","id":"%d","partitionKey":"[\"k\"]","resourceBody":%s}`, n, small)
	}
	read := func(n int) string {
		return fmt.Sprintf(`{"operationType":"Read","id":"%d","partitionKey":"[\"k\"]"}`, n)
	}
	floods := []struct {
		name    string
		clients int
		// request returns the n-th request of a client.
		request func(n int) (method, path, body string, headers []string)
	}{
		{"upserts", 64, func(n int) (string, string, string, []string) {
			return http.MethodPost, container + "/docs", document(n % floodDocuments), append(key, wire.HeaderUpsert, "true")
		}},
		{"reads", 64, func(n int) (string, string, string, []string) {
			return http.MethodGet, container + "/docs/" + fmt.Sprint(n%floodDocuments), "", key
		}},
		{"patches", 64, func(n int) (string, string, string, []string) {
			return http.MethodPatch, container + "/docs/" + fmt.Sprint(n%floodDocuments), small, key
		}},
		{"bulks of patches", 8, batch(false, patch)},
		{"bulks of reads", 8, batch(false, read)},
		{"transactions of patches", 12, batch(true, patch)},
	}
	run := func(t *testing.T, names ...string) {
		s := start(t)
		ctx, cancel := context.WithTimeout(t.Context(), floodTime)
		defer cancel()
		var all sync.WaitGroup
		var lock sync.Mutex
		answers := map[int]int{}
		for _, f := range floods {
			if !slices.Contains(names, f.name) {
				continue
			}
			for client := range f.clients {
				all.Go(func() {
					c := &http.Client{Transport: &http.Transport{}}
					defer c.CloseIdleConnections()
					for n := client * 7; ctx.Err() == nil; n++ {
						method, path, body, headers := f.request(n)
						r, err := s.Request(ctx, method, path, body, slices.Clip(headers)...)
						if err != nil {
							t.Error(err)
							return
						}
						a, err := c.Do(r)
						if err != nil {
							continue // the server may close connections
						}
						_, _ = io.Copy(io.Discard, a.Body)
						_ = a.Body.Close()
						lock.Lock()
						answers[a.StatusCode]++
						lock.Unlock()
						if a.StatusCode == http.StatusTooManyRequests {
							<-time.After(100 * time.Millisecond)
						}
					}
				})
			}
		}
		all.Wait()
		most := s.resident(t, "VmHWM")
		t.Logf("%d MiB at most; answers by status: %v", most>>20, answers)
		if answers[http.StatusOK]+answers[http.StatusMultiStatus] == 0 {
			t.Errorf("no request was served: %v", answers)
		}
		if most > attackMemory<<20 {
			t.Errorf("the process took %d MiB, more than --memory-limit %d", most>>20, attackMemory)
		}
		s.stop(t)
	}
	var names []string
	for _, f := range floods {
		names = append(names, f.name)
		t.Run(f.name, func(t *testing.T) { run(t, f.name) })
	}
	t.Run("all at once", func(t *testing.T) { run(t, names...) })
}

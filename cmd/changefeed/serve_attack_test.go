package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/internal/wire/wiretest"
)

// Clients that try to use up a server's memory, all of them at once, and one that wants to be served.

const (
	// attackMemory is the server's --memory-limit in MiB, and what the process may take at most.
	attackMemory = 256
	attackTime   = 30 * time.Second
	// attackGap is the longest time for which the good client may get nothing done.
	attackGap = 10 * time.Second
)

// attack is a server under attack. Each kind of attacker has connections of its own, and opens a new one when the server ends one.
type attack struct {
	*server
	t         *testing.T
	ctx       context.Context
	container string
	opened    atomic.Int64
	all       sync.WaitGroup
}

// run keeps n attackers of a kind busy. Whatever comes of an attacker's connection is the server's right.
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

// stall waits until the server ends the connection, without reading what it sent before.
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

// signed writes a signed request; announced is the length of its body where that is longer than what is sent.
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

// attackers are the kinds, with the number of each.
func (a *attack) attackers() {
	body := `{"id":"b","pk":"k","text":"` + strings.Repeat("x", 1900<<10)
	a.run(300, func(conn net.Conn) { // a body that stops short of its end
		if a.signed(conn, http.MethodPost, a.container+"/docs", body, 2<<20, wire.HeaderPartitionKey, `["k"]`) {
			_, _ = io.Copy(io.Discard, conn)
		}
	})
	a.run(300, func(conn net.Conn) { // answers that nobody reads
		for range 4 {
			if !a.signed(conn, http.MethodGet, a.container+"/docs", "", 0, wire.HeaderAIM, wire.AIMIncremental, wire.HeaderMaxItemCount, "-1") {
				return
			}
		}
		a.stall(conn)
	})
	a.run(16, func(conn net.Conn) { // large rows, sorted by large keys
		const text = `{"query":"SELECT * FROM c ORDER BY c.text"}`
		if a.signed(conn, http.MethodPost, a.container+"/docs", text, 0, "Content-Type", wire.ContentTypeQuery, wire.HeaderIsQuery, "true",
			wire.HeaderPartitionKey, `["k"]`, wire.HeaderMaxItemCount, "-1") {
			_ = conn.SetReadDeadline(time.Now().Add(attackGap))
			_, _ = conn.Read(make([]byte, 1)) // the answer has begun
		}
	})
	long := "GET / HTTP/1.1\r\nHost: s\r\nX: " + strings.Repeat("x", 250<<10)
	a.run(500, func(conn net.Conn) { // a long header
		_, _ = io.WriteString(conn, long)
		_, _ = io.Copy(io.Discard, conn)
	})
	var many strings.Builder
	many.WriteString("GET / HTTP/1.1\r\nHost: s\r\n")
	for n := 0; many.Len() < 60<<10; n++ {
		fmt.Fprintf(&many, "%x:\r\n", n)
	}
	a.run(500, func(conn net.Conn) { // many short ones, each of which takes much more memory than its text
		_, _ = io.WriteString(conn, many.String())
		_, _ = io.Copy(io.Discard, conn)
	})
}

// served asks for an operation until it is done, as an SDK would, and returns how long that took.
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
		if refused == nil { // its connection was closed while it was at rest
			c.HTTP.CloseIdleConnections()
		}
		<-time.After(100 * time.Millisecond)
	}
}

// TestServerSurvivesEveryAttackOnItsMemory proves that clients cannot use up a server's memory, and that others are served
// meanwhile.
func TestServerSurvivesEveryAttackOnItsMemory(t *testing.T) {
	if !*serverMemory {
		t.Skip("run with -serve.memory")
	}
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

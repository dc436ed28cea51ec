package serve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
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

// The test opens hundreds of connections, some of which are slow or send garbage. The
// good clients must lose no request, and must hardly be slower than alone. A good client
// uses one connection and never opens another. So a dropped connection shows as a lost
// request.

var (
	loadConnections = flag.Int("load.connections", 0, "number of connections of the load test, a tenth of them bad; if 0, a small test runs that measures nothing")
	loadPhase       = flag.Duration("load.phase", 5*time.Second, "duration of each phase of the load test")
	loadPhases      = flag.Int("load.phases", 5, "number of pairs of phases of the load test, without and with bad clients")
	loadPause       = flag.Duration("load.pause", 100*time.Millisecond, "time that a client of the load test waits between two requests")
)

// startLoad starts a server with the limits of `changefeed serve --memory --tls off`, and
// creates a container on it.
func startLoad(t *testing.T) (c *wiretest.Client, address, container string) {
	t.Helper()
	ready, out := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var log bytes.Buffer
	go func() {
		ended <- Run(ctx, Config{Listen: "127.0.0.1:0", TLS: plain, Partitions: 2, Drain: 10 * time.Second, Out: out, Log: &log})
	}()
	lines, endpoint := bufio.NewScanner(ready), ""
	for lines.Scan() && lines.Text() != "ready" {
		if rest, ok := strings.CutPrefix(lines.Text(), "endpoint"); ok {
			endpoint = strings.TrimSpace(rest)
		}
	}
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server ended: %v; %s", err, log.String())
		}
	})
	c, err := wiretest.New(endpoint, &http.Client{Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	if container, err = c.Make(t.Context(), "shop", "orders"); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if err := c.Put(t.Context(), container, "p", kilobyte(fmt.Sprint("page", i), "p")); err != nil {
			t.Fatal(err)
		}
	}
	return c, strings.TrimSuffix(strings.TrimPrefix(endpoint, "http://"), "/"), container
}

// kilobyte returns a document of 1 KB.
func kilobyte(id, pk string) string {
	return fmt.Sprintf(`{"id":%q,"pk":%q,"text":%q}`, id, pk, strings.Repeat("x", 800))
}

// oneConnection is a client that sends all its requests over one connection.
type oneConnection struct {
	*wiretest.Client
	conn net.Conn
	r    *bufio.Reader
}

func connect(t *testing.T, c *wiretest.Client, address string) *oneConnection {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &oneConnection{Client: c, conn: conn, r: bufio.NewReader(conn)}
}

// ask sends a request and reads the whole answer. It returns an error unless the request
// succeeds.
func (o *oneConnection) ask(ctx context.Context, method, path, body string, headers ...string) error {
	r, err := o.Request(ctx, method, path, body, headers...)
	if err != nil {
		return err
	}
	if err := r.Write(o.conn); err != nil {
		return err
	}
	a, err := http.ReadResponse(o.r, r)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(a.Body)
	if err = errors.Join(err, a.Body.Close()); err != nil {
		return err
	}
	if a.StatusCode != http.StatusOK && a.StatusCode != http.StatusCreated {
		return fmt.Errorf("%s %s: %s %.300s", method, path, a.Status, text)
	}
	return nil
}

// goodClient writes and reads one document alternately until ctx ends. It returns the
// duration of each request.
func (o *oneConnection) goodClient(ctx context.Context, container string, n int, pause func()) (took []time.Duration, err error) {
	id, pk := fmt.Sprint("good", n), fmt.Sprint("k", n%50)
	key := []string{wire.HeaderPartitionKey, `["` + pk + `"]`}
	for ctx.Err() == nil {
		start := time.Now()
		if len(took)%2 == 0 {
			err = o.ask(context.WithoutCancel(ctx), http.MethodPost, container+"/docs", kilobyte(id, pk), append(key, wire.HeaderUpsert, "true")...)
		} else {
			err = o.ask(context.WithoutCancel(ctx), http.MethodGet, container+"/docs/"+id, "", key...)
		}
		if err != nil {
			return took, err
		}
		took = append(took, time.Since(start))
		pause()
	}
	return took, nil
}

// reconnect is the time after which a bad client opens its next connection.
const reconnect = 50 * time.Millisecond

// badClient misuses one connection. It is called again with a new connection until ctx
// ends.
type badClient func(ctx context.Context, conn net.Conn, container string)

// badClients contains all kinds of bad clients by name. They ignore failed writes,
// because the server may close the connection.
var badClients = map[string]badClient{
	"headers that never end": func(ctx context.Context, conn net.Conn, _ string) {
		dribble(ctx, conn, "GET / HTTP/1.1\r\nHost: s\r\nX-Slow: ", "x")
	},
	"a body that never ends": func(ctx context.Context, conn net.Conn, container string) {
		dribble(ctx, conn, "POST "+container+"/docs HTTP/1.1\r\nHost: s\r\nContent-Length: 2000000\r\n\r\n", "x")
	},
	"chunks that never end": func(ctx context.Context, conn net.Conn, container string) {
		dribble(ctx, conn, "POST "+container+"/docs HTTP/1.1\r\nHost: s\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n")
	},
	"requests whose answers nobody reads": func(ctx context.Context, conn net.Conn, container string) {
		dribble(ctx, conn, strings.Repeat("GET "+container+"/docs HTTP/1.1\r\nHost: s\r\n\r\n", 100), "GET / HTTP/1.1\r\nHost: s\r\n\r\n")
	},
	"random bytes": func(_ context.Context, conn net.Conn, _ string) {
		b := make([]byte, 4096)
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		_, _ = conn.Write(b)
		untilClosed(conn)
	},
	"garbage behind a method": func(_ context.Context, conn net.Conn, container string) {
		_, _ = io.WriteString(conn, "PUT "+container+"/docs/%00%ff%2e%2e HTTP/1.1\r\nHost: \x00\r\nAuthorization: "+strings.Repeat("%", 9000)+"\r\n\r\n")
		untilClosed(conn)
	},
	"requests with wrong signatures": func(_ context.Context, conn net.Conn, container string) {
		for range 20 {
			_, _ = io.WriteString(conn, "POST "+container+"/docs HTTP/1.1\r\nHost: s\r\nAuthorization: type%3Dmaster%26ver%3D1.0%26sig%3DAAAA\r\nx-ms-date: "+
				wire.FormatTime(time.Now())+"\r\nContent-Length: 4\r\n\r\n{}{}")
		}
		untilClosed(conn)
	},
	"a connection that is dropped at once": func(context.Context, net.Conn, string) {},
}

// dribble sends begin, and then part ten times a second until ctx ends or a write fails.
func dribble(ctx context.Context, conn net.Conn, begin, part string) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for _, err := io.WriteString(conn, begin); err == nil; _, err = io.WriteString(conn, part) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// untilClosed reads the connection until the server closes it, but at most for 200 ms.
func untilClosed(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	_, _ = io.Copy(io.Discard, conn)
}

// signedSlowReader returns a bad client that requests pages of a feed and never reads the
// answers. It is the only bad client for which the server reads documents.
func signedSlowReader(c *wiretest.Client) badClient {
	return func(ctx context.Context, conn net.Conn, container string) {
		for range 40 {
			r, err := c.Request(ctx, http.MethodGet, container+"/docs", "", wire.HeaderAIM, wire.AIMIncremental)
			if err != nil || r.Write(conn) != nil {
				return
			}
		}
		<-ctx.Done()
	}
}

// phase runs good clients and bad ones at the same time. It returns the durations of the
// good clients' requests.
func phase(t *testing.T, clients []*oneConnection, container string, bad int, address string,
	until <-chan struct{}, pause func(),
) []time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	kinds := []badClient{signedSlowReader(clients[0].Client)}
	for _, kind := range badClients {
		kinds = append(kinds, kind)
	}
	var all, badOnes sync.WaitGroup
	var opened atomic.Int64
	for n := range bad {
		badOnes.Go(func() {
			var d net.Dialer
			for ctx.Err() == nil {
				conn, err := d.DialContext(ctx, "tcp", address)
				if err != nil {
					return // the phase is over
				}
				opened.Add(1)
				end := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
				kinds[n%len(kinds)](ctx, conn, container)
				end()
				_ = conn.Close()
				select { // without a delay the bad clients would use the whole machine
				case <-ctx.Done():
				case <-time.After(reconnect):
				}
			}
		})
	}
	took := make([][]time.Duration, len(clients))
	failed, lost := make(chan struct{}), sync.Once{}
	for n, o := range clients {
		all.Go(func() {
			var err error
			if took[n], err = o.goodClient(ctx, container, n, pause); err != nil {
				t.Errorf("client %d lost a request: %v", n, err)
				lost.Do(func() { close(failed) })
			}
		})
	}
	select {
	case <-until:
	case <-failed:
	}
	cancel()
	all.Wait()
	badOnes.Wait()
	if bad > 0 && opened.Load() < int64(bad) {
		t.Errorf("%d bad clients opened %d connections", bad, opened.Load())
	}
	return slices.Concat(took...)
}

func TestBadClientsCostTheOthersNoRequest(t *testing.T) {
	if *loadConnections > 0 {
		t.Skip("TestBadClientsHardlySlowTheOthers does more")
	}
	c, address, container := startLoad(t)
	clients := make([]*oneConnection, 30)
	for n := range clients {
		clients[n] = connect(t, c, address)
	}
	const requests = 1500
	var done atomic.Int64
	enough := make(chan struct{})
	took := phase(t, clients, container, 2*(len(badClients)+1), address, enough, func() {
		if done.Add(1) == requests {
			close(enough)
		}
	})
	if len(took) < requests {
		t.Errorf("%d requests were answered", len(took))
	}
}

func TestBadClientsHardlySlowTheOthers(t *testing.T) {
	if *loadConnections == 0 {
		t.Skip("run with -load.connections=500")
	}
	bad := *loadConnections / 10
	c, address, container := startLoad(t)
	clients := make([]*oneConnection, *loadConnections-bad)
	for n := range clients {
		clients[n] = connect(t, c, address)
	}
	over := func() <-chan struct{} {
		ctx, cancel := context.WithTimeout(t.Context(), *loadPhase)
		t.Cleanup(cancel)
		return ctx.Done()
	}
	pause := func() { time.Sleep(time.Duration(float64(*loadPause) * (0.5 + rand.Float64()))) }
	phase(t, clients, container, 0, address, over(), pause) // warm
	var ratios []float64
	for n := range *loadPhases {
		alone := phase(t, clients, container, 0, address, over(), pause)
		beside := phase(t, clients, container, bad, address, over(), pause)
		a, b := quantile(alone, 0.99), quantile(beside, 0.99)
		ratios = append(ratios, b.Seconds()/a.Seconds())
		t.Logf("phase %d: alone %d requests, median %v, p99 %v; with %d bad clients %d requests, median %v, p99 %v: ratio %.2f", n,
			len(alone), quantile(alone, 0.5), a, bad, len(beside), quantile(beside, 0.5), b, ratios[n])
	}
	slices.Sort(ratios)
	median := ratios[len(ratios)/2]
	t.Logf("%d connections, %d of them bad: p99 of the others is %.2f times the p99 without bad clients [%.2f..%.2f]; bar 2", *loadConnections, bad,
		median, ratios[0], ratios[len(ratios)-1])
	if median > 2 {
		t.Errorf("the p99 is %.2f times as long", median)
	}
}

// quantile returns the duration that the given share of the requests did not exceed.
func quantile(took []time.Duration, part float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[min(int(float64(len(took))*part), len(took)-1)]
}

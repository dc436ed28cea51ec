package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/internal/memnet"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/store"
)

// guarded is a server behind a guard, on a network in memory. dial returns a new
// connection to it.
type guarded struct {
	*testServer
	dial func() net.Conn
}

// guardedServer calls test in fake time with a guarded server that has the container
// orders. It fails the test if memory is still counted after all connections are closed.
func guardedServer(t *testing.T, o Options, test func(t *testing.T, g guarded)) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, o).withOrders()
		var network memnet.Network
		const address = "server:80"
		l, err := network.Listen(address)
		if err != nil {
			t.Fatal(err)
		}
		h := &http.Server{Handler: ts, ReadHeaderTimeout: time.Minute}
		served := make(chan error, 1)
		l = ts.Guard(h, l)
		go func() { served <- h.Serve(l) }()
		test(t, guarded{ts, func() net.Conn {
			c, err := network.Dial(t.Context(), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			return c
		}})
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		time.Sleep(time.Minute) // http.Server delays the closing of connections, so that clients can read
		if n := ts.InFlight(); n != 0 {
			t.Errorf("%d bytes are counted after the end of all connections", n)
		}
		if ts.budget != nil {
			for l, places := range ts.budget.slots {
				if len(places) != 0 {
					t.Errorf("a slot of class %d was not released", l)
				}
			}
		}
	})
}

// write sends a signed request on a connection. announced is its Content-Length, which
// may be larger than body if the client is to stall.
func (g guarded) write(c net.Conn, method, path string, h headers, body string, announced int) {
	g.t.Helper()
	r := g.request(method, path, h, "")
	var head strings.Builder
	fmt.Fprintf(&head, "%s %s HTTP/1.1\r\nHost: s\r\nContent-Length: %d\r\n", method, path, max(announced, len(body)))
	if err := r.Header.Write(&head); err != nil {
		g.t.Fatal(err)
	}
	if _, err := io.WriteString(c, head.String()+"\r\n"+body); err != nil {
		g.t.Fatal(err)
	}
}

// reply holds the status and the body of an answer that a client read.
type reply struct {
	status int
	header http.Header
	text   string
}

// answer reads the answer to a request from a connection.
func (g guarded) answer(c net.Conn) reply {
	g.t.Helper()
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		g.t.Fatal(err)
	}
	body, err := io.ReadAll(a.Body)
	if err = errors.Join(err, a.Body.Close()); err != nil {
		g.t.Fatal(err)
	}
	return reply{a.StatusCode, a.Header, string(body)}
}

// wants fails the test unless the answer has the given status. 429 means that the request
// was refused for lack of memory.
func (g guarded) wants(a reply, status int) {
	g.t.Helper()
	if a.status != status {
		g.t.Errorf("%d %.200s, want %d", a.status, a.text, status)
	}
	if ms, s := a.header.Get(wire.HeaderRetryAfter), a.header.Get("Retry-After"); status == http.StatusTooManyRequests && (ms != "1000" || s != "1") {
		g.t.Errorf("x-ms-retry-after-ms %q, Retry-After %q; want 1000 and 1", ms, s)
	}
}

// largeDocument returns a document with the given ID and about size bytes.
func largeDocument(id string, size int) string {
	return fmt.Sprintf(`{"id":%q,"pk":"p","text":%q}`, id, strings.Repeat("x", size))
}

func TestStalledBodiesAreBoundedAndGiveWay(t *testing.T) {
	guardedServer(t, Options{MemoryLimit: MinMemoryLimit}, func(_ *testing.T, g guarded) {
		document := largeDocument("1", 1900<<10)
		for range 50 {
			g.write(g.dial(), "POST", orders+"/docs", pk(`["p"]`), document[:1<<20], len(document))
			synctest.Wait()
		}
		if n := g.budget.used[ofBodies].Load(); n > MinMemoryLimit/bodyShare || n < 1<<20 {
			g.t.Errorf("%d bytes are counted for stalled bodies", n)
		}
		good := g.dial()
		g.write(good, "POST", orders+"/docs", pk(`["p"]`), document, 0)
		g.wants(g.answer(good), http.StatusTooManyRequests)
		time.Sleep(stallTime)
		for _, want := range []int{http.StatusTooManyRequests, http.StatusCreated} { // refusing the first request closes the stalled connections
			g.write(good, "POST", orders+"/docs", pk(`["p"]`), document, 0)
			g.wants(g.answer(good), want)
			synctest.Wait()
		}
	})
}

func TestHeadersAreBoundedFromTheFirstByteAndGiveWay(t *testing.T) {
	guardedServer(t, Options{MemoryLimit: MinMemoryLimit}, func(_ *testing.T, g guarded) {
		var many strings.Builder
		many.WriteString("GET / HTTP/1.1\r\nHost: s\r\n")
		for n := 0; many.Len() < 60<<10; n++ {
			fmt.Fprintf(&many, "%x:\r\n", n)
		}
		refused := 0
		for range 20 {
			c := g.dial()
			if _, err := io.WriteString(c, many.String()); err != nil {
				g.t.Fatal(err)
			}
			synctest.Wait()
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			if b, err := io.ReadAll(c); err == nil || len(b) > 0 {
				if !strings.HasPrefix(string(b), "HTTP/1.1 429 ") || !strings.Contains(string(b), "\r\nx-ms-retry-after-ms: 1000\r\nretry-after: 1\r\ncontent-type: application/json\r\n") {
					g.t.Errorf("%q", b)
				}
				refused++
			}
			if n := g.budget.used[ofHeaders].Load(); n > MinMemoryLimit/headerShare {
				g.t.Errorf("%d bytes are counted for headers", n)
			}
		}
		if refused == 0 || g.InFlight() == 0 {
			g.t.Errorf("%d of 20 connections were refused; %d bytes are counted", refused, g.InFlight())
		}
		time.Sleep(stallTime)
		for n := range 2 { // refusing the first request may close the stalled connections
			c := g.dial()
			g.write(c, "GET", orders, headers{"X-Long": strings.Repeat("x", 20<<10)}, "", 0)
			if a := g.answer(c); a.status == http.StatusOK {
				break
			} else if n == 1 {
				g.t.Errorf("%d %s", a.status, a.text)
			}
		}
	})
}

func TestUnreadAnswersAreBoundedAndGiveWay(t *testing.T) {
	guardedServer(t, Options{MemoryLimit: MinMemoryLimit}, func(_ *testing.T, g guarded) {
		for n := range 3 {
			g.must("POST", orders+"/docs", pk(`["p"]`), largeDocument(fmt.Sprint(n), 1900<<10))
		}
		for range 30 {
			g.write(g.dial(), "GET", orders+"/docs", headers{wire.HeaderAIM: wire.AIMIncremental, wire.HeaderMaxItemCount: "-1"}, "", 0)
			synctest.Wait()
		}
		if n := g.budget.used[ofAnswers].Load(); n > MinMemoryLimit/answerShare+6<<20 {
			g.t.Errorf("%d bytes are counted for unread answers", n)
		}
		good := g.dial()
		read := func(want int) {
			g.write(good, "GET", orders+"/docs/1", pk(`["p"]`), "", 0)
			g.wants(g.answer(good), want)
		}
		read(http.StatusTooManyRequests)
		// A write that was carried out must be answered, even if unread answers have
		// filled the memory for answers.
		g.write(good, "POST", orders+"/docs", pk(`["p"]`), largeDocument("4", 10), 0)
		g.wants(g.answer(good), http.StatusCreated)
		time.Sleep(stallTime)
		read(http.StatusTooManyRequests) // refusing this read closes the connections whose clients do not read
		synctest.Wait()
		read(http.StatusOK)
	})
}

func TestAClosedConnectionGivesItsMemoryBack(t *testing.T) {
	guardedServer(t, Options{MemoryLimit: MinMemoryLimit}, func(_ *testing.T, g guarded) {
		for n := range 3 {
			g.must("POST", orders+"/docs", pk(`["p"]`), largeDocument(fmt.Sprint(n), 1900<<10))
		}
		body, page, header := g.dial(), g.dial(), g.dial()
		g.write(body, "POST", orders+"/docs", pk(`["p"]`), strings.Repeat("x", 1<<20), 2<<20)
		g.write(page, "GET", orders+"/docs", headers{wire.HeaderAIM: wire.AIMIncremental}, "", 0)
		if _, err := io.WriteString(header, "GET / HTTP/1.1\r\nX: "+strings.Repeat("x", 20<<10)); err != nil {
			g.t.Fatal(err)
		}
		synctest.Wait()
		for of := range classes {
			if g.budget.used[of].Load() < 20<<10 {
				g.t.Errorf("class %d counts %d bytes", of, g.budget.used[of].Load())
			}
		}
		for _, c := range []net.Conn{body, page, header} {
			_ = c.Close()
		}
		time.Sleep(time.Second) // http.Server keeps the headers of a failed request for half a second
		if n := g.InFlight(); n != 0 {
			g.t.Errorf("%d bytes are counted for closed connections", n)
		}
	})
}

func TestSortsWaitForASlotAndOtherRequestsDoNot(t *testing.T) {
	guardedServer(t, Options{MemoryLimit: MinMemoryLimit}, func(_ *testing.T, g guarded) {
		g.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"1","pk":"p"}`)
		g.budget.slots[sortSlots] <- struct{}{} // a slow sort occupies this slot
		sorted := func(c net.Conn) {
			g.write(c, "POST", orders+"/docs", together(pk(`["p"]`), queryHeaders()), `{"query":"SELECT * FROM c ORDER BY c.id"}`, 0)
		}
		c, began := g.dial(), time.Now()
		sorted(c)
		g.wants(g.answer(c), http.StatusTooManyRequests)
		if after := time.Since(began); after != slotWait {
			g.t.Errorf("refused after %s, not %s", after, slotWait)
		}
		gone := g.dial()
		sorted(gone)
		synctest.Wait()
		_ = gone.Close() // a request whose client disconnects stops waiting for the slot
		g.write(c, "POST", orders+"/docs", together(pk(`["p"]`), queryHeaders()), `{"query":"SELECT * FROM c WHERE c.id = '1'"}`, 0)
		g.wants(g.answer(c), http.StatusOK)
		sorted(c)
		time.Sleep(time.Second)
		<-g.budget.slots[sortSlots]
		g.wants(g.answer(c), http.StatusOK)
	})
}

func TestBulkRequestsThatReadItemsWaitForASlot(t *testing.T) {
	guardedServer(t, Options{MemoryLimit: MinMemoryLimit}, func(_ *testing.T, g guarded) {
		g.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"1","pk":"p"}`)
		for range cap(g.budget.slots[bulkSlots]) { // slow bulk requests occupy these slots
			g.budget.slots[bulkSlots] <- struct{}{}
		}
		c := g.dial()
		for operation, status := range map[string]int{
			`"Read","id":"1"`: http.StatusTooManyRequests,
			`"Patch","id":"1","resourceBody":{"operations":[{"op":"set","path":"/a","value":1}]}`: http.StatusTooManyRequests,
			`"Upsert","resourceBody":{"id":"1","pk":"p"}`:                                         http.StatusOK,
		} {
			g.write(c, "POST", orders+"/docs", inBulk, `[{"partitionKey":"[\"p\"]","operationType":`+operation+`}]`, 0)
			g.wants(g.answer(c), status)
		}
		g.write(c, "POST", orders+"/docs", inBulk, `[{"partitionKey":"[\"p\"]","operationType":"Read","id":"1"}]`, 0)
		time.Sleep(time.Second)
		for range cap(g.budget.slots[bulkSlots]) {
			<-g.budget.slots[bulkSlots]
		}
		g.wants(g.answer(c), http.StatusOK)
	})
}

func TestAnswersThatBeganEndAWaitForASlot(t *testing.T) {
	guardedServer(t, Options{MemoryLimit: MinMemoryLimit}, func(_ *testing.T, g guarded) {
		g.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"1","pk":"p"}`)
		for range cap(g.budget.slots[readSlots]) {
			g.budget.slots[readSlots] <- struct{}{}
		}
		c := g.dial()
		g.write(c, "GET", orders+"/docs/1", pk(`["p"]`), "", 0)
		synctest.Wait()
		g.budget.used[ofAnswers].Add(MinMemoryLimit / answerShare)
		for range cap(g.budget.slots[readSlots]) {
			<-g.budget.slots[readSlots]
		}
		g.wants(g.answer(c), http.StatusTooManyRequests)
		g.budget.used[ofAnswers].Add(-MinMemoryLimit / answerShare)
	})
}

func TestASortWithLittleMemoryFindsAllRows(t *testing.T) {
	ts := newTestServer(t, Options{MemoryLimit: MinMemoryLimit}).withOrders()
	const documents = 30
	for n := range documents {
		ts.must("POST", orders+"/docs", pk(`["p"]`), largeDocument(fmt.Sprint(n), 250<<10))
	}
	h := together(pk(`["p"]`), queryHeaders(), headers{wire.HeaderMaxItemCount: "-1"})
	seen, last := 0, ""
	for page := 0; page == 0 || last != ""; page++ {
		a := ts.must("POST", orders+"/docs", h.with(wire.HeaderContinuation, last), `{"query":"SELECT * FROM c ORDER BY c.id"}`)
		seen += strings.Count(string(a.body), `"_rid":`) - 1
		last = a.header.Get(wire.HeaderContinuation)
		if page > documents {
			t.Fatal("the pages do not end")
		}
	}
	if seen != documents {
		t.Errorf("%d rows of %d", seen, documents)
	}
	if n := ts.InFlight(); n != 0 {
		t.Errorf("%d bytes are counted after all requests", n)
	}
}

func TestARequestThatCanNeverFitIsRefused413(t *testing.T) {
	ts := newTestServer(t, Options{MemoryLimit: MinMemoryLimit}).withOrders()
	text := `{"query":"SELECT * FROM c WHERE c.id != '` + strings.Repeat("x", 1<<20) + `'"}`
	ts.do("POST", orders+"/docs", together(pk(`["p"]`), queryHeaders()), text).want(413).wantBody("--memory-limit")
}

func TestMemoryLimitThatIsTooSmallIsRefusedByName(t *testing.T) {
	ts := newTestServer(t, Options{})
	for _, o := range []Options{{MemoryLimit: MinMemoryLimit - 1}, {MemoryLimit: -1}, {MaxConnections: -1}} {
		if _, err := New((*store.DB)(ts.db), o); err == nil || !strings.Contains(err.Error(), "MemoryLimit") && !strings.Contains(err.Error(), "MaxConnections") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestRefusedBodiesAreReadToTheirEnd(t *testing.T) {
	guardedServer(t, Options{}, func(_ *testing.T, g guarded) {
		const long = 50 << 20
		part := strings.Repeat("x", 1<<20)
		for _, c := range []struct {
			path string
			h    headers
			want int
		}{
			{orders + "/docs", pk(`["p"]`), 413},
			{orders + "/docs", together(pk(`["p"]`), transaction), 413},
			{orders + "/docs", queryHeaders(), 413},
			{orders + "/docs", headers{"Authorization": "type%3Dmaster%26ver%3D1.0%26sig%3DAAAA"}, 401},
			{"/dbs/none/colls/none/docs", pk(`["p"]`), 404},
		} {
			conn := g.dial()
			g.write(conn, "POST", c.path, c.h, "", long)
			for range long / len(part) { // the client reads only after it has sent the whole body
				if _, err := io.WriteString(conn, part); err != nil {
					g.t.Fatalf("%s: %v", c.path, err)
				}
			}
			g.wants(g.answer(conn), c.want)
			// After the refusal, another request on the same connection must succeed.
			g.write(conn, "GET", orders, nil, "", 0)
			g.wants(g.answer(conn), http.StatusOK)
		}
	})
}

func TestRefusalsWaitOnlyForBodiesThatCome(t *testing.T) {
	guardedServer(t, Options{}, func(_ *testing.T, g guarded) {
		for _, c := range []struct {
			what, expect string
			announced    int
			after        time.Duration
		}{
			{"a client that waits for 100 Continue", "100-continue", 5 << 20, 0},
			{"a body that is not worth it", "", maxDiscarded + 1, 0},
			{"a body that stops", "", 5 << 20, discardSilence},
		} {
			conn, began := g.dial(), time.Now()
			h := pk(`["p"]`)
			if c.expect != "" {
				h = h.with("Expect", c.expect)
			}
			g.write(conn, "POST", orders+"/docs", h, "", c.announced)
			g.wants(g.answer(conn), http.StatusRequestEntityTooLarge)
			if after := time.Since(began); after != c.after {
				g.t.Errorf("%s: answered after %s, not %s", c.what, after, c.after)
			}
		}
	})
}

func TestAWaitForASlotEndsWithItsRequest(t *testing.T) {
	ts := newTestServer(t, Options{MemoryLimit: MinMemoryLimit})
	ctx, cancel := context.WithCancel(t.Context())
	x := newRequest(ts.Server, nil, ts.request("GET", "/", nil, "").WithContext(ctx))
	for range cap(ts.budget.slots[sortSlots]) {
		ts.budget.slots[sortSlots] <- struct{}{}
	}
	cancel()
	if err := x.acquireSlot(sortSlots); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

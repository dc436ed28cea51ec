package server

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestFrozenPartitionHoldsItsRequestsAndNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{})
		ts.withPartitions(2)
		t.Cleanup(ts.Drain) // if the test fails, this ends the requests that still wait
		ts.plainAdmin("POST", orderPartitions+"/1/freeze", "").want(http.StatusNoContent)
		ts.plainAdmin("GET", orderPartitions, "").wantBody(`"frozen":true`).wantBody(`"frozen":false`)
		ts.plainAdmin("GET", "frozen", "").wantBody(`{"frozen":[{"database":"shop","container":"orders","min":"1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF","max":"FF"}]}`)
		var done atomic.Int32
		for _, h := range []headers{{wire.HeaderPartitionID: "1"}, nil} {
			go func() {
				ts.feedOf(h)
				done.Add(1)
			}()
		}
		// A request whose client disconnects must not wait any longer.
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		r := ts.request("GET", orders+"/docs", headers{wire.HeaderAIM: wire.AIMIncremental}, "").WithContext(ctx)
		w := httptest.NewRecorder()
		ts.ServeHTTP(w, r)
		if w.Code != statusClientClosed {
			t.Errorf("a client that left is answered with %d", w.Code)
		}
		ts.feedOf(headers{wire.HeaderPartitionID: "0"}).want(http.StatusNotModified)
		ts.do("GET", orders+"/pkranges", nil, "")
		// The partition is split while it is frozen. Both children must stay frozen until
		// one of them is thawed.
		ts.plainAdmin("POST", orderPartitions+"/1/split", "").want(http.StatusOK)
		ts.feedOf(headers{wire.HeaderPartitionID: "1"}).want(http.StatusGone, wire.SubPartitionGone)
		ts.plainAdmin("POST", orderPartitions+"/2/thaw", "").want(http.StatusNoContent)
		ts.feedOf(headers{wire.HeaderPartitionID: "2"}).want(http.StatusNotModified)
		synctest.Wait()
		if n := done.Load(); n != 1 { // only the request for partition 1, which no longer exists
			t.Errorf("%d of the held requests are answered", n)
		}
		ts.plainAdmin("DELETE", "frozen", "").want(http.StatusNoContent)
		ts.plainAdmin("GET", "frozen", "").wantBody(`{"frozen":[]}`)
		synctest.Wait()
		if n := done.Load(); n != 2 {
			t.Errorf("%d of the held requests are answered", n)
		}
		ts.plainAdmin("POST", orderPartitions+"/1/freeze", "").want(http.StatusNotFound)
	})
}

func TestFreezeEndsWithItsContainer(t *testing.T) {
	for _, deleted := range []string{orders, "/dbs/shop"} {
		synctest.Test(t, func(t *testing.T) {
			ts := newTestServer(t, Options{})
			ts.withPartitions(2)
			ts.must("POST", "/dbs", nil, `{"id":"other"}`)
			ts.must("POST", "/dbs/other/colls", nil, `{"id":"orders","partitionKey":{"paths":["/pk"],"kind":"Hash"}}`)
			other, err := ts.db.Container(t.Context(), "other", "orders")
			if err != nil {
				t.Fatal(err)
			}
			if err := ts.Freeze(t.Context(), (*store.Container)(other), "0"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(ts.Drain) // if the test fails, this ends the requests that still wait
			ts.plainAdmin("POST", orderPartitions+"/0/freeze", "").want(http.StatusNoContent)
			ts.plainAdmin("POST", orderPartitions+"/1/freeze", "").want(http.StatusNoContent)
			answers := make(chan response, 2)
			go func() { answers <- ts.feedOf(nil) }()
			go func() { answers <- ts.do("POST", orders+"/docs", pk(`["ada"]`), `{"id":"1","pk":"ada"}`) }()
			synctest.Wait()
			ts.must("DELETE", deleted, nil, "")
			synctest.Wait()
			if len(answers) != 2 {
				t.Fatalf("%s: %d of the held requests are answered", deleted, len(answers))
			}
			for range 2 {
				if a := <-answers; a.status != http.StatusNotFound || a.sub() != wire.SubNone {
					t.Errorf("%s: %s is answered with %d/%d", deleted, a.what, a.status, a.sub())
				}
			}
			if len(ts.freezes.all) != 1 || ts.freezes.all[0].container != other {
				t.Errorf("%s: frozen are %+v", deleted, ts.freezes.all)
			}
			ts.must("DELETE", "/dbs/other/colls/orders", nil, "")
			if !ts.freezes.none() {
				t.Error("a server without containers has frozen ranges")
			}
		})
	}
}

func TestFrozenPartitionRefusesItsRequestsWhenTheServerShutsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{})
		c := ts.withPartitions(1)
		if err := ts.Freeze(t.Context(), (*store.Container)(c), "0"); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Hour, ts.Drain)
		ts.feedOf(nil).want(http.StatusServiceUnavailable)
		ts.Drain() // a second call has no effect
	})
}

// A client disconnects while its write waits for a frozen partition. The write must end
// without being carried out. The test uses a TCP connection, because net/http must notice
// the end of the connection.
func TestHeldWriteEndsWhenItsClientLeaves(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.withPartitions(1)
	if err := ts.Freeze(t.Context(), (*store.Container)(c), "0"); err != nil {
		t.Fatal(err)
	}
	left := make(chan error, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ts.ServeHTTP(w, r)
		left <- r.Context().Err()
	}))
	defer web.Close()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r := ts.request("POST", orders+"/docs", pk(`["ada"]`), `{"id":"1","pk":"ada"}`)
	r.Host = "localhost"
	w := bufio.NewWriter(conn)
	if err := errors.Join(r.Write(w), w.Flush()); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-left; err == nil {
		t.Error("the request ended, but not because its client left")
	}
	if _, err := c.Read(t.Context(), feed.PartitionKey{"ada"}, "1", storetype.ReadOptions{}); !errors.Is(err, feed.ErrNotFound) {
		t.Errorf("it was carried out: %v", err)
	}
}

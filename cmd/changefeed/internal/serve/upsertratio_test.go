package serve

import (
	"context"
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/internal/cputime"
	"github.com/changefeed-go/changefeed/internal/slowsync"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/internal/wire/wiretest"
	"github.com/changefeed-go/changefeed/store"
)

// checking returns the plain handler with which upserts are compared. It only checks the
// signature and reads the body.
func checking(key wire.Key) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, err := wire.ParsePath(r.URL.EscapedPath())
		token, err2 := wire.ParseAuthorization(r.Header.Get("Authorization"))
		sig, err3 := base64.StdEncoding.DecodeString(token.Signature)
		if err := errors.Join(err, err2, err3); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		payload := wire.Payload(r.Method, path.Type(), path.Links()[0], r.Header.Get(wire.HeaderDate), "")
		if !hmac.Equal(key.Sign(payload), sig) {
			http.Error(w, "the signature is wrong", http.StatusUnauthorized)
			return
		}
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusOK)
	})
}

// upserts returns a function that creates requests to upsert documents of 1 KB. Half of
// the documents are new, and the other half are updates.
func (s rated) upserts(t testing.TB, prefer string) func(client int, buf []byte) []byte {
	head := s.head(t, http.MethodPost, ratedDocs, wire.HeaderUpsert, "true", "Prefer", prefer, "Content-Type", "application/json")
	var written atomic.Int64
	return func(_ int, buf []byte) []byte {
		id := written.Add(1)
		if id%2 == 0 {
			id /= 2 // the id of an existing document
		}
		buf = fmt.Appendf(append(buf, head...), "%s: [\"%03d\"]\r\nContent-Length: 800\r\n\r\n", wire.HeaderPartitionKey, id%997)
		return ratedBody(buf, id)
	}
}

// BenchmarkServedUpserts measures 1,000 upserts over 32 connections, for profiles of the
// servers of TestRatioOfServedUpserts.
func BenchmarkServedUpserts(b *testing.B) {
	_, _, s := ratedStore(b, store.Options{FS: slowsync.FS{FS: vfs.Default, Sync: 300 * time.Microsecond}})
	ours := rate(b, s, false)
	plain := rate(b, checking(ours.key), true)
	next := ours.upserts(b, "return=minimal")
	for name, s := range map[string]rated{"ours": ours, "plain": plain} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			used := cputime.Used(b)
			for b.Loop() {
				s.ask(b.Context(), b, 32, 1000, next)
			}
			b.ReportMetric(float64((cputime.Used(b)-used).Nanoseconds())/float64(1000*b.N), "processor-ns/upsert")
		})
	}
}

// asSDK does the same as turn, but like an SDK its client uses net/http and signs each
// request.
func (s rated) asSDK(t *testing.T, connections int, prefer string, written *atomic.Int64) pace {
	t.Helper()
	transport := &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections}
	defer transport.CloseIdleConnections()
	c := wiretest.Client{Endpoint: "http://" + s.address, Key: s.key, HTTP: &http.Client{Transport: transport}}
	ctx, cancel := context.WithTimeout(t.Context(), *ratioTurn)
	defer cancel()
	var count atomic.Int64
	var clients sync.WaitGroup
	begun := begin(t)
	for range connections {
		clients.Go(func() {
			var body []byte
			for ctx.Err() == nil {
				id := written.Add(1)
				if id%2 == 0 {
					id /= 2
				}
				body = ratedBody(body[:0], id)
				_, _, err := c.Do(context.WithoutCancel(ctx), http.MethodPost, ratedDocs, string(body), wire.HeaderUpsert, "true", "Prefer", prefer,
					"Content-Type", "application/json", wire.HeaderPartitionKey, fmt.Sprintf("[\"%03d\"]", id%997))
				if err != nil {
					t.Error(err)
					return
				}
				count.Add(1)
			}
		})
	}
	clients.Wait()
	return begun.pace(t, count.Load())
}

// TestRatioOfServedUpserts measures upserts of documents of 1 KB over 32 connections.
// Half of the documents are new, and half are updates. Each is synced before it is
// answered. The bars apply to a client that works like an SDK's, and a second client only
// sends, which shows the largest difference. The servers run in processes of their own,
// as for users, or in the client's process. In one process, Go's runtime reserves a
// processor for the thread that waits for the sync, which the client could use.
func TestRatioOfServedUpserts(t *testing.T) {
	if !*ratioRun {
		t.Skip("run with -ratios")
	}
	const connections, sync = 32, 300 * time.Microsecond
	for _, c := range []struct {
		name   string
		sync   time.Duration
		prefer string
		sdk    bool
		alone  bool // whether each server runs in a process of its own
		bar    float64
	}{
		{"sync 0.3 ms, no document in the answer", sync, "return=minimal", true, true, 0.5},
		{"sync 0.3 ms, the document in the answer", sync, "return=representation", true, true, 0.5},
		{"sync 0.3 ms, no document in the answer, one process", sync, "return=minimal", true, false, 0.5},
		{"sync 0.3 ms, the document in the answer, one process", sync, "return=representation", true, false, 0.5},
		{"sync 0.3 ms, requests made beforehand", sync, "return=minimal", false, true, 0},
		{"disk, no document in the answer", 0, "return=minimal", true, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ids atomic.Int64
			turn := func(s rated) func() pace {
				if c.sdk {
					return func() pace { return s.asSDK(t, connections, c.prefer, &ids) }
				}
				next := s.upserts(t, c.prefer)
				return func() pace { return s.turn(t, connections, next) }
			}
			if c.alone {
				plain, ours := launch(t, "plain", c.sync), launch(t, "ours", c.sync)
				askPlain, askOurs := turn(plain.rated), turn(ours.rated)
				compare(t, c.bar, "upserts/s", func() pace { return plain.measured(t, askPlain) }, func() pace { return ours.measured(t, askOurs) })
				return
			}
			_, _, s := ratedStore(t, store.Options{FS: syncing(c.sync)})
			ours := rate(t, s, false)
			plain := rate(t, checking(ours.key), true)
			compare(t, c.bar, "upserts/s", turn(plain), turn(ours))
		})
	}
}

package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/listen"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/cputime"
	"github.com/changefeed-go/changefeed/internal/slowsync"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/internal/wire/wiretest"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// These tests measure the speed of the server as a ratio to a handler of net/http that
// does almost nothing. One client calls both in turns of a second, over the same kind of
// connections in one process. The result is the median of the ratios of all pairs of
// turns. The client sends requests that are already signed, and only counts the bytes of
// the answers. Any other work of the client would slow down both, and bring the ratio
// closer to 1.

var (
	ratioRun    = flag.Bool("ratios", false, "measure the ratios to plain handlers (two minutes)")
	ratioAssert = flag.Bool("ratios.assert", false, "fail when a ratio is below its bar")
	ratioPairs  = flag.Int("ratios.pairs", 7, "how many pairs of turns are measured for each ratio")
	ratioTurn   = flag.Duration("ratios.turn", time.Second, "how long a turn is")
)

// rated is an HTTP server whose speed is measured.
type rated struct {
	address string
	key     wire.Key
	// buffer is the size of the read buffer of a client's connection, in bytes.
	buffer int
}

// rate starts an HTTP server for a handler. It has the limits of `changefeed serve`,
// unless plainly is true.
func rate(t testing.TB, h http.Handler, plainly bool) rated {
	t.Helper()
	l, err := listen.On(t.Context(), "--listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	srv := &http.Server{Handler: h, ReadHeaderTimeout: headerTime}
	go func() {
		if plainly {
			ended <- srv.Serve(l)
			return
		}
		ended <- serveHTTP(ctx, l, h, limits{time.Second, headerBytes}, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() {
		cancel()
		if plainly {
			_ = srv.Close() // the listener works
		}
		if err := <-ended; err != nil && !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return rated{l.Addr().String(), ratedKey(t), 4 << 10}
}

func ratedKey(t testing.TB) wire.Key {
	t.Helper()
	key, err := wire.ParseKey(wire.EmulatorKey)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// ratedStore opens a store in a temporary directory, and a server over it. It creates the
// container shop/orders.
func ratedStore(t testing.TB, o store.Options) (*store.DB, *store.Container, *server.Server) {
	t.Helper()
	db, err := store.Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(db.Check(context.Background()), db.Close()); err != nil {
			t.Error(err)
		}
	})
	if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "shop"}); err != nil {
		t.Fatal(err)
	}
	c, err := db.CreateContainer(t.Context(), "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/pk"}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(db, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return db, c, s
}

const ratedDocs = "/dbs/shop/colls/orders/docs"

// head returns the beginning of a signed HTTP request. The caller adds the last headers
// and the empty line.
func (s rated) head(t testing.TB, method, path string, headers ...string) []byte {
	t.Helper()
	c := wiretest.Client{Endpoint: "http://" + s.address, Key: s.key}
	r, err := c.Request(t.Context(), method, path, "", headers...)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(b.String(), "Content-Length: 0\r\n", "", 1)
	return []byte(strings.TrimSuffix(text, "\r\n"))
}

// turn runs clients for the duration of a turn, each with a connection of its own, and
// returns their pace. next appends a client's next request to buf.
func (s rated) turn(t testing.TB, connections int, next func(client int, buf []byte) []byte) pace {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), *ratioTurn)
	defer cancel()
	begun := begin(t)
	return begun.pace(t, s.ask(ctx, t, connections, math.MaxInt64, next))
}

// ask runs clients that send requests until ctx ends or most requests have been sent. It
// returns the number of answers.
func (s rated) ask(ctx context.Context, t testing.TB, connections int, most int64, next func(client int, buf []byte) []byte) int64 {
	var begun, count atomic.Int64
	var clients sync.WaitGroup
	for n := range connections {
		clients.Go(func() {
			var d net.Dialer
			conn, err := d.DialContext(context.WithoutCancel(ctx), "tcp", s.address)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			r, buf := bufio.NewReaderSize(conn, s.buffer), []byte(nil)
			for ctx.Err() == nil && begun.Add(1) <= most {
				buf = next(n, buf[:0])
				if _, err = conn.Write(buf); err == nil {
					err = skipAnswer(r)
				}
				if err != nil {
					t.Error(err)
					return
				}
				count.Add(1)
			}
		})
	}
	clients.Wait()
	return count.Load()
}

// pace is the result of one turn: the number of requests per second, the processor time
// per request, and the number of requests. The processor time includes the client's.
type pace struct {
	rate     float64
	cost     time.Duration
	requests int64
}

// beginning is the time, and the processor time used so far, at the beginning of a turn.
type beginning struct {
	at   time.Time
	used time.Duration
}

func begin(t testing.TB) beginning { return beginning{time.Now(), cputime.Used(t)} }

func (b beginning) pace(t testing.TB, requests int64) pace {
	return pace{float64(requests) / time.Since(b.at).Seconds(), (cputime.Used(t) - b.used) / time.Duration(max(requests, 1)), requests}
}

// skipAnswer reads an answer and drops it. It returns an error unless the status is a
// success.
func skipAnswer(r *bufio.Reader) error {
	size := -1
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		switch {
		case err != nil:
			return err
		case first && !bytes.HasPrefix(line, []byte("HTTP/1.1 20")):
			rest, _ := r.Peek(r.Buffered())
			return fmt.Errorf("%s%.600s", line, rest)
		case bytes.HasPrefix(line, []byte("Content-Length: ")):
			if size, err = strconv.Atoi(string(bytes.TrimSpace(line[16:]))); err != nil {
				return err
			}
		case len(line) == 2:
			_, err := r.Discard(size) // an answer without a length is an error, too
			return err
		}
	}
}

// compare measures plain and ours in turns. It prints the median of their ratios beside
// the bar, the ratio that ours must reach.
func compare(t *testing.T, bar float64, unit string, plain, ours func() pace) {
	t.Helper()
	plain()
	ours()
	var ratios, p, o []float64
	var costs, pc, oc []float64
	for range *ratioPairs {
		a, b := plain(), ours()
		p, o, ratios = append(p, a.rate), append(o, b.rate), append(ratios, b.rate/a.rate)
		pc, oc = append(pc, a.cost.Seconds()*1e6), append(oc, b.cost.Seconds()*1e6)
		costs = append(costs, a.cost.Seconds()/b.cost.Seconds())
	}
	for _, of := range [][]float64{ratios, p, o, costs, pc, oc} {
		slices.Sort(of)
	}
	n := len(ratios)
	t.Logf("ratio %.2f [%.2f..%.2f], bar %.2f; plain %.0f (best %.0f), ours %.0f (best %.0f) %s",
		ratios[n/2], ratios[n/4], ratios[3*n/4], bar, p[n/2], p[n-1], o[n/2], o[n-1], unit)
	// The processor time is printed too, because other processes disturb it less.
	t.Logf("by processor time: ratio %.2f [%.2f..%.2f]; plain %.0f us, ours %.0f us, the client's included", costs[n/2], costs[n/4], costs[3*n/4], pc[n/2], oc[n/2])
	if *ratioAssert && ratios[n/2] < bar {
		t.Errorf("the ratio %.2f is below its bar %.2f", ratios[n/2], bar)
	}
}

// TestRatioOfServedPages measures the reading of a change feed: 60,000 documents of 1 KB,
// from a store in a directory, in pages of 1,000.
func TestRatioOfServedPages(t *testing.T) {
	if !*ratioRun {
		t.Skip("run with -ratios")
	}
	const documents, size = 60_000, 1000
	db, c, s := ratedStore(t, store.Options{FS: slowsync.FS{FS: vfs.Default}})
	loadRated(t, c, documents)
	ours := rate(t, s, false)
	ours.buffer = 256 << 10
	client, err := wiretest.New("http://"+ours.address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	// requests has a request for each page. texts has the answer of the plain handler,
	// which finds it by the header with the request's position.
	var requests [][]byte
	texts, etag := map[string][]byte{}, ""
	for range documents / size {
		headers := []string{wire.HeaderAIM, wire.AIMIncremental, wire.HeaderMaxItemCount, strconv.Itoa(size)}
		if etag != "" {
			headers = append(headers, "If-None-Match", etag)
		}
		requests = append(requests, append(ours.head(t, http.MethodGet, ratedDocs, headers...), "\r\n"...))
		h, text, err := client.Do(t.Context(), http.MethodGet, ratedDocs, "", headers...)
		if err != nil {
			t.Fatal(err)
		}
		texts[etag], etag = text, h.Get("Etag")
	}
	var page struct{ Documents []json.RawMessage }
	if err := json.Unmarshal(texts[""], &page); err != nil || len(page.Documents) != size {
		t.Fatalf("the first page has %d documents: %v", len(page.Documents), err)
	}
	t.Logf("a page has %d bytes", len(texts[""]))
	plain := rate(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := texts[r.Header.Get("If-None-Match")]
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = w.Write(text) // an error means that the connection has ended
	}), true)
	plain.buffer = ours.buffer
	src := db.Source(c)
	for _, connections := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d connections", connections), func(t *testing.T) {
			at := make([]int, connections)
			next := func(n int, buf []byte) []byte {
				at[n]++
				return append(buf, requests[at[n]%len(requests)]...)
			}
			turn := func() pace { return ours.turn(t, connections, next) }
			compare(t, 0.35, "pages/s", func() pace { return plain.turn(t, connections, next) }, turn)
			t.Log("and in process, without HTTP:")
			compare(t, 0, "pages/s", func() pace { return readInProcess(t, src, connections, size) }, turn)
		})
	}
}

// readInProcess measures readers that read pages from the store for one turn, without a
// connection.
func readInProcess(t *testing.T, src feed.Source, readers, size int) pace {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), *ratioTurn)
	defer cancel()
	var count atomic.Int64
	var all sync.WaitGroup
	begun := begin(t)
	for range readers {
		all.Go(func() {
			from := feed.Beginning()
			for ctx.Err() == nil {
				page, err := src.Read(context.WithoutCancel(ctx), feed.Request{From: from, MaxItems: size})
				if err != nil {
					t.Error(err)
					return
				}
				from = feed.After(page.Continuation)
				if len(page.Changes) < size {
					from = feed.Beginning()
					continue
				}
				count.Add(1)
			}
		})
	}
	all.Wait()
	return begun.pace(t, count.Load())
}

// ratedBody appends a document of 800 bytes to b. It has about 1 KB when stored.
func ratedBody(b []byte, id int64) []byte {
	begin := len(b)
	b = fmt.Appendf(b, `{"id":"%012d","pk":"%03d","text":"`, id, id%997)
	for len(b)-begin < 798 {
		b = append(b, "durable documents and their changes "[:min(36, 798-(len(b)-begin))]...)
	}
	return append(b, `"}`...)
}

func loadRated(t *testing.T, c *store.Container, documents int64) {
	t.Helper()
	var next atomic.Int64
	var writers sync.WaitGroup
	for range 64 {
		writers.Go(func() {
			var buf []byte
			for n := next.Add(1) - 1; n < documents; n = next.Add(1) - 1 {
				buf = ratedBody(buf[:0], n)
				if _, err := c.Upsert(t.Context(), nil, buf, storetype.WriteOptions{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
}

package main

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	api "github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// remote is a server in a bubble that commands reach at http://localhost/, unless it is
// down.
type remote struct {
	*changefeedtest.Server
	t      *testing.T
	orders *store.Container
	down   atomic.Bool
}

// onRemote runs play in a bubble, with a server whose container of orders a processor has
// read.
func onRemote(t *testing.T, play func(r *remote)) {
	t.Helper()
	original := http.DefaultTransport // connect clones the default transport for each account
	defer func() { http.DefaultTransport = original }()
	synctest.Test(t, func(t *testing.T) {
		r := &remote{Server: changefeedtest.NewServer(t), t: t}
		network, ok := r.Client().Transport.(*http.Transport)
		at, err := url.Parse(r.Endpoint)
		if !ok || err != nil {
			t.Fatalf("the transport is a %T, %v", r.Client().Transport, err)
		}
		http.DefaultTransport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, n, _ string) (net.Conn, error) {
			if r.down.Load() {
				return nil, &net.OpError{Op: "dial", Net: n, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
			}
			return network.DialContext(ctx, n, at.Host+":80")
		}}
		r.orders = changefeedtest.NewContainer(t, r.DB, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}, Partitions: 2})
		changefeedtest.NewContainer(t, r.DB, "shop", storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
		r.process("mailer")
		play(r)
	})
}

// process runs a processor until it has created its leases.
func (r *remote) process(name string) {
	r.t.Helper()
	account, err := connect.NewAccount("").OpenSettings(connect.Settings{Endpoint: "http://localhost/", Key: r.Key})
	if err != nil {
		r.t.Fatal(err)
	}
	p, err := changefeed.New(changefeed.Config{
		Processor: name, Start: feed.Beginning(), Logger: slog.New(slog.DiscardHandler),
		Source: account.Source("shop", "orders", cosmos.SourceOptions{}), Leases: account.Leases("shop", "leases", cosmos.LeaseOptions{}),
		Handler: changefeed.HandlerFunc(func(context.Context, *changefeed.Batch) error { return nil }),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(r.t.Context(), 10*time.Second)
	defer stop()
	if err := p.Run(ctx); err != nil {
		r.t.Error(err)
	}
	if err := account.Close(); err != nil {
		r.t.Error(err)
	}
}

// order writes an order.
func (r *remote) order(id string) {
	r.t.Helper()
	if _, err := r.orders.Upsert(r.t.Context(), nil, []byte(`{"id":"`+id+`","customer":"ada"}`), storetype.WriteOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// text is an output that the test reads while the command writes.
type text struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (o *text) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.out.Write(p)
}

// taken returns what was written since the last call.
func (o *text) taken() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.out.Reset()
	return o.out.String()
}

// start starts a command on the server. stop stops it and returns its status.
func (r *remote) start(args ...string) (out, errOut *text, stop func() int) {
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan int, 1)
	out, errOut = new(text), new(text)
	args = slices.Concat(args, []string{"--endpoint", "http://localhost/", "--key", r.Key, "--database", "shop", "--container", "orders"})
	go func() { ended <- run(ctx, args, strings.NewReader(""), out, errOut) }()
	return out, errOut, func() int {
		cancel()
		return <-ended
	}
}

var watching = [][]string{
	{"lag", "--watch"},
	{"leases", "ls", "--watch"},
	{"tail", "--follow"},
}

// These commands once reported an outage at each interval, or ended.
func TestACommandThatWatchesReportsAnOutageInThreeLines(t *testing.T) {
	for _, args := range watching {
		t.Run(args[0], func(t *testing.T) {
			onRemote(t, func(r *remote) {
				r.order("before")
				out, errOut, stop := r.start(args...)
				time.Sleep(30 * time.Second)
				if text := out.taken(); text == "" {
					t.Error("it prints nothing")
				}
				r.down.Store(true)
				time.Sleep(time.Second)
				r.order("after")
				time.Sleep(100 * time.Second)
				r.down.Store(false)
				out.taken()
				time.Sleep(time.Minute)
				if text := out.taken(); text == "" || args[0] == "tail" && !strings.Contains(text, `"after"`) {
					t.Errorf("after the outage it prints %q", text)
				}
				said := errOut.taken()
				lines := strings.Split(strings.TrimSuffix(said, "\n"), "\n")
				for i, want := range []string{" fail; retrying: ", " still fail; retrying (failures=", " succeed again (failures="} {
					if len(lines) != 3 || !strings.HasPrefix(lines[i], "changefeed: ") || !strings.Contains(lines[i], want) {
						t.Fatalf("these are not the three lines of an outage:\n%s", said)
					}
				}
				if code := stop(); code != exitOK {
					t.Errorf("it ends with status %d", code)
				}
			})
		})
	}
}

func TestACommandThatWatchesWaitsForAThrottledAccount(t *testing.T) {
	for _, args := range watching {
		t.Run(args[0], func(t *testing.T) {
			onRemote(t, func(r *remote) {
				r.order("one")
				fault := api.Fault{Status: http.StatusTooManyRequests, SubStatus: 3200, RetryAfter: time.Second}
				if args[0] == "tail" { // it reads the container's properties before
					fault.Operation = "read change feed"
				}
				r.Fail(fault)
				out, errOut, stop := r.start(args...)
				time.Sleep(2*time.Minute - time.Second) // a second line may be due after exactly two minutes
				if printed := out.taken(); printed != "" {
					t.Errorf("while it is throttled it prints %q", printed)
				}
				if said := errOut.taken(); strings.Count(said, "\n") != 1 || !strings.Contains(said, " fail; retrying (failures=") {
					t.Errorf("throttling that lasts is not one line:\n%s", said)
				}
				r.Faults().Clear()
				time.Sleep(2 * time.Minute)
				if printed := out.taken(); printed == "" {
					t.Error("it prints nothing")
				}
				if said := errOut.taken(); strings.Count(said, "\n") != 1 || !strings.Contains(said, " succeed again (failures=") {
					t.Errorf("the end of the throttling is not one line:\n%s", said)
				}
				if code := stop(); code != exitOK {
					t.Errorf("it ends with status %d", code)
				}
			})
		})
	}
}

// A server that is down at the start may be the wrong address.
func TestTailEndsIfItsFirstReadFails(t *testing.T) {
	onRemote(t, func(r *remote) {
		r.down.Store(true)
		_, errOut, stop := r.start("tail", "--follow")
		time.Sleep(time.Minute)
		if said := errOut.taken(); !strings.Contains(said, "no server listens there") || strings.Contains(said, "retrying") || stop() != exitFailed {
			t.Error(said)
		}
	})
}

// After a failure, the command once looked for a processor without a name.
func TestAListOfLeasesKeepsItsProcessor(t *testing.T) {
	onRemote(t, func(r *remote) {
		out, errOut, stop := r.start("leases", "ls", "--watch")
		time.Sleep(12 * time.Second) // between two lists, so that the next one fails
		r.process("printer")
		r.down.Store(true)
		time.Sleep(10 * time.Second)
		r.down.Store(false)
		if said := errOut.taken(); !strings.Contains(said, "listings fail; retrying") {
			t.Errorf("no list has failed: %q", said)
		}
		out.taken()
		time.Sleep(time.Minute)
		if printed := out.taken(); !strings.Contains(printed, `processor "mailer"`) {
			t.Errorf("it prints %q after %s", printed, errOut.taken())
		}
		stop()
	})
}

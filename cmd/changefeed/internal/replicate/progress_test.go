package replicate

import (
	"context"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/storetype"
)

// An outage of 70 s once made 111 lines.
func TestAnOutageMakesThreeLines(t *testing.T) {
	original := http.DefaultTransport // connect clones the default transport for each account
	defer func() { http.DefaultTransport = original }()
	synctest.Test(t, func(t *testing.T) {
		server := changefeedtest.NewServer(t)
		network, ok := server.Client().Transport.(*http.Transport)
		if !ok {
			t.Fatalf("the transport is a %T", server.Client().Transport)
		}
		var down atomic.Bool
		http.DefaultTransport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, n, _ string) (net.Conn, error) {
			if down.Load() {
				return nil, &net.OpError{Op: "dial", Net: n, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
			}
			return network.DialContext(ctx, n, strings.TrimSuffix(strings.TrimPrefix(server.Endpoint, "http://"), "/")+":80")
		}}
		s := &stage{T: t, said: &lines{}}
		s.from = changefeedtest.NewContainer(t, server.DB, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}, Partitions: 3})
		s.to = changefeedtest.NewContainer(t, server.DB, "shop", storetype.ContainerProperties{ID: "by-product", KeyPaths: []string{"/product"}, Partitions: 3})
		changefeedtest.NewContainer(t, server.DB, "shop", storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
		var err error
		if s.account, err = connect.NewAccount("").OpenSettings(connect.Settings{Endpoint: "http://localhost/", Key: server.Key}); err != nil {
			t.Fatal(err)
		}
		s.account.DB = server.DB
		s.fill(20)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		cfg := s.config()
		cfg.Hosts, cfg.UntilCaughtUp = 2, false
		go func() { ended <- Run(ctx, cfg) }()
		time.Sleep(time.Minute)
		for _, lasts := range []time.Duration{70 * time.Second, 20 * time.Second} {
			before := len(s.said.String())
			down.Store(true)
			time.Sleep(lasts)
			down.Store(false)
			s.fill(30)
			time.Sleep(2 * time.Minute)
			var about []string
			for line := range strings.Lines(s.said.String()[before:]) {
				if strings.Contains(line, "requests") || strings.Contains(line, "retrying") {
					about = append(about, line)
				}
			}
			want := []string{"requests fail; retrying: ", "requests still fail; retrying (failures=", "requests succeed again (failures="}
			if lasts < time.Minute {
				want = []string{want[0], want[2]}
			}
			for i := range want {
				if len(about) != len(want) || !strings.HasPrefix(about[i], want[i]) {
					t.Fatalf("an outage of %s makes these lines, not %q:\n%s", lasts, want, strings.Join(about, ""))
				}
			}
			if !strings.HasSuffix(about[0], "no server listens there: start `changefeed serve`, or check COSMOS_ENDPOINT\n") {
				t.Errorf("the first line has no remedy: %s", about[0])
			}
			s.equal(30)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := s.account.Close(); err != nil {
			t.Error(err)
		}
	})
}

// throttledLeases are leases whose container throttles every request.
type throttledLeases struct{ lease.Store }

func (throttledLeases) List(context.Context) (lease.Listing, error) {
	return lease.Listing{}, &feed.ThrottledError{RetryAfter: time.Second}
}

// Throttling is an outage only after a minute. Until then the lines of progress are all that
// says why nothing moves.
func TestProgressSaysThatItIsThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := &progress{out: &out}
		r := &replication{Config: Config{Interval: 5 * time.Second}, writer: &writer{}, progress: p, failures: newErrorLog(p)}
		ctx, stop := context.WithTimeout(t.Context(), 12*time.Second)
		defer stop()
		if err := r.watch(ctx, &lag{store: throttledLeases{}}, "copied", r.note); err != nil {
			t.Fatal(err)
		}
		if want := strings.Repeat("copied 0 documents, throttled; how much is left is unknown\n", 2); out.String() != want {
			t.Errorf("%q", out.String())
		}
	})
}

package replicate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/storetype"
)

// cutter is a dialer whose connections break in the middle of requests and answers.
type cutter struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu   sync.Mutex // guards the rest
	draw *rand.Rand
	cuts int
}

// Dial is a function for http.Transport.DialContext.
func (c *cutter) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// The numbers are random. Some connections last for several requests, and others
	// break during the first.
	return &mortalConn{Conn: conn, cutter: c, read: c.draw.IntN(40 << 10), write: c.draw.IntN(40 << 10)}, nil
}

// mortalConn is a connection that breaks after a number of bytes was read or written.
type mortalConn struct {
	net.Conn
	cutter *cutter

	mu          sync.Mutex // guards the rest
	read, write int
	cut         bool
}

func (c *mortalConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return c.spend(&c.read, n, err)
}

func (c *mortalConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	part := min(len(p), c.write+1)
	c.mu.Unlock()
	n, err := c.Conn.Write(p[:part])
	return c.spend(&c.write, n, err)
}

// spend subtracts n, the number of transferred bytes, from left. If nothing is left, it
// breaks the connection.
func (c *mortalConn) spend(left *int, n int, err error) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *left -= n; *left >= 0 || err != nil || c.cut {
		return n, err
	}
	c.cut = true
	c.cutter.mu.Lock()
	c.cutter.cuts++
	c.cutter.mu.Unlock()
	_ = c.Close()
	return 0, net.ErrClosed
}

// If a connection breaks, the replication retries. It does not end, and the copy lacks no
// document.
func TestReplicateCompletesThoughItsConnectionsAreCutAgainAndAgain(t *testing.T) {
	for name, versions := range map[string]bool{"latest": false, "avad": true} {
		t.Run(name, func(t *testing.T) {
			original := http.DefaultTransport // connect clones the default transport for each account
			defer func() { http.DefaultTransport = original }()
			synctest.Test(t, func(t *testing.T) { replicateThroughCuts(t, versions) })
		})
	}
}

// stageOn returns a stage on a server that is reached over http.DefaultTransport.
func stageOn(t *testing.T, account *changefeedtest.Server) *stage {
	t.Helper()
	s := &stage{T: t, said: &lines{}}
	retention := storetype.ContainerProperties{Partitions: 3, Retention: time.Hour}
	from, to := retention, retention
	from.ID, from.KeyPaths = "orders", []string{"/customer"}
	to.ID, to.KeyPaths = "by-product", []string{"/product"}
	s.from = changefeedtest.NewContainer(t, account.DB, "shop", from)
	s.to = changefeedtest.NewContainer(t, account.DB, "shop", to)
	var err error
	if s.account, err = connect.NewAccount("").OpenSettings(connect.Settings{Endpoint: account.Endpoint, Key: account.Key}); err != nil {
		t.Fatal(err)
	}
	s.account.DB = account.DB
	return s
}

func replicateThroughCuts(t *testing.T, versions bool) {
	t.Helper()
	account := changefeedtest.NewServer(t)
	network, ok := account.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatalf("the transport is a %T", account.Client().Transport)
	}
	cuts := &cutter{dial: network.DialContext, draw: rand.New(rand.NewPCG(1, 2))}
	http.DefaultTransport = &http.Transport{DialContext: cuts.Dial}

	s := stageOn(t, account)
	cfg := s.config()
	cfg.Versions = versions

	const count = 300
	s.fill(count)
	changes := sync.WaitGroup{}
	changes.Go(func() { // the test writes while the container is copied
		for i := range 50 {
			time.Sleep(200 * time.Millisecond)
			s.write("7", "customer 7", "product 7", i)
			s.write("9", "customer 9", []string{"product 9", "product 3"}[i%2], i)
		}
	})
	finish := func() {
		t.Helper()
		if err := Run(t.Context(), cfg); err != nil {
			t.Fatalf("%v\n%s", err, s.said)
		}
	}
	finish()
	changes.Wait()
	finish() // the first run may have ended before the last writes
	s.equal(count)
	if cuts.cuts < 20 {
		t.Errorf("only %d connections were cut", cuts.cuts)
	}
	t.Logf("%d cuts", cuts.cuts)
	if err := s.account.Close(); err != nil {
		t.Error(err)
	}
}

// On an account whose deletes have no previous images, a delete names its document by the
// metadata alone. The copy has another key, so the old copy is looked up by the id.
func TestReplicateFollowsDeletesWithoutPreviousImages(t *testing.T) {
	original := http.DefaultTransport
	defer func() { http.DefaultTransport = original }()
	synctest.Test(t, func(t *testing.T) {
		account := changefeedtest.NewServerOver(t, changefeedtest.NewStore(t), server.Options{DeletesWithoutPrevious: true})
		http.DefaultTransport = account.Client().Transport
		s := stageOn(t, account)
		cfg := s.config()
		cfg.Versions = true
		s.fill(60)
		end := s.follow(cfg)
		time.Sleep(5 * time.Minute) // until the first copy is complete
		for i := range 20 {
			s.remove(fmt.Sprint(i), fmt.Sprint("customer ", i))
			s.remove(fmt.Sprint(20+i), fmt.Sprint("customer ", 20+i))
			s.write(fmt.Sprint(20+i), fmt.Sprint("customer ", 20+i), "back", 2)
		}
		time.Sleep(time.Minute)
		end()
		s.equal(40)
		if err := s.account.Close(); err != nil {
			t.Error(err)
		}
	})
}

package memnet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/changefeed-go/changefeed/internal/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connected returns both ends of a new connection.
func connected(t *testing.T) (client, server net.Conn) {
	t.Helper()
	var n memnet.Network
	l, err := n.Listen("a:1")
	if err != nil {
		t.Fatal(err)
	}
	if client, err = n.Dial(t.Context(), "tcp", "a:1"); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(client.Close(), server.Close(), l.Close()); err != nil {
			t.Error(err)
		}
	})
	return client, server
}

func TestWriterDoesNotWaitForTheReaderUntilTheBufferIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := connected(t)
		sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
		if n, err := client.Write(sent[:100]); n != 100 || err != nil {
			t.Fatal(n, err)
		}
		done := false
		go func() {
			if n, err := client.Write(sent[100:]); n != len(sent)-100 || err != nil {
				t.Error(n, err)
			}
			done = true
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		if done {
			t.Error("a megabyte was written without a reader")
		}
		got, err := io.ReadAll(server)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("read %d bytes, %v", len(got), err)
		}
	})
}

func TestDeadlinesEndCallsAndCanBeMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := connected(t)
		began := time.Now()
		read := func() (time.Duration, error) {
			_, err := client.Read(make([]byte, 1))
			return time.Since(began), err
		}
		set := func(d time.Duration) {
			if err := client.SetReadDeadline(began.Add(d)); err != nil {
				t.Error(err)
			}
		}
		set(time.Second)
		time.AfterFunc(500*time.Millisecond, func() { set(3 * time.Second) })
		if at, err := read(); at != 3*time.Second || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a deadline moved later: %s, %v", at, err)
		}
		if at, err := read(); at != 3*time.Second || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a deadline that has passed: %s, %v", at, err)
		}
		set(time.Hour)
		time.AfterFunc(time.Second, func() { set(5 * time.Second) })
		at, err := read()
		if timeout := net.Error(nil); at != 5*time.Second || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("a deadline moved earlier: %s, %v", at, err)
		}
		if err := client.SetReadDeadline(time.Time{}); err != nil {
			t.Error(err)
		}
		time.AfterFunc(time.Hour, func() { _, _ = server.Write([]byte("x")) })
		if at, err := read(); at != time.Hour+5*time.Second || err != nil {
			t.Errorf("no deadline: %s, %v", at, err)
		}
		// Nobody reads, so the buffer becomes full. The write must then end at its
		// deadline.
		if err := client.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		began = time.Now()
		if n, err := client.Write(make([]byte, 1<<20)); n == 0 || n == 1<<20 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("wrote %d, %v, in %s", n, err, time.Since(began))
		}
	})
}

func TestCloseEndsBothEndsAndKeepsWrittenBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := connected(t)
		waiting := make(chan error, 1)
		go func() {
			_, err := client.Read(make([]byte, 1))
			waiting <- err
		}()
		if _, err := client.Write([]byte("last words")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-waiting; !errors.Is(err, net.ErrClosed) {
			t.Errorf("one's own read ends with %v", err)
		}
		if got, err := io.ReadAll(server); string(got) != "last words" || err != nil {
			t.Errorf("the other end reads %q, %v", got, err)
		}
		if _, err := server.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("the other end writes: %v", err)
		}
		if _, err := client.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("one's own write: %v", err)
		}
	})
}

func TestAddressesHaveAtMostOneListener(t *testing.T) {
	var n memnet.Network
	if _, err := n.Dial(t.Context(), "tcp", "a:1"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("no listener: %v", err)
	}
	l, err := n.Listen("a:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Listen("a:1"); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("twice: %v", err)
	}
	if _, err := n.Listen("a"); err == nil {
		t.Error("an address without a port")
	}
	pending, err := n.Dial(t.Context(), "tcp", "a:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	if _, err := pending.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a connection that was not accepted: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v", err)
	}
	if _, err := n.Dial(t.Context(), "tcp", "a:1"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the end: %v", err)
	}
	if l, err = n.Listen("a:1"); err != nil {
		t.Errorf("again: %v", err)
	} else if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// An HTTP client and server must work over the network in a synctest bubble. Connections
// must be reused, and fake time must pass during requests.
func TestHTTPRunsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n memnet.Network
		l, err := n.Listen("shop.test:80")
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex // guards peers
		peers := 0
		srv := &http.Server{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Hour)
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				w.WriteHeader(http.StatusTeapot)
				_, _ = w.Write(body)
			}),
			ConnState: func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew {
					mu.Lock()
					peers++
					mu.Unlock()
				}
			},
		}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }()
		transport := &http.Transport{DialContext: n.Dial}
		for range 10 {
			body := strings.Repeat("x", 1<<20)
			r, err := http.NewRequestWithContext(t.Context(), "POST", "http://shop.test/", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			a, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(a.Body)
			if err := errors.Join(err, a.Body.Close()); err != nil || string(got) != body || a.StatusCode != http.StatusTeapot {
				t.Fatalf("%d, %d bytes, %v", a.StatusCode, len(got), err)
			}
		}
		if peers != 1 {
			t.Errorf("10 requests took %d connections", peers)
		}
		// The server's request context must end when the client disconnects.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, "GET", "http://shop.test/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := transport.RoundTrip(r); err == nil {
			t.Error("a request of an hour is answered in a minute", a.Body.Close())
		}
		transport.CloseIdleConnections()
		if err := srv.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

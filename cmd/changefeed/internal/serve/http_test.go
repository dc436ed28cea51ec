package serve

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/internal/memnet"
)

// serveInBubble serves a handler in the current bubble. dial opens a connection to it.
// stop ends the server, and returns the error of serveHTTP.
func serveInBubble(t *testing.T, h http.HandlerFunc) (dial func() net.Conn, stop func() error) {
	t.Helper()
	var n memnet.Network
	l, err := n.Listen("a:1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serveHTTP(ctx, l, h, limits{10 * time.Second, headerBytes}, slog.New(slog.DiscardHandler))
	}()
	dial = func() net.Conn {
		c, err := n.Dial(t.Context(), "tcp", "a:1")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	return dial, func() error { cancel(); return <-ended }
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// closedAfter reads a connection until the server closes it. It returns the data, and the
// time until then.
func closedAfter(c net.Conn) (string, time.Duration) {
	began := time.Now()
	text, _ := io.ReadAll(c) // an error also ends the connection
	return string(text), time.Since(began)
}

func TestShutdownAnswersRequestsInFlightAndCutsOffSlowOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial, stop := serveInBubble(t, func(w http.ResponseWriter, r *http.Request) {
			d, err := time.ParseDuration(r.URL.Query().Get("for"))
			if err != nil {
				t.Error(err)
			}
			select {
			case <-time.After(d):
				_, _ = io.WriteString(w, "done")
			case <-r.Context().Done():
			}
		})
		short, long := dial(), dial()
		send(t, short, "GET /?for=5s HTTP/1.1\r\nHost: a\r\n\r\n")
		send(t, long, "GET /?for=1h HTTP/1.1\r\nHost: a\r\n\r\n")
		synctest.Wait()
		ended := make(chan time.Duration, 1)
		began := time.Now()
		go func() {
			if err := stop(); err != nil {
				t.Error(err)
			}
			ended <- time.Since(began)
		}()
		if text, _ := closedAfter(short); !strings.HasSuffix(text, "done") {
			t.Errorf("a request of 5 s gets %q", text)
		}
		if text, _ := closedAfter(long); strings.Contains(text, "done") {
			t.Errorf("a request of an hour gets %q", text)
		}
		if at := <-ended; at < 10*time.Second || at > 11*time.Second {
			t.Errorf("the end took %s", at)
		}
	})
}

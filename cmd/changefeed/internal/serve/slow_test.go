package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/changefeed-go/changefeed/internal/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// slowAddress is the address of the servers of these tests.
const slowAddress = "server:80"

// headerBytes is the default maximum size of headers, in bytes.
const headerBytes = DefaultMaxHeader << 10

// largeAnswer is the size of an answer that does not fit into the buffers of a
// connection, in bytes.
const largeAnswer = 4 << 20

// longWork is a duration that is longer than all time limits together.
const longWork = 2 * (headerTime + bodyTime + writeTime)

// serveSlow runs a test in fake time, against a server with the limits of `changefeed
// serve`.
//
// Its handler rejects "/refused" and OPTIONS without reading the body. Otherwise it reads
// the body. It answers "/large" with a large body, "/long" after longWork, and everything
// else with the body's length.
func serveSlow(t *testing.T, test func(t *testing.T, dial func() net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		var network memnet.Network
		l, err := network.Listen(slowAddress)
		if err != nil {
			t.Fatal(err)
		}
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/refused" || r.Method == http.MethodOptions {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			n, err := io.Copy(io.Discard, r.Body)
			if err != nil {
				http.Error(w, "the body stopped", http.StatusBadRequest)
				return
			}
			switch r.URL.Path {
			case "/large":
				_, _ = w.Write(make([]byte, largeAnswer)) // some clients disconnect before they have read everything
				return
			case "/long":
				select {
				case <-time.After(longWork):
				case <-r.Context().Done():
					panic("the request was given up while its client waited")
				}
			}
			_, _ = fmt.Fprint(w, n)
		})
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() {
			served <- serveHTTP(ctx, l, h, limits{time.Second, headerBytes}, slog.New(slog.DiscardHandler))
		}()
		dial := func() net.Conn {
			c, err := network.Dial(t.Context(), "tcp", slowAddress)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		test(t, dial)
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// ends waits until the server closes a connection. It returns the time until then, and
// the data that arrived last.
func ends(t *testing.T, c net.Conn) (after time.Duration, said string) {
	t.Helper()
	start := time.Now()
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return time.Since(start), string(b)
}

// write writes a text to a connection. It returns an error if the server has closed it.
func write(c net.Conn, text string) error {
	_, err := io.WriteString(c, text)
	return err
}

// within fails the test unless got is about as long as want.
func within(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got < want-time.Second || got > want+time.Second {
		t.Errorf("%s: the connection was ended after %v, not %v", what, got, want)
	}
}

func TestAClientThatDribblesItsHeadersIsCutOff(t *testing.T) {
	serveSlow(t, func(t *testing.T, dial func() net.Conn) {
		c := dial()
		start := time.Now()
		// The client sends one byte per second. A time limit for each byte, and not for
		// all headers, would never end the connection.
		for err := write(c, "GET / HTTP/1.1\r\n"); err == nil && time.Since(start) < time.Hour; err = write(c, "x") {
			time.Sleep(time.Second)
		}
		within(t, "headers", time.Since(start), headerTime)

		silent, _ := ends(t, dial())
		within(t, "silence", silent, headerTime)
	})
}

func TestAClientThatDribblesItsBodyIsCutOff(t *testing.T) {
	serveSlow(t, func(t *testing.T, dial func() net.Conn) {
		for _, kind := range []string{"Content-Length: 100000", "Transfer-Encoding: chunked"} {
			c := dial()
			start := time.Now()
			part := "x"
			if strings.HasPrefix(kind, "Transfer") {
				part = "1\r\nx\r\n"
			}
			if err := write(c, "POST / HTTP/1.1\r\nHost: s\r\n"+kind+"\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			for write(c, part) == nil && time.Since(start) < time.Hour {
				time.Sleep(time.Second)
			}
			within(t, kind, time.Since(start), bodyTime)
		}
	})
}

func TestARefusalWaitsForNoBody(t *testing.T) {
	serveSlow(t, func(t *testing.T, dial func() net.Conn) {
		for _, headers := range []string{
			"Content-Length: 5\r\nExpect: 100-continue",
			"Transfer-Encoding: chunked\r\nExpect: 100-continue",
			"Content-Length: 99999999999",
		} {
			c := dial()
			start := time.Now()
			// A client that expects "100 Continue" sends nothing before it receives that
			// status or an error.
			if err := write(c, "POST /refused HTTP/1.1\r\nHost: s\r\n"+headers+"\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(c).ReadString('\n')
			if err != nil || !strings.HasPrefix(line, "HTTP/1.1 401 ") || time.Since(start) > time.Second {
				t.Errorf("%q: %q (%v) after %v, not 401 at once", headers, line, err, time.Since(start))
			}
		}
	})
}

func TestTheHandlerAnswersForTheServerItselfToo(t *testing.T) {
	serveSlow(t, func(t *testing.T, dial func() net.Conn) {
		c := dial()
		if err := write(c, "OPTIONS * HTTP/1.1\r\nHost: s\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 401 ") {
			t.Errorf("OPTIONS * is answered %q (%v), not as the handler does", line, err)
		}
	})
}

func TestAClientThatDoesNotReadItsAnswerIsCutOff(t *testing.T) {
	serveSlow(t, func(t *testing.T, dial func() net.Conn) {
		c := dial()
		if err := write(c, "GET /large HTTP/1.1\r\nHost: s\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(writeTime + time.Second)
		_, said := ends(t, c)
		if len(said) == 0 || len(said) >= largeAnswer {
			t.Errorf("%d bytes were left to read of an answer that nobody read for longer than a write may take", len(said))
		}
	})
}

func TestSlowClientsThatKeepUpAreServed(t *testing.T) {
	serveSlow(t, func(t *testing.T, dial func() net.Conn) {
		c := dial()
		r := bufio.NewReader(c)
		// Several requests follow each other on one connection. If a limit applied beyond
		// the end of its request, it would end the next one.
		for n := range 3 {
			if err := write(c, "POST / HTTP/1.1\r\nHost: s\r\nContent-Length: 50\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			for range 50 {
				time.Sleep(time.Second)
				if err := write(c, "x"); err != nil {
					t.Fatalf("request %d: %v", n, err)
				}
			}
			answered(t, r, "50")
			time.Sleep(idleTime - time.Second) // the next request comes just before the idle time ends
		}
		if err := write(c, "GET /large HTTP/1.1\r\nHost: s\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		a, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = a.Body.Close() }()
		part := make([]byte, 128<<10)
		for total := 0; total < largeAnswer; total += len(part) {
			time.Sleep(writeTime / (largeAnswer / (128 << 10)) / 2)
			if _, err := io.ReadFull(a.Body, part); err != nil {
				t.Fatalf("after %d bytes: %v", total, err)
			}
		}
	})
}

// answered reads an answer, and fails the test unless its status is 200 and its body is
// want.
func answered(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	a, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(a.Body)
	if err = errors.Join(err, a.Body.Close()); err != nil {
		t.Fatal(err)
	}
	if a.StatusCode != http.StatusOK || string(body) != want {
		t.Fatalf("%s %q, want %q", a.Status, body, want)
	}
}

func TestHeadersAndBodyHaveSeparateTimeLimits(t *testing.T) {
	serveSlow(t, func(t *testing.T, dial func() net.Conn) {
		c := dial()
		// The headers take nearly all of their time, and so does the body. The server
		// must not count both against one limit.
		for _, part := range []string{"POST / HTTP/1.1\r\n", "Host: s\r\nContent-Length: 2\r\n\r\n"} {
			if err := write(c, part); err != nil {
				t.Fatal(err)
			}
			time.Sleep(headerTime - time.Second)
		}
		time.Sleep(bodyTime - headerTime - time.Second)
		if err := write(c, "ab"); err != nil {
			t.Fatal(err)
		}
		answered(t, bufio.NewReader(c), "2")
	})
}

func TestTheServersOwnTimeIsNotLimited(t *testing.T) {
	serveSlow(t, func(t *testing.T, dial func() net.Conn) {
		for _, body := range []string{"", "ab"} {
			c := dial()
			r := bufio.NewReader(c)
			for range 2 {
				if err := write(c, fmt.Sprintf("POST /long HTTP/1.1\r\nHost: s\r\nContent-Length: %d\r\n\r\n%s", len(body), body)); err != nil {
					t.Fatal(err)
				}
				answered(t, r, strconv.Itoa(len(body)))
			}
		}
	})
}

func TestAnIdleConnectionIsKeptAndThenEnded(t *testing.T) {
	serveSlow(t, func(t *testing.T, dial func() net.Conn) {
		c := dial()
		r := bufio.NewReader(c)
		if err := write(c, "GET / HTTP/1.1\r\nHost: s\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answered(t, r, "0")
		idle, said := ends(t, c)
		within(t, "idle", idle, idleTime)
		if said != "" {
			t.Errorf("the server said %q", said)
		}
	})
}

func TestGarbageAndHugeHeadersAreRefused(t *testing.T) {
	serveSlow(t, func(t *testing.T, dial func() net.Conn) {
		for name, c := range map[string]struct{ text, status string }{
			"garbage":        {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03garbage\r\n\r\n", "400"},
			"no HTTP":        {"SSH-2.0-OpenSSH_9.6\r\n\r\n", "400"},
			"two lengths":    {"POST / HTTP/1.1\r\nHost: s\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "400"},
			"length, chunks": {"POST / HTTP/1.1\r\nHost: s\r\nTransfer-Encoding: identity, chunked\r\n\r\n", "501"},
			"no host":        {"GET / HTTP/1.1\r\n\r\n", "400"},
			"a long header":  {"GET / HTTP/1.1\r\nHost: s\r\nX: " + strings.Repeat("x", 2*headerBytes) + "\r\n\r\n", "431"},
			"a long URL":     {"GET /" + strings.Repeat("x", 2*headerBytes) + " HTTP/1.1\r\nHost: s\r\n\r\n", "431"},
			"many headers":   {"GET / HTTP/1.1\r\nHost: s\r\n" + strings.Repeat("A: b\r\n", headerBytes/3) + "\r\n", "431"},
		} {
			conn := dial()
			go func() { _ = write(conn, c.text) }() // the server answers before it has read everything
			after, said := ends(t, conn)
			if !strings.HasPrefix(said, "HTTP/1.1 "+c.status) || after > headerTime {
				t.Errorf("%s: after %v the server said %.60q, want %s", name, after, said, c.status)
			}
		}
	})
}

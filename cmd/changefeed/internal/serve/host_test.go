package serve

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// rebound sends the request that a browser sends when a page calls fetch("/", {headers})
// and the page's name resolves to the server. The request is signed with the public
// well-known key, which any page can use.
func rebound(t *testing.T, endpoint, host string) (status int, contentType, body string) {
	t.Helper()
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	key, err := wire.ParseKey(wire.EmulatorKey)
	if err != nil {
		t.Fatal(err)
	}
	date := wire.FormatTime(time.Now())
	head := "GET / HTTP/1.1\r\nHost: " + host + "\r\nConnection: keep-alive\r\n" +
		"sec-ch-ua-platform: \"Linux\"\r\nx-ms-date: " + date + "\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) " +
		"Chrome/141.0.0.0 Safari/537.36\r\nauthorization: " + wire.Authorization(key.Sign(wire.Payload("GET", "", "", date, ""))) +
		"\r\nAccept: */*\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\nReferer: http://" + host + "/\r\n" +
		"Accept-Encoding: gzip, deflate\r\nAccept-Language: en-US,en;q=0.9\r\n\r\n"
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	a, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Body.Close() }()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, a.Header.Get("Content-Type"), string(text)
}

// If a page's name resolves to the server, the page must not reach the server (DNS
// rebinding). The server once accepted any Host header, so that a web page could read and
// write everything with the well-known key.
func TestAWebPageCannotReachTheServerByDNSRebinding(t *testing.T) {
	r := start(t, Config{TLS: plain, PublicEndpoint: "https://public.test:9000/", Hosts: []string{"Named.Test"}})
	endpoint := "http://" + r.values["listens on"]
	for host, want := range map[string]int{
		"rebind.example:8081": 421, "rebind.example": 421, "127.0.0.1.rebind.example:8081": 421, "localhost.rebind.example:8081": 421,
		"public.test.rebind.example": 421, "192.0.2.7:8081": 421, "[2001:db8::1]:8081": 421, "0.0.0.0:8081": 421,
		"localhost:8081": 200, "LOCALHOST.:8081": 200, "account.localhost": 200, "127.0.0.1:8081": 200, "127.1.2.3": 200, "[::1]:8081": 200,
		"public.test": 200, "public.test:9000": 200, "named.test:1": 200, "NAMED.test.": 200,
	} {
		status, contentType, body := rebound(t, endpoint, host)
		if status != want || contentType != "application/json" {
			t.Errorf("%s: %d, want %d: %s", host, status, want, body)
		}
		if want == 421 && !strings.Contains(body, "--host "+hostName(host)) {
			t.Errorf("%s: %s", host, body)
		}
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

func TestOtherAddressesAreServedByIPAndByConfiguredNames(t *testing.T) {
	c := Config{Listen: "shop.test:8081", Hosts: []string{"named.test"}}
	h := c.checkHosts(nil, nil, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 8081})
	for host, want := range map[string]bool{
		"192.0.2.7:8081": true, "203.0.113.9": true, "[2001:db8::1]:8081": true, "127.0.0.1:8081": true, "localhost:8081": true, "": true,
		"named.test:8081": true, "shop.test:8081": true, "other.test:8081": false, "rebind.example": false, "192.0.2.7.rebind.example": false,
	} {
		if got := h.serves(host); got != want {
			t.Errorf("%q is served: %v", host, got)
		}
	}
}

func TestHostsAreNamesWithoutPorts(t *testing.T) {
	for _, host := range []string{"", "shop.test:8081", "https://shop.test", "shop.test/", "*", "*.shop.test", "a b", "[::1]"} {
		if err := (Config{Hosts: []string{host}}).validateHosts(); err == nil {
			t.Errorf("--host %q is taken", host)
		}
	}
	for _, host := range []string{"shop.test", "Shop.Test.", "changefeed", "192.0.2.7"} {
		if err := (Config{Hosts: []string{host}}).validateHosts(); err != nil {
			t.Error(err)
		}
	}
}

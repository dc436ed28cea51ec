package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// running is a server in this process that Run serves.
type running struct {
	t      *testing.T
	banner string
	values map[string]string
	stop   context.CancelFunc
	ended  chan error
}

// start runs a server until the test ends, and returns when it is ready. It sets a
// temporary home directory for a server in memory.
func start(t *testing.T, c Config) *running {
	t.Helper()
	if c.Data == "" {
		t.Setenv("XDG_CACHE_HOME", t.TempDir())
		t.Setenv("HOME", t.TempDir())
	}
	return startAtHome(t, c)
}

// startAtHome does the same as start, but does not change the home directory.
func startAtHome(t *testing.T, c Config) *running {
	t.Helper()
	c.Listen, c.Partitions, c.Log = "127.0.0.1:0", max(c.Partitions, 1), io.Discard
	if c.Drain == 0 {
		c.Drain = 10 * time.Second
	}
	out, in := io.Pipe()
	c.Out = in
	ctx, stop := context.WithCancel(t.Context())
	r := &running{t: t, values: map[string]string{}, stop: stop, ended: make(chan error, 1)}
	go func() {
		err := Run(ctx, c)
		r.ended <- errors.Join(err, in.CloseWithError(err))
	}()
	text := make([]byte, 1<<16)
	for !strings.HasSuffix(r.banner, "\nready\n") {
		n, err := out.Read(text)
		if err != nil {
			t.Fatalf("it ended before it was ready: %v", err)
		}
		r.banner += string(text[:n])
	}
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+(?: key| on)?) +(\S.*)$`).FindAllStringSubmatch(r.banner, -1) {
		r.values[m[1]] = m[2]
	}
	t.Cleanup(func() { _ = r.end() }) // some tests end the server earlier
	return r
}

// end shuts down the server, and returns the error of Run.
func (r *running) end() error {
	r.stop()
	err := <-r.ended
	r.ended <- err
	return err
}

// client returns an HTTP client that trusts the certificate named in the banner.
func (r *running) client() *http.Client {
	r.t.Helper()
	transport := &http.Transport{}
	r.t.Cleanup(transport.CloseIdleConnections)
	if path := r.values["certificate"]; path != "" {
		pem, err := os.ReadFile(path)
		if err != nil {
			r.t.Fatal(err)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			r.t.Fatal("no certificate in " + path)
		}
	}
	return &http.Client{Transport: transport}
}

// get sends a signed request for the account's properties, with the key in the banner.
func (r *running) get(endpoint string) (int, string) {
	r.t.Helper()
	key, err := wire.ParseKey(r.values["key"])
	if err != nil {
		r.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, endpoint, http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	date := wire.FormatTime(time.Now())
	req.Header.Set(wire.HeaderDate, date)
	req.Header.Set("Authorization", wire.Authorization(key.Sign(wire.Payload("GET", "", "", date, ""))))
	a, err := r.client().Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	body, err := io.ReadAll(a.Body)
	if err := errors.Join(err, a.Body.Close()); err != nil {
		r.t.Fatal(err)
	}
	return a.StatusCode, string(body)
}

func TestServedEndpointKeyAndCertificateAreThoseOfTheBanner(t *testing.T) {
	for name, c := range map[string]Config{
		"TLS in memory":    {TLS: selfSigned},
		"TLS from a store": {TLS: selfSigned, Data: t.TempDir()},
		"plain":            {TLS: plain},
		"own keys":         {TLS: plain, PrintKeys: true, Keys: []string{"b3duIGtleQ=="}, ReadOnlyKeys: []string{"cmVhZGVy"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, c)
			endpoint := r.values["endpoint"]
			if status, body := r.get(endpoint); status != http.StatusOK || !strings.Contains(body, endpoint) {
				t.Errorf("%d %s", status, body)
			}
			u, err := url.Parse(endpoint)
			if err != nil {
				t.Fatal(err)
			}
			if status, _ := r.get(u.Scheme + "://localhost:" + u.Port() + "/"); status != http.StatusOK {
				t.Errorf("by its other name: %d", status)
			}
			if want := "\nexport COSMOS_ENDPOINT=" + endpoint + " COSMOS_KEY=" + r.values["key"]; !strings.Contains(r.banner, want) {
				t.Errorf("no %q:\n%s", want, r.banner)
			}
			if !strings.Contains(r.banner, "\nNode    const { COSMOS_ENDPOINT: endpoint, COSMOS_KEY: key } = process.env\n") {
				t.Errorf("no line for Node:\n%s", r.banner)
			}
			for sdk, read := range map[string]string{"Go": "os.Getenv(%q)", "Java": "System.getenv(%q)", ".NET": "Environment.GetEnvironmentVariable(%q)", "Python": "os.environ[%q]"} {
				_, code, there := strings.Cut(r.banner, "\n"+sdk+" ")
				if _, omitted, _ := strings.Cut(r.banner, "The code for "); !there && strings.Contains(omitted, sdk) {
					continue // the test's directory has a long name
				}
				if !strings.Contains(code, fmt.Sprintf(read, "COSMOS_ENDPOINT")) || !strings.Contains(code, fmt.Sprintf(read, "COSMOS_KEY")) {
					t.Errorf("no line for %s:\n%s", sdk, r.banner)
				}
			}
			if err := r.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPlainHTTPAgainstTLSIsAnsweredInPlainText(t *testing.T) {
	r := start(t, Config{TLS: selfSigned})
	u, err := url.Parse(r.values["endpoint"])
	if err != nil {
		t.Fatal(err)
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := write(conn, "GET / HTTP/1.1\r\nHost: s\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(conn); err != nil || !strings.Contains(string(said), "400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.") {
		t.Errorf("%q, %v", said, err)
	}
}

func TestServedDataStayAndBelongToOneProcess(t *testing.T) {
	dir := t.TempDir()
	r := start(t, Config{TLS: selfSigned, Data: dir})
	pem, err := os.ReadFile(r.values["certificate"])
	if err != nil || filepath.Dir(r.values["certificate"]) != dir {
		t.Fatalf("%q: %v", r.values["certificate"], err)
	}
	second := Config{TLS: plain, Data: dir, Listen: "127.0.0.1:0", Partitions: 1, Out: io.Discard, Log: io.Discard}
	if err := Run(t.Context(), second); !errors.As(err, new(*storetype.LockedError)) {
		t.Errorf("a second server: %v", err)
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	again := start(t, Config{TLS: selfSigned, Data: dir})
	if same, err := os.ReadFile(again.values["certificate"]); err != nil || string(same) != string(pem) {
		t.Errorf("the certificate is another one (%v)", err)
	}
}

func TestMetricsHaveTheirOwnListener(t *testing.T) {
	r := start(t, Config{TLS: plain, Metrics: "127.0.0.1:0"})
	r.get(r.values["endpoint"])
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.values["metrics"], http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(a.Body)
	if err := errors.Join(err, a.Body.Close()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`changefeed_server_request_duration_seconds_count{operation="read account",status="200"} 1`,
		`changefeed_server_sent_bytes_total{operation="read account"} `,
		`go_goroutines `,
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
}

func TestAnAddressInUseNamesTheRemedy(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	dir := filepath.Join(t.TempDir(), "data")
	err = Run(t.Context(), Config{Listen: l.Addr().String(), TLS: plain, Partitions: 1, Data: dir, Out: io.Discard, Log: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "another address with --listen") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory was made: %v", err)
	}
}

func TestMetricsOnTheServersOwnAddressAreRefusedByName(t *testing.T) {
	const address = "127.0.0.1:8081"
	err := Config{Listen: address, Metrics: address, TLS: plain, Partitions: 1}.validate()
	if err == nil || !strings.Contains(err.Error(), "--metrics and --listen are the same address, "+address) {
		t.Errorf("%v", err)
	}
	const any = "127.0.0.1:0" // a free port on the loopback address
	if err := (Config{Listen: any, Metrics: any, TLS: plain, Partitions: 1}).validate(); err != nil {
		t.Error(err)
	}
}

// wrapped returns a key with a line break, as some programs print base64.
func wrapped(key string) string { return key[:len(key)/2] + "\n" + key[len(key)/2:] }

func TestAReadOnlyKeyIsNoneThatMayWriteInOtherWords(t *testing.T) {
	const key = "b3duIGtleQ=="
	for _, c := range []Config{
		{Keys: []string{key}, ReadOnlyKeys: []string{wrapped(key)}},
		{ReadOnlyKeys: []string{wrapped(wire.EmulatorKey)}},
	} {
		c.Listen, c.TLS, c.Partitions = "127.0.0.1:0", plain, 1
		if err := c.validate(); err == nil || !strings.Contains(err.Error(), "also a key that may write") {
			t.Errorf("%q, %q: %v", c.Keys, c.ReadOnlyKeys, err)
		}
	}
}

func TestTheWellKnownKeyIsForThisMachineOnly(t *testing.T) {
	everywhere := &net.TCPAddr{IP: net.IPv4zero, Port: 8081}
	for _, c := range []struct {
		config  Config
		address net.Addr
		refused bool
	}{
		{Config{}, everywhere, true},
		{Config{Keys: []string{"b3duIGtleQ==", wire.EmulatorKey}}, everywhere, true},
		{Config{Keys: []string{wrapped(wire.EmulatorKey)}}, everywhere, true},
		{Config{Keys: []string{"b3duIGtleQ=="}, ReadOnlyKeys: []string{wire.EmulatorKey}}, everywhere, true},
		{Config{}, &net.TCPAddr{IP: net.ParseIP("192.168.1.7")}, true},
		{Config{}, &net.TCPAddr{IP: net.IPv6unspecified}, true},
		{Config{AllowWellKnownKey: true}, everywhere, false},
		{Config{Keys: []string{"b3duIGtleQ=="}}, everywhere, false},
		{Config{}, &net.TCPAddr{IP: net.ParseIP("127.0.0.1")}, false},
		{Config{}, &net.TCPAddr{IP: net.IPv6loopback}, false},
	} {
		if err := c.config.exposed(c.address); (err != nil) != c.refused {
			t.Errorf("%+v on %s: %v", c.config, c.address, err)
		}
	}
}

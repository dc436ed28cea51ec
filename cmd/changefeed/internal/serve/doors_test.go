package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// unsigned is the server behind the doors. It refuses every request of these tests, because
// none has a signature.
var unsigned = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })

// A client that trusts only the certificate of the page must be able to verify the server.
// Nothing else may be reached through the page.
func TestCertificatePageAnswersWithTheServersCertificate(t *testing.T) {
	id := &identity{make: func(now time.Time) (*tls.Certificate, error) { return certificateInMemory(localHosts, now) }}
	if _, err := id.get(time.Now()); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(certificatePage(id, unsigned))
	s.Listener = id.listener(s.Listener)
	s.Start()
	defer s.Close()
	url := strings.Replace(s.URL, "http:", "https:", 1)
	trusting := func(pool *x509.CertPool) *http.Client {
		return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, InsecureSkipVerify: pool == nil}}} //nolint:gosec // the first client does not know the certificate yet
	}
	status := func(c *http.Client, method, path string) (int, []byte) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, body
	}
	code, page := status(trusting(nil), http.MethodGet, certificatePath)
	pool := x509.NewCertPool()
	if code != http.StatusOK || !pool.AppendCertsFromPEM(page) {
		t.Fatalf("status %d: %s; want a certificate in PEM", code, page)
	}
	if strings.Contains(string(page), "PRIVATE") {
		t.Error("the page contains the private key")
	}
	verifying := trusting(pool)
	for path, want := range map[string]int{certificatePath: 200, "/": 401, "/_explorer/": 401, "/_explorer/index.html": 401, certificatePath + "/x": 401} {
		if got, _ := status(verifying, http.MethodGet, path); got != want {
			t.Errorf("GET %s: status %d; want %d", path, got, want)
		}
	}
	if got, _ := status(verifying, http.MethodPost, certificatePath); got != http.StatusUnauthorized {
		t.Errorf("POST: status %d; want 401", got)
	}
}

func TestOnlyAllowedOriginsMayReadAnswers(t *testing.T) {
	const page = "http://localhost:3000"
	for _, c := range []struct {
		name, method, origin string
		allowed              []string
		status               int
		allow                string // Access-Control-Allow-Origin of the answer
	}{
		{"preflight", http.MethodOptions, page, []string{"https://a.example", page}, 204, page},
		{"preflight of any page", http.MethodOptions, page, []string{"*"}, 204, "*"},
		{"preflight of another page", http.MethodOptions, "http://localhost:3001", []string{page}, 401, ""},
		{"preflight without the option", http.MethodOptions, page, nil, 401, ""},
		{"request", http.MethodPost, page, []string{page}, 401, page},
		{"request of another page", http.MethodPost, "http://evil.example", []string{page}, 401, ""},
		{"request without an origin", http.MethodPost, "", []string{page}, 401, ""},
		{"OPTIONS that is no preflight", "OPTIONS ", page, []string{page}, 401, page},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), strings.TrimSpace(c.method), "/dbs", nil)
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if c.method == http.MethodOptions {
			r.Header.Set("Access-Control-Request-Method", "POST")
			r.Header.Set("Access-Control-Request-Headers", "authorization,x-ms-date,x-ms-version")
		}
		allowOrigins(c.allowed, unsigned).ServeHTTP(w, r)
		h := w.Header()
		if w.Code != c.status || h.Get("Access-Control-Allow-Origin") != c.allow {
			t.Errorf("%s: status %d, allowed origin %q; want %d, %q", c.name, w.Code, h.Get("Access-Control-Allow-Origin"), c.status, c.allow)
		}
		if w.Code == 204 && (!strings.Contains(h.Get("Access-Control-Allow-Methods"), "PATCH") || !strings.Contains(h.Get("Access-Control-Allow-Headers"), "authorization")) {
			t.Errorf("%s: the preflight allows %v", c.name, h)
		}
	}
}

func TestInvalidOriginsAreRefusedByName(t *testing.T) {
	for origin, valid := range map[string]bool{
		"http://localhost:3000": true, "https://app.example.com": true, "*": true,
		"": false, "localhost:3000": false, "http://localhost:3000/": false, "http://localhost:3000/app": false, "http://": false, "http://Localhost": false, "null": false, "http://*.example.com": false, "ftp://x": false,
	} {
		err := Config{Origins: []string{origin}}.validateOrigins()
		if (err == nil) != valid || err != nil && !strings.Contains(err.Error(), "--allow-origin") {
			t.Errorf("%q: %v; want it accepted: %t", origin, err, valid)
		}
	}
}

// A probe cannot sign requests. It must learn when clients may be sent to the server: not
// before it serves, and not while it shuts down.
func TestHealthFollowsTheServer(t *testing.T) {
	h, err := Config{Health: "127.0.0.1:0", Version: "v1"}.openHealth(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer h.serve(slog.New(slog.DiscardHandler))()
	base := strings.TrimSuffix(h.url(), "/ready")
	check := func(stage string, want int) {
		t.Helper()
		for path, want := range map[string]int{"/alive": 200, "/ready": want, "/status": want, "/dbs": 404} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if err != nil || answer.StatusCode != want {
				t.Errorf("%s while %s: status %d, %v; want %d", path, stage, answer.StatusCode, err, want)
			}
			var status struct{ Status, Version string }
			if path == "/status" && (json.Unmarshal(body, &status) != nil || status.Status != stage || status.Version != "v1") {
				t.Errorf("the status is %s; want %q", body, stage)
			}
		}
	}
	check(starting, 503)
	h.ready()
	check(serving, 200)
	h.ends()
	h.ready() // the end may come while the server starts
	check(ending, 503)
	var none *health
	none.ready()
	none.ends()
	if none.url() != "" {
		t.Error("a server without a health endpoint prints its address")
	}
}

func TestHealthNeedsAnAddressOfItsOwn(t *testing.T) {
	for address, valid := range map[string]bool{"": true, "127.0.0.1:8080": true, "127.0.0.1:0": true, "8080": false, "127.0.0.1:8081": false, "127.0.0.1:9081": false} {
		err := Config{Listen: "127.0.0.1:8081", Metrics: "127.0.0.1:9081", Health: address}.validateHealth()
		if (err == nil) != valid {
			t.Errorf("%q: %v; want it accepted: %t", address, err, valid)
		}
	}
	if _, err := (Config{Health: "256.0.0.1:1"}).openHealth(context.WithoutCancel(t.Context())); err == nil || !strings.Contains(err.Error(), "--health-listen") {
		t.Errorf("an address that cannot be listened on: %v", err)
	}
}

// A short key is fine where only this machine can try it.
func TestShortKeysAreNoticedWhereOthersCanTryThem(t *testing.T) {
	short, long := "YQ==", base64.StdEncoding.EncodeToString(make([]byte, 64))
	here, everywhere := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7)}
	for name, c := range map[string]struct {
		keys, readers []string
		at            net.Addr
		want          bool
	}{
		"long":                   {[]string{long}, nil, everywhere, false},
		"short":                  {[]string{long, short}, nil, everywhere, true},
		"short, for reading":     {[]string{long}, []string{short}, everywhere, true},
		"short, on this machine": {[]string{short}, nil, here, false},
		"default":                {nil, nil, everywhere, false},
	} {
		if _, got := (Config{Keys: c.keys, ReadOnlyKeys: c.readers}).guessable(c.at); got != c.want {
			t.Errorf("%s: noticed: %t; want %t", name, got, c.want)
		}
	}
}

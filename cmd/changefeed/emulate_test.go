package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// emulated starts `changefeed emulate` as a module of Testcontainers does, and waits for the text
// that the module waits for. It returns the output up to there, and a function that ends the
// process.
func emulated(t *testing.T, until *regexp.Regexp, env []string, args ...string) (out string, end func()) {
	t.Helper()
	cmd := process(t, append([]string{"emulate", "--address", "127.0.0.1", "--health-port", "0"}, args...)...)
	cmd.Env = append(cmd.Env, env...)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }).Stop()
	for lines := bufio.NewReader(pipe); !until.MatchString(out); {
		line, err := lines.ReadString('\n')
		if out += line; err != nil {
			t.Fatalf("%v: it prints no %s: %q", err, until, out)
		}
	}
	return out, func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// statusOf sends a request without a signature, which the server refuses with 401 once it serves.
func statusOf(t *testing.T, client *http.Client, url, host string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// The modules of Testcontainers for Microsoft's emulators pass these arguments and variables, wait
// for these texts, and then send requests with this protocol. They were read from their sources: Go
// 0.42.0, Java 1.21.3 and 2.0.2, JavaScript 12.1.0.
func TestEmulateStartsAsTestcontainersModulesExpect(t *testing.T) {
	free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	_ = free.Close()
	endpoint := regexp.MustCompile(`(?m)^endpoint +(\S+)$`)
	for name, c := range map[string]struct {
		args, env []string
		until     string
		scheme    string
	}{
		"Go":         {[]string{"--enable-explorer", "false"}, []string{"PORT=0"}, `Started`, "http"},
		"Java":       {nil, []string{"PORT=0"}, `(?m:^Started\r\n$)`, "https"},
		"JavaScript": {nil, []string{"PROTOCOL=http", "PORT=" + port, "ENABLE_TELEMETRY=false", "ENABLE_EXPLORER=false"}, `Now listening on: `, "http"},
	} {
		out, end := emulated(t, regexp.MustCompile(c.until), c.env, c.args...)
		m := endpoint.FindStringSubmatch(out)
		if m == nil || !strings.HasPrefix(m[1], c.scheme+"://") || name == "JavaScript" && !strings.HasSuffix(m[1], ":"+port+"/") {
			t.Fatalf("%s: the endpoint is not what the module expects: %s", name, out)
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // as Java's module downloads the certificate
		if c.scheme == "https" {
			status, pem := statusOf(t, client, m[1]+"_explorer/emulator.pem", "")
			roots := x509.NewCertPool()
			if status != http.StatusOK || !roots.AppendCertsFromPEM([]byte(pem)) {
				t.Fatalf("%s: the certificate has status %d: %s", name, status, pem)
			}
			client.Transport = &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}}
		}
		for _, host := range []string{"", "docker:32768", "evil.example"} {
			want := http.StatusUnauthorized
			if host == "evil.example" {
				want = http.StatusMisdirectedRequest
			}
			if status, body := statusOf(t, client, m[1], host); status != want {
				t.Errorf("%s: a request to host %q has status %d: %s", name, host, status, body)
			}
		}
		end()
	}
	if code, _, errOut := command(t, "emulate", "--protocol", "gopher"); code != exitUsage || !strings.Contains(errOut, "http or https") {
		t.Errorf("another protocol: status %d, %s", code, errOut)
	}
}

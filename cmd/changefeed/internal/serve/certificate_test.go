package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCertificateIsReusedWhileItIsValidAndRenewedBeforeItsEnd(t *testing.T) {
	base := filepath.Join(t.TempDir(), "made", "localhost")
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	at := func(now time.Time, hosts ...string) *tls.Certificate {
		t.Helper()
		c, err := certificateIn(base, append(slices.Clone(localHosts), hosts...), now)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := at(now)
	if !at(now.Add(certificateLife - renewBefore - time.Minute)).Leaf.Equal(first.Leaf) {
		t.Error("it is recreated while it is valid")
	}
	for _, host := range localHosts {
		if err := first.Leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	if first.Leaf.IsCA || !first.Leaf.NotBefore.Before(now) {
		t.Errorf("it may sign others, or isn't valid yet: %+v", first.Leaf)
	}
	wantModes := func() {
		t.Helper()
		for suffix, mode := range map[string]os.FileMode{".crt": 0o644, ".key": 0o600} {
			if info, err := os.Stat(base + suffix); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%s: %v, %v", suffix, info.Mode(), err)
			}
		}
	}
	wantModes()
	// Older releases created the file with this mode.
	if err := os.Chmod(base+".crt", 0o600); err != nil {
		t.Fatal(err)
	}
	at(now)
	wantModes()
	second := at(now.Add(certificateLife - renewBefore + time.Minute))
	if second.Leaf.Equal(first.Leaf) || second.Leaf.NotAfter.Before(first.Leaf.NotAfter) {
		t.Error("it isn't renewed before its end")
	}
	third := at(now.Add(certificateLife), "shop.test", "192.0.2.7")
	if third.Leaf.VerifyHostname("shop.test") != nil || third.Leaf.VerifyHostname("192.0.2.7") != nil {
		t.Errorf("it isn't made for other names: %v", third.Leaf.DNSNames)
	}
	if !at(now.Add(-certificateLife)).Leaf.NotBefore.Before(now) {
		t.Error("one of the future is used")
	}
	// After a crash between the writes of the two files, the key does not match the
	// certificate.
	if err := os.WriteFile(base+".key", []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := at(now).Leaf.VerifyHostname("localhost"); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(filepath.Dir(base))
	if err != nil || len(left) != 2 {
		t.Errorf("there are %v, %v", left, err)
	}
}

func TestRunningServerRenewsItsCertificate(t *testing.T) {
	c := Config{TLS: selfSigned, Data: t.TempDir(), Listen: "127.0.0.1:0"}
	id, err := c.identity()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	first, err := id.get(now)
	if err != nil {
		t.Fatal(err)
	}
	later, err := id.get(now.Add(certificateLife - renewBefore + time.Hour))
	if err != nil || later.Leaf.Equal(first.Leaf) {
		t.Errorf("it isn't renewed (%v)", err)
	}
}

func TestCertificateIsForEveryNameThatClientsUse(t *testing.T) {
	for _, c := range []struct {
		listen, public string
		want           []string
	}{
		{"127.0.0.1:8081", "", nil},
		{":8081", "", nil},
		{"0.0.0.0:8081", "https://Shop.test:9000/", []string{"Shop.test"}},
		{"192.0.2.7:8081", "https://shop.test/", []string{"192.0.2.7", "shop.test", "other.test"}},
	} {
		cfg := Config{Listen: c.listen, PublicEndpoint: c.public}
		if c.listen == "192.0.2.7:8081" {
			cfg.Hosts = []string{"shop.test", "other.test"}
		}
		hosts := cfg.hosts()
		if !slices.Equal(hosts, append(slices.Clone(localHosts), c.want...)) {
			t.Errorf("%s, %s: %v", c.listen, c.public, hosts)
		}
	}
}

func TestGivenCertificateIsUsedOrRefusedByName(t *testing.T) {
	base := filepath.Join(t.TempDir(), "own")
	if _, err := certificateIn(base, localHosts, time.Now()); err != nil {
		t.Fatal(err)
	}
	id, err := Config{TLS: base + ".crt," + base + ".key"}.identity()
	if err != nil || id.path != "" {
		t.Fatalf("%+v, %v", id, err)
	}
	if _, err := id.get(time.Now().Add(certificateLife)); err != nil {
		t.Errorf("it is not ours to renew: %v", err)
	}
	if _, err := (Config{TLS: base + ".crt," + base + ".crt"}).identity(); err == nil {
		t.Error("a certificate is taken for a key")
	}
}

// A server in memory starts even if there is no writable home directory. Its certificate
// is then only in memory, and the banner reports that in one line.
func TestServerInMemoryNeedsNoHome(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, home := range map[string]string{"no home": "", "a home that cannot be written": filepath.Join(file, "home")} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_CACHE_HOME", "")
			t.Setenv("HOME", home)
			r := startAtHome(t, Config{TLS: selfSigned})
			if said := r.values["certificate"]; !strings.HasPrefix(said, "in memory, ") || !strings.Contains(said, "--data DIR") {
				t.Errorf("the certificate: %q", said)
			}
			for line, want := range map[string]bool{
				"NODE_TLS_REJECT_UNAUTHORIZED=0": true, "CERTIFICATE_VALIDATION_DISABLED=true": true,
				"SSL_CERT_FILE": false, "NODE_EXTRA_CA_CERTS": false, "REQUESTS_CA_BUNDLE": false,
			} {
				if strings.Contains(r.banner, line) != want {
					t.Errorf("the banner has %q: %t, want %t:\n%s", line, !want, want, r.banner)
				}
			}
			if code := fmt.Sprint(banner{unkept: os.ErrPermission}.sdks(r.values["endpoint"])); !strings.Contains(code, "ServerCertificateCustomValidationCallback") {
				t.Errorf("the code for .NET checks a certificate that is in no file: %s", code)
			}
			u, err := url.Parse(r.values["endpoint"])
			if err != nil {
				t.Fatal(err)
			}
			dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the certificate is looked at below
			conn, err := dialer.DialContext(t.Context(), "tcp", u.Host)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			leaf := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
			for _, host := range localHosts {
				if err := leaf.VerifyHostname(host); err != nil {
					t.Error(err)
				}
			}
			_ = conn.Close()
			if err := r.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// ender is a writer that ends a server when the server has printed its banner.
type ender func()

func (e ender) Write(p []byte) (int, error) {
	e()
	return len(p), nil
}

func TestForeignDirectoryIsNotADataDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := Run(ctx, Config{Listen: "127.0.0.1:0", TLS: plain, Partitions: 1, Data: dir, Out: ender(stop), Log: io.Discard})
	if !errors.As(err, new(*ConfigError)) || !strings.Contains(err.Error(), `"thesis.txt"`) || !strings.Contains(err.Error(), dir) {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("it has left %v, %v", left, err)
	}
}

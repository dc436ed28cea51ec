package serve

import (
	"path/filepath"
	"strings"
	"testing"
)

// Users paste the banner's lines into shells and programs with other working directories.
// So the paths in them must be absolute.
func TestTheBannersPathsAreAbsolute(t *testing.T) {
	t.Chdir(t.TempDir())
	r := start(t, Config{TLS: selfSigned, Data: "data"})
	want, err := filepath.Abs(filepath.Join("data", "localhost.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.values["certificate"]; got != want {
		t.Errorf("the certificate is at %q, want %q", got, want)
	}
	for _, line := range []string{"NODE_EXTRA_CA_CERTS=" + want, "SSL_CERT_FILE=" + want} {
		if !strings.Contains(r.banner, line) {
			t.Errorf("no %q in\n%s", line, r.banner)
		}
	}
}

// Python's SDK checks certificates, except for the hosts of an emulator. For other hosts,
// the banner must print the variables that name the trusted certificate.
func TestPythonsLineNamesTheCertificateIfTheSDKChecksIt(t *testing.T) {
	for endpoint, told := range map[string]bool{"": false, "https://shop.test/": true} {
		r := start(t, Config{TLS: selfSigned, Data: t.TempDir(), PublicEndpoint: endpoint})
		_, python, _ := strings.Cut(r.banner, "\nPython")
		line := "started with  REQUESTS_CA_BUNDLE=" + r.values["certificate"] + " SSL_CERT_FILE=" + r.values["certificate"]
		if !strings.Contains(python, "CosmosClient(") || strings.Contains(python, line) != told {
			t.Errorf("endpoint %q needs the certificate: %t\n%s", endpoint, told, r.banner)
		}
	}
}

// `openssl rand -base64 64`, by which users should create keys, prints a key with line
// breaks. The banner must print the key in one line.
func TestAKeyWithLineBreaksIsPrintedInOneLine(t *testing.T) {
	const key, reader = "b3duIGtleQ==", "cmVhZGVy"
	r := start(t, Config{TLS: plain, PrintKeys: true, Keys: []string{wrapped(key)}, ReadOnlyKeys: []string{wrapped(reader)}})
	if r.values["key"] != key || !strings.Contains(r.banner, "read-only key      "+reader+"\n") || !strings.Contains(r.values["connection string"], "AccountKey="+key+";") {
		t.Errorf("the keys aren't %q and %q:\n%s", key, reader, r.banner)
	}
	if n := strings.Count(r.banner, key); n < 6 {
		t.Errorf("the key is there %d times, and once for each SDK at least was expected:\n%s", n, r.banner)
	}
}

func TestTheBannerHasTheListeningAddressBesideThePublicOne(t *testing.T) {
	r := start(t, Config{TLS: plain, PublicEndpoint: "https://shop.test/"})
	address := r.values["listens on"]
	if host, port, ok := strings.Cut(address, ":"); host != "127.0.0.1" || !ok || port == "0" {
		t.Fatalf("it listens on %q:\n%s", address, r.banner)
	}
	if status, _ := r.get("http://" + address + "/"); status != 200 || r.values["endpoint"] != "https://shop.test/" {
		t.Errorf("%d; the endpoint is %s", status, r.values["endpoint"])
	}
}

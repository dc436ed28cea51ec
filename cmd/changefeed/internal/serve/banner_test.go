package serve

import (
	"net"
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
	for _, line := range []string{"\nexport COSMOS_ENDPOINT=" + r.values["endpoint"] + " COSMOS_KEY=" + r.values["key"] + " COSMOS_CERTIFICATE=" + want + "\n", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"} {
		if !strings.Contains(r.banner, line) {
			t.Errorf("no %q in\n%s", line, r.banner)
		}
	}
}

// Python's SDK checks certificates, except for the hosts of an emulator. For other hosts,
// the banner must print the variables that name the trusted certificate.
func TestPythonsLineNamesTheCertificateIfTheSDKChecksIt(t *testing.T) {
	for endpoint, told := range map[string]bool{"": false, "https://shop.test/": true} {
		b := banner{Config: Config{TLS: selfSigned, PublicEndpoint: endpoint}, address: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8081}, certificate: "x.crt"}
		sdks := b.sdks(b.endpoint())
		python := strings.Join(sdks[len(sdks)-1].lines, "\n")
		lines := "with REQUESTS_CA_BUNDLE=$COSMOS_CERTIFICATE\n     SSL_CERT_FILE=$COSMOS_CERTIFICATE"
		if !strings.HasPrefix(python, "CosmosClient(") || strings.Contains(python, lines) != told {
			t.Errorf("endpoint %q needs the certificate: %t\n%s", endpoint, told, python)
		}
	}
}

// `openssl rand -base64 64`, by which users should create keys, prints a key with line
// breaks. The banner must print the key in one line.
func TestAKeyWithLineBreaksIsPrintedInOneLine(t *testing.T) {
	const key, reader = "b3duIGtleQ==", "cmVhZGVy"
	r := start(t, Config{TLS: plain, PrintKeys: true, Keys: []string{wrapped(key)}, ReadOnlyKeys: []string{wrapped(reader)}})
	if r.values["key"] != key || !strings.Contains(r.banner, "read-only key "+reader+"\n") || !strings.Contains(r.banner, " COSMOS_KEY="+key+"\n") {
		t.Errorf("the keys aren't %q and %q:\n%s", key, reader, r.banner)
	}
}

// The banner must fit a terminal of 80 columns and 24 rows, with the row of the cursor after
// it. Only the key and the line to paste may be wrapped.
func TestTheBannerFitsATerminal(t *testing.T) {
	const missing = " is in docs/emulators.md.\nexport "
	for name, c := range map[string]Config{
		"TLS":         {TLS: selfSigned},
		"plain":       {TLS: plain},
		"public":      {TLS: selfSigned, PublicEndpoint: "https://shop.test/"},
		"a given key": {TLS: selfSigned, Keys: []string{"b3duIGtleQ=="}},
		"everything":  {TLS: selfSigned, Data: "data"},
		"all at once": {TLS: selfSigned, Data: "data", PublicEndpoint: "https://shop.test/", Keys: []string{"b3duIGtleQ=="}, KeyFile: "/home/somebody/key", ReadOnlyKeys: []string{"cmVhZGVy"}},
	} {
		c.Version = "v1.10.10"
		var text strings.Builder
		b := banner{Config: c, address: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8081}}
		if c.TLS == selfSigned {
			b.certificate = "/home/somebody/.cache/changefeed/localhost.crt"
		}
		if c.Data != "" {
			b.metrics, b.health = "http://127.0.0.1:9081/metrics", "http://127.0.0.1:8080/ready"
			b.created = "created 1 database, 2 containers and 3 documents"
		}
		if err := b.write(&text); err != nil {
			t.Fatal(err)
		}
		rows := 1
		for line := range strings.Lines(text.String()) {
			width := len(line) - 1
			rows += max(1, (width+79)/80)
			if width > 80 && !strings.HasPrefix(line, "key ") && !strings.HasPrefix(line, "export ") {
				t.Errorf("%s: a line of %d columns: %s", name, width, line)
			}
		}
		if rows > 24 || strings.Contains(text.String(), missing) != (c.PublicEndpoint != "" || c.Data != "") {
			t.Errorf("%s: %d rows:\n%s", name, rows, &text)
		}
		for _, sdk := range b.sdks(b.endpoint()) { // each has its code, or is named
			_, last, _ := strings.Cut(text.String(), "The code for ")
			if strings.Contains(text.String(), "\n"+sdk.name+" ") == strings.Contains(last, sdk.name) {
				t.Errorf("%s: %s:\n%s", name, sdk.name, &text)
			}
		}
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

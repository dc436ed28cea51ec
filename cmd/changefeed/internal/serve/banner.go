package serve

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// banner is what a client has to know, as text: names and values, a line to paste
// for each SDK, and "ready" as its last line, for scripts to wait for.
type banner struct {
	Config
	address     net.Addr
	certificate string
	// unkept is why the certificate is in no file; nil if it is, or there is none of ours.
	unkept error
	// metrics is the URL of the Prometheus endpoint; empty: there is none.
	metrics string
}

func (b banner) endpoint() string {
	if b.PublicEndpoint != "" {
		return strings.TrimSuffix(b.PublicEndpoint, "/") + "/"
	}
	scheme := "https"
	if b.TLS == plain {
		scheme = "http"
	}
	host, _, _ := net.SplitHostPort(b.Listen) // validated
	tcp, ok := b.address.(*net.TCPAddr)
	if !ok {
		return scheme + "://" + b.address.String() + "/"
	}
	if host == "" || tcp.IP.IsUnspecified() {
		host = "127.0.0.1" // the name that others have for this machine is theirs to know
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(tcp.Port)) + "/"
}

func (b banner) write(w io.Writer) error {
	var t strings.Builder
	where := "in memory (everything is gone at its end; --data DIR keeps it)"
	if b.Data != "" {
		where = "from " + b.Data
	}
	fmt.Fprintf(&t, "changefeed %s serves %s\n\n", b.Version, where)
	endpoint, key := b.endpoint(), b.shown(b.keys())[0]
	connection := "AccountEndpoint=" + endpoint + ";AccountKey=" + key + ";"
	row := func(name, value string) { fmt.Fprintf(&t, "%-18s %s\n", name, value) }
	row("endpoint", endpoint)
	if b.PublicEndpoint != "" {
		row("listens on", b.address.String()) // with port 0 nobody could know it
	}
	for _, k := range b.shown(b.keys()) {
		row("key", k)
	}
	for _, k := range b.shown(b.readers()) {
		row("read-only key", k)
	}
	if len(b.Keys)+len(b.ReadOnlyKeys) > 0 && !b.PrintKeys {
		row("", "("+hiddenKey+" stands for a key that was given; --print-key prints it)")
	}
	row("connection string", connection)
	if b.certificate != "" {
		row("certificate", b.certificate)
	}
	if b.unkept != nil {
		row("certificate", fmt.Sprintf("in memory, and another one at the next start, since no file can be made for it (%v); --data DIR keeps it", b.unkept))
	}
	if b.metrics != "" {
		row("metrics", b.metrics)
	}
	t.WriteString("\nOne of these lines, with the official SDK of its language:\n\n")
	for _, sdk := range b.sdks(endpoint, key, connection) {
		fmt.Fprintf(&t, "%-11s %s\n", sdk.name, sdk.line)
		if sdk.trust != "" {
			fmt.Fprintf(&t, "%-11s   started with  %s\n", "", sdk.trust)
		}
		if sdk.plain != "" && b.TLS == plain {
			fmt.Fprintf(&t, "%-11s   started with  %s\n", "", sdk.plain)
		}
	}
	t.WriteString("\nready\n")
	_, err := io.WriteString(w, t.String())
	return err
}

// hiddenKey stands for a key that is not printed.
const hiddenKey = "KEY"

// shown returns keys as they are printed. The output of a server lands in journals, so a key that
// was given is not in it; the well-known one is no secret.
func (b banner) shown(keys []string) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		if out[i] = k; k != wire.EmulatorKey && !b.PrintKeys {
			out[i] = hiddenKey
		}
	}
	return out
}

// sdkLine is how an SDK gets a client: the line to paste, and what its program is started with so
// that it trusts the certificate, or goes without TLS.
type sdkLine struct{ name, line, trust, plain string }

func (b banner) sdks(endpoint, key, connection string) []sdkLine {
	q := strconv.Quote
	dotnet := connection
	if b.certificate != "" || b.unkept != nil {
		dotnet += "DisableServerCertificateValidation=True;"
	}
	return []sdkLine{
		{
			name:  "Go",
			line:  fmt.Sprintf("client, err := azcosmos.NewClientFromConnectionString(%s, nil)", q(connection)),
			trust: b.trusting("SSL_CERT_FILE="+shellQuote(b.certificate), ""),
		},
		{
			name:  "JavaScript",
			line:  fmt.Sprintf("const client = new CosmosClient(%s)", q(connection)),
			trust: b.trusting("NODE_EXTRA_CA_CERTS="+shellQuote(b.certificate), "NODE_TLS_REJECT_UNAUTHORIZED=0"),
		},
		{
			name:  "Java",
			line:  fmt.Sprintf("CosmosClient client = new CosmosClientBuilder().endpoint(%s).key(%s).gatewayMode().buildClient();", q(endpoint), q(key)),
			trust: b.trusting(javaTrust(endpoint, b.certificate), javaUnchecked(endpoint)),
			plain: "-DCOSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED=true",
		},
		{
			name: ".NET",
			line: fmt.Sprintf("var client = new CosmosClient(%s, new CosmosClientOptions { ConnectionMode = ConnectionMode.Gateway });", q(dotnet)),
		},
		{
			name:  "Python",
			line:  fmt.Sprintf("client = CosmosClient(%s, %s)", q(endpoint), q(key)),
			trust: b.trusting(pythonTrust(endpoint, b.certificate), ""),
		},
	}
}

// trusting returns what a program is started with so that it trusts the certificate: file
// where that is in a file, unchecked where it is in memory.
func (b banner) trusting(file, unchecked string) string {
	switch {
	case b.certificate != "":
		return file
	case b.unkept != nil:
		return unchecked
	}
	return ""
}

// pythonTrust is what a Python program is started with: one variable for the synchronous client, one for the
// asynchronous one. The SDK (4.17) checks no certificate of an emulator's hosts, and takes a path in
// connection_verify for "do check", not for the certificate.
func pythonTrust(endpoint, certificate string) string {
	if emulatorsHost(endpoint) {
		return ""
	}
	return "REQUESTS_CA_BUNDLE=" + shellQuote(certificate) + " SSL_CERT_FILE=" + shellQuote(certificate)
}

// emulatorsHost is whether SDKs take the server for an emulator by its name.
func emulatorsHost(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1")
}

// javaTrust is what a JVM is started with. The SDK's own switch is for these two hosts only; for others the
// certificate goes into a trust store.
func javaTrust(endpoint, certificate string) string {
	if unchecked := javaUnchecked(endpoint); unchecked != "" {
		return unchecked
	}
	return "-Djavax.net.ssl.trustStore=changefeed.p12 -Djavax.net.ssl.trustStorePassword=changeit   (made by: keytool -importcert -noprompt" +
		" -alias changefeed -storetype PKCS12 -storepass changeit -keystore changefeed.p12 -file " + shellQuote(certificate) + ")"
}

// javaUnchecked is what makes a JVM's SDK check no certificate of an emulator's host; empty for other hosts.
func javaUnchecked(endpoint string) string {
	if emulatorsHost(endpoint) {
		return "-DCOSMOS.EMULATOR_SERVER_CERTIFICATE_VALIDATION_DISABLED=true"
	}
	return ""
}

// shellQuote quotes a word for a shell where it needs to be.
func shellQuote(s string) string {
	if !strings.ContainsAny(s, " '\"$`\\!*?;&|<>()#~[]{}\t") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

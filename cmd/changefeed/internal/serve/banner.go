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

// banner is the text that a server prints for its clients: names with values, a line to
// paste for each SDK, and "ready" in the last line. Scripts wait for "ready".
type banner struct {
	Config
	address     net.Addr
	certificate string
	// unkept is the error that prevented storing the certificate in a file. It is nil if
	// the certificate is stored, or if the server did not create one.
	unkept error
	// metrics is the URL of the Prometheus endpoint. It may be empty.
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
		host = "127.0.0.1" // names by which other machines reach this one are unknown
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(tcp.Port)) + "/"
}

func (b banner) write(w io.Writer) error {
	var t strings.Builder
	where := "in memory (all data is lost when it ends; --data DIR keeps it)"
	if b.Data != "" {
		where = "from " + b.Data
	}
	fmt.Fprintf(&t, "changefeed %s serves %s\n\n", b.Version, where)
	endpoint, key := b.endpoint(), b.shown(b.keys())[0]
	connection := "AccountEndpoint=" + endpoint + ";AccountKey=" + key + ";"
	row := func(name, value string) { fmt.Fprintf(&t, "%-18s %s\n", name, value) }
	row("endpoint", endpoint)
	if b.PublicEndpoint != "" {
		row("listens on", b.address.String()) // this is the only place that shows a port chosen for :0
	}
	for _, k := range b.shown(b.keys()) {
		row("key", k)
	}
	for _, k := range b.shown(b.readers()) {
		row("read-only key", k)
	}
	if len(b.Keys)+len(b.ReadOnlyKeys) > 0 && !b.PrintKeys {
		row("", "("+hiddenKey+" replaces a key that you gave; --print-key prints it)")
	}
	row("connection string", connection)
	if b.certificate != "" {
		row("certificate", b.certificate)
	}
	if b.unkept != nil {
		row("certificate", fmt.Sprintf("in memory, and a new one at each start, because its file cannot be written (%v); --data DIR keeps it", b.unkept))
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

// hiddenKey is printed in place of a key that must not be printed.
const hiddenKey = "KEY"

// shown returns the keys as the banner prints them. Keys that the user gave are hidden,
// because the output may be kept in a journal. The public well-known key is printed.
func (b banner) shown(keys []string) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		if out[i] = k; k != wire.EmulatorKey && !b.PrintKeys {
			out[i] = hiddenKey
		}
	}
	return out
}

// sdkLine describes how to create a client with an SDK. line is the code to paste. trust
// and plain are environment variables or options of the program: trust makes it accept
// the certificate, and plain makes it work without TLS.
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

// trusting returns file if the certificate is in a file. It returns unchecked if the
// certificate is only in memory. Otherwise it returns "".
func (b banner) trusting(file, unchecked string) string {
	switch {
	case b.certificate != "":
		return file
	case b.unkept != nil:
		return unchecked
	}
	return ""
}

// pythonTrust returns the environment of a Python program: one variable for the
// synchronous client, and one for the asynchronous one. For an emulator's hosts, the SDK
// (4.17) does not check certificates. It takes a path in connection_verify as "check",
// and not as the certificate.
func pythonTrust(endpoint, certificate string) string {
	if emulatorsHost(endpoint) {
		return ""
	}
	return "REQUESTS_CA_BUNDLE=" + shellQuote(certificate) + " SSL_CERT_FILE=" + shellQuote(certificate)
}

// emulatorsHost reports whether SDKs treat the endpoint as a local emulator, because of
// its host name.
func emulatorsHost(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1")
}

// javaTrust returns the options of a JVM whose program uses the server. If the host is an
// emulator's, the SDK has an option to skip the certificate check. For other hosts, the
// certificate must be in a trust store.
func javaTrust(endpoint, certificate string) string {
	if unchecked := javaUnchecked(endpoint); unchecked != "" {
		return unchecked
	}
	return "-Djavax.net.ssl.trustStore=changefeed.p12 -Djavax.net.ssl.trustStorePassword=changeit   (made by: keytool -importcert -noprompt" +
		" -alias changefeed -storetype PKCS12 -storepass changeit -keystore changefeed.p12 -file " + shellQuote(certificate) + ")"
}

// javaUnchecked returns the option that makes Java's SDK skip the certificate check for
// an emulator's host. It returns "" for other hosts.
func javaUnchecked(endpoint string) string {
	if emulatorsHost(endpoint) {
		return "-DCOSMOS.EMULATOR_SERVER_CERTIFICATE_VALIDATION_DISABLED=true"
	}
	return ""
}

// shellQuote returns s, quoted for a shell if necessary.
func shellQuote(s string) string {
	if !strings.ContainsAny(s, " '\"$`\\!*?;&|<>()#~[]{}\t") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

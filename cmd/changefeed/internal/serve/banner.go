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

// banner is the text that a server prints for its clients: names with values, code for
// each SDK, a line to paste into a shell, and "ready" in the last line. Scripts wait for
// "ready". It fits a terminal of 80 columns and 24 rows, unless the values alone need more. If
// they leave too few rows, it omits the code for some SDKs.
type banner struct {
	Config
	address     net.Addr
	certificate string
	// unkept is the error that prevented storing the certificate in a file. It is nil if
	// the certificate is stored, or if the server did not create one.
	unkept error
	// metrics is the URL of the Prometheus endpoint, and health that of the readiness
	// probe. They may be empty.
	metrics, health string
	// created tells what the file of --init has created. It is empty without a file.
	created string
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
	where := "in memory (--data DIR keeps the data)"
	if b.Data != "" {
		where = "from " + b.Data
	}
	fmt.Fprintf(&t, "changefeed %s serves %s\n", b.Version, where)
	endpoint := b.endpoint()
	b.values(func(name, value string) { fmt.Fprintf(&t, "%-13s %s\n", name, value) })
	certificate := ""
	if b.certificate != "" {
		certificate = " COSMOS_CERTIFICATE=" + shellQuote(b.certificate)
	}
	last := fmt.Sprintf("export COSMOS_ENDPOINT=%s COSMOS_KEY=%s%s\nready\n", shellQuote(endpoint), b.keyWord(), certificate)
	writeCode(&t, b.sdks(endpoint), terminalRows-rows(t.String())-rows(last)-1) // the cursor has a row, too
	_, err := io.WriteString(w, t.String()+last+b.Announce)
	return err
}

// terminalRows and terminalColumns are the size of the terminal that the banner fits.
const terminalRows, terminalColumns = 24, 80

// rows returns the number of rows that a text needs on a terminal.
func rows(text string) int {
	n := 0
	for line := range strings.Lines(text) {
		n += max(1, (len(line)-1+terminalColumns-1)/terminalColumns)
	}
	return n
}

// writeCode writes the code for the SDKs in at most n rows. If there is not enough room for
// all, the last line names those that are missing, and where they are.
func writeCode(t *strings.Builder, sdks []sdkLines, n int) {
	const title = "In a program, with an official SDK and the variables of the export line:\n"
	need := 1 // for the title
	for _, sdk := range sdks {
		need += len(sdk.lines)
	}
	all := need <= n
	n -= 2 // for the title and the last line
	var code strings.Builder
	var missing []string
	for _, sdk := range sdks {
		if !all && len(sdk.lines) > n {
			missing = append(missing, sdk.name)
			continue
		}
		n -= len(sdk.lines)
		name := sdk.name
		for _, line := range sdk.lines {
			fmt.Fprintf(&code, "%-7s %s\n", name, line)
			name = ""
		}
	}
	if code.Len() > 0 {
		t.WriteString(title + code.String())
	}
	if len(missing) > 0 {
		fmt.Fprintf(t, "The code for %s is in docs/emulators.md.\n", strings.Join(missing, ", "))
	}
}

// keyWord returns the word for the line to paste that a shell expands to the first key. A
// hidden key is read from the file or variable that the server has read. If it came from
// another flag, the user must fill it in.
func (b banner) keyWord() string {
	shown := b.shown(b.keys())[0]
	switch {
	case shown != hiddenKey:
	case b.KeyFile != "":
		return `"$(tr -d '\n' < ` + shellQuote(b.KeyFile) + `)"`
	case b.KeyVariable != "":
		return `"${` + b.KeyVariable + `:?}"`
	}
	return shellQuote(shown)
}

// values calls row for each value that the banner names.
func (b banner) values(row func(name, value string)) {
	row("endpoint", b.endpoint())
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
	if b.certificate != "" {
		row("certificate", b.certificate)
		row("", "(Go reads it from SSL_CERT_FILE, Node from NODE_EXTRA_CA_CERTS)")
	}
	if b.unkept != nil {
		row("certificate", fmt.Sprintf("in memory, and a new one at each start, because its file cannot be written (%v); --data DIR keeps it", b.unkept))
	}
	if b.metrics != "" {
		row("metrics", b.metrics)
	}
	if b.health != "" {
		row("health", b.health)
	}
	if b.created != "" {
		row("init", b.created)
	}
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

// sdkLines describes how to create a client with an SDK. lines are the code, which reads
// the endpoint and the key from the environment. "with" begins a line that tells with
// which variables or options the program must be started, and "after" a command that must
// run before.
type sdkLines struct {
	name  string
	lines []string
}

// sdks returns the lines for each SDK. None is longer than 72 characters, so that the
// banner fits a terminal of 80 columns.
func (b banner) sdks(endpoint string) []sdkLines {
	golang := []string{
		`cred, err := azcosmos.NewKeyCredential(os.Getenv("COSMOS_KEY"))`,
		`azcosmos.NewClientWithKey(os.Getenv("COSMOS_ENDPOINT"), cred, nil)`,
	}
	node := []string{
		`const { COSMOS_ENDPOINT: endpoint, COSMOS_KEY: key } = process.env`,
		`const client = new CosmosClient({ endpoint, key })`,
	}
	java := []string{
		`new CosmosClientBuilder().endpoint(System.getenv("COSMOS_ENDPOINT"))`,
		`  .key(System.getenv("COSMOS_KEY")).gatewayMode().buildClient()`,
	}
	dotnet := []string{
		`new CosmosClient(Environment.GetEnvironmentVariable("COSMOS_ENDPOINT"),`,
		`  Environment.GetEnvironmentVariable("COSMOS_KEY"), new() {`,
	}
	python := []string{`CosmosClient(os.environ["COSMOS_ENDPOINT"], os.environ["COSMOS_KEY"])`}
	if b.certificate == "" && b.unkept == nil {
		dotnet = append(dotnet, `  ConnectionMode = ConnectionMode.Gateway })`)
	} else {
		dotnet = append(dotnet, `  ConnectionMode = ConnectionMode.Gateway,`, `  ServerCertificateCustomValidationCallback = (_, _, _) => true })`)
		java = append(java, javaTrust(endpoint, b.certificate != "")...)
	}
	switch {
	case b.TLS == plain:
		java = append(java, "with -DCOSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED=true")
	case b.unkept != nil:
		node = append(node, "with NODE_TLS_REJECT_UNAUTHORIZED=0")
	case b.certificate != "" && !emulatorsHost(endpoint):
		python = append(python, pythonTrust...)
	}
	return []sdkLines{{"Go", golang}, {"Node", node}, {"Java", java}, {".NET", dotnet}, {"Python", python}}
}

// pythonTrust is the environment of a Python program: one variable for the synchronous
// client, and one for the asynchronous one. For an emulator's hosts, the SDK (4.17) does
// not check certificates, and needs neither. It takes a path in connection_verify as
// "check", and not as the certificate.
var pythonTrust = []string{"with REQUESTS_CA_BUNDLE=$COSMOS_CERTIFICATE", "     SSL_CERT_FILE=$COSMOS_CERTIFICATE"}

// emulatorsHost reports whether SDKs treat the endpoint as a local emulator, because of
// its host name.
func emulatorsHost(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1")
}

// javaTrust returns the options of a JVM whose program uses the server. If the host is an
// emulator's, the SDK has an option to skip the certificate check. For other hosts, the
// certificate must be in a trust store, which needs its file.
func javaTrust(endpoint string, file bool) []string {
	switch {
	case emulatorsHost(endpoint):
		return []string{"with -DCOSMOS.EMULATOR_SERVER_CERTIFICATE_VALIDATION_DISABLED=true"}
	case file:
		return []string{
			`after keytool -importcert -noprompt -alias changefeed \`,
			`-storetype PKCS12 -storepass changeit \`,
			`-keystore changefeed.p12 -file "$COSMOS_CERTIFICATE"`,
			"with -Djavax.net.ssl.trustStore=changefeed.p12",
			"     -Djavax.net.ssl.trustStorePassword=changeit",
		}
	}
	return nil
}

// shellQuote returns s, quoted for a shell if necessary.
func shellQuote(s string) string {
	if !strings.ContainsAny(s, " '\"$`\\!*?;&|<>()#~[]{}\t") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

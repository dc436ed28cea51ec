package connect

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// UsageError reports that the flags or the environment do not name a valid account. Its
// text names the wrong flag or variable, and never a key.
type UsageError struct{ reason string }

func (e *UsageError) Error() string { return e.reason }

func refuse(format string, args ...any) error {
	return &UsageError{reason: fmt.Sprintf(format, args...)}
}

// Account holds the values of the flags that name one account. If a flag is not given, it
// uses the flag's environment variable. Create it with [NewAccount]. Each command has its
// own.
type Account struct {
	prefix string // prefix of the flags: "" or "lease-"
	env    string // prefix of the variables: "COSMOS_" or "COSMOS_LEASE_"
	getenv func(string) string
	flags  *pflag.FlagSet
	url    string // flag whose URL is the endpoint, if it is not --{prefix}endpoint
	// like is another account of the command, or nil. Its credentials are used if both are
	// one account and this one has no key. Then shared reports it.
	like   *Account
	shared bool

	endpoint, key, keyFile, connection, certificate, data string

	// warned reports whether the file of the key has been read, and others' access to it
	// been reported.
	warned bool
}

// NewAccount returns an account with the flags --{prefix}endpoint, --{prefix}key and so
// on. Its variables are COSMOS_{PREFIX}ENDPOINT, COSMOS_{PREFIX}KEY and so on. prefix is
// empty, or ends in "-".
func NewAccount(prefix string) *Account {
	return &Account{prefix: prefix, env: variables(prefix), getenv: os.Getenv}
}

// variables returns the prefix of the variables for the prefix of the flags.
func variables(prefix string) string {
	return "COSMOS_" + strings.ToUpper(strings.ReplaceAll(prefix, "-", "_"))
}

// Like makes a use the key and the certificate of another account if both have the same
// endpoint, and a has no key of its own. So one pair of variables names an account for all
// flags of a command.
func (a *Account) Like(other *Account) { a.like = other }

func (a *Account) names() names {
	n := names{prefix: a.prefix, url: a.url, flagless: a.flags == nil}
	if a.shared {
		n.key = a.like.names().keys()
	}
	return n
}

// SetEndpoint sets the endpoint to a URL that the user gave in another flag. Error texts
// name that flag, and not --{prefix}endpoint.
func (a *Account) SetEndpoint(url, flag string) error {
	a.url = flag
	return a.flags.Set(a.prefix+"endpoint", url)
}

// Add adds the flags of an account that has an endpoint.
func (a *Account) Add(flags *pflag.FlagSet) {
	a.flags = flags
	p, e := a.prefix, a.env
	flags.StringVar(&a.endpoint, p+"endpoint", "", "`URL` of the account ("+e+"ENDPOINT); without a key, Microsoft Entra ID is used, or the emulators' key on this machine")
	flags.StringVar(&a.key, p+"key", "", "account `key` in base64 ("+e+"KEY); it is visible in this machine's list of processes")
	flags.StringVar(&a.keyFile, p+"key-file", "", "`file` that holds the account key ("+e+"KEY_FILE)")
	flags.StringVar(&a.connection, p+"connection-string", "", "`text` that contains endpoint and key ("+e+"CONNECTION_STRING)")
	flags.StringVar(&a.certificate, p+"certificate", "", "PEM `file` of a certificate to trust, for instance that of `changefeed serve` ("+e+"CERTIFICATE)")
}

// AddData adds --data, which names an embedded store instead of an account.
func (a *Account) AddData(flags *pflag.FlagSet) {
	flags.StringVar(&a.data, a.prefix+"data", "", "`directory` of an embedded store, instead of an account")
}

// Given reports whether a flag or the environment names an account.
func (a *Account) Given() bool {
	for _, name := range []string{"endpoint", "connection-string", "data"} {
		if a.changed(name) {
			return true
		}
	}
	return a.getenv(a.env+"ENDPOINT") != "" || a.getenv(a.env+"CONNECTION_STRING") != ""
}

func (a *Account) changed(name string) bool {
	return a.flags != nil && a.flags.Changed(a.prefix+name)
}

// Settings are the combined values of the flags and the environment.
type Settings struct {
	// Endpoint is the account's URL as the user wrote it.
	Endpoint string
	// Key is the account key in base64. If empty, Microsoft Entra ID is used.
	Key string
	// Certificate is the file of a certificate to trust in addition to the system's. It
	// may be empty.
	Certificate string
	// Data is the directory of an embedded store. If it is set, all other fields are
	// empty.
	Data string
}

// String returns the endpoint or directory of the account. It never returns a key.
func (s Settings) String() string {
	if s.Data != "" {
		return s.Data
	}
	return s.Endpoint
}

// GoString returns the same text as String, so that %#v does not print a key.
func (s Settings) GoString() string { return s.String() }

// Settings returns the account that the flags and the environment variables name.
//
// A flag overrides every variable. If a flag names the account, its key may still come
// from a variable. If variables name two accounts or two keys, Settings returns an error.
// Errors are of type *[UsageError].
//
// Settings writes a warning to warnings if other users can read the file of the key.
func (a *Account) Settings(warnings io.Writer) (Settings, error) {
	for _, name := range []string{"endpoint", "key", "key-file", "connection-string", "certificate", "data"} {
		// A flag that is given but empty comes from a script whose variable was not set.
		// It must not select the account of the environment.
		if a.changed(name) && a.flags.Lookup(a.prefix+name).Value.String() == "" {
			return Settings{}, refuse("--%s%s is empty", a.prefix, name)
		}
	}
	if err := a.exclusive(); err != nil {
		return Settings{}, err
	}
	if a.data != "" {
		return Settings{Data: a.data}, nil
	}
	s := Settings{Certificate: cmp.Or(a.certificate, a.getenv(a.env+"CERTIFICATE"))}
	connection, from := a.connection, "--"+a.prefix+"connection-string"
	if connection == "" && a.endpoint == "" {
		connection, from = a.getenv(a.env+"CONNECTION_STRING"), a.env+"CONNECTION_STRING"
	}
	if connection != "" {
		return a.connected(s, connection, from, warnings)
	}
	of := origin{endpoint: cmp.Or(a.url, "--"+a.prefix+"endpoint")}
	if s.Endpoint = a.endpoint; s.Endpoint == "" {
		of.endpoint = a.env + "ENDPOINT"
		s.Endpoint = a.getenv(of.endpoint)
	}
	if s.Endpoint == "" {
		return Settings{}, a.missing()
	}
	var err error
	if s.Key, of.key, err = a.keyText(warnings); err != nil {
		return Settings{}, err
	}
	if s.Key == "" {
		if err := a.share(&s, warnings); err != nil {
			return Settings{}, err
		}
	}
	return s, s.complete(of)
}

// share adds the credentials of the account that a is like to s, if that has the same
// endpoint.
func (a *Account) share(s *Settings, warnings io.Writer) error {
	if a.like == nil || !a.like.Given() {
		return nil
	}
	other, err := a.like.Settings(warnings)
	switch {
	case err != nil && sameAccount(a.like.getenv(a.like.env+"ENDPOINT"), s.Endpoint):
		return err
	case err != nil || other.Data != "" || !sameAccount(other.Endpoint, s.Endpoint):
		return nil // the other account is not used
	}
	a.shared = true
	s.Key, s.Certificate = other.Key, cmp.Or(s.Certificate, other.Certificate)
	return nil
}

// connected returns s with the endpoint and key of a connection string. from is the flag
// or variable of the string. If it is a variable, the string must agree with the other
// variables. A key from a flag replaces the string's key.
func (a *Account) connected(s Settings, connection, from string, warnings io.Writer) (Settings, error) {
	if err := s.parse(connection, a.names()); err != nil {
		return Settings{}, refuse("%s is invalid: %v", from, err)
	}
	of := origin{endpoint: "AccountEndpoint in " + from, key: "AccountKey in " + from}
	if a.connection == "" {
		if endpoint := a.getenv(a.env + "ENDPOINT"); endpoint != "" && !sameAccount(endpoint, s.Endpoint) {
			return Settings{}, refuse("%[1]sENDPOINT is %[2]q, but %[1]sCONNECTION_STRING names another account, %[3]q; unset one of them, or use --%[4]sendpoint",
				a.env, redacted(endpoint), redacted(s.Endpoint), a.prefix)
		}
		key, keyFrom, err := a.keyText(warnings)
		if err != nil {
			return Settings{}, err
		}
		switch {
		case key == "" || key == s.Key:
		case a.key != "" || a.keyFile != "":
			s.Key, of.key = key, keyFrom
		default:
			return Settings{}, refuse("%s and the AccountKey in %s are different keys; unset one of the variables, or use --%skey-file", keyFrom, from, a.prefix)
		}
	}
	return s, s.complete(of)
}

// sameAccount reports whether two endpoints are the same URL, even if they are spelled
// differently.
func sameAccount(a, b string) bool {
	normal := func(endpoint string) string {
		u, err := url.Parse(endpoint)
		if err != nil {
			return endpoint
		}
		host := strings.ToLower(u.Host)
		if u.Port() == "" && u.Scheme == "https" {
			host += ":443"
		}
		return u.Scheme + "://" + host + strings.TrimSuffix(u.Path, "/")
	}
	return normal(a) == normal(b)
}

// origin names the flags or variables from which an endpoint and a key come. Error texts
// use it.
type origin struct{ endpoint, key string }

// exclusive returns an error if several flags name an account, or several flags name a
// key.
func (a *Account) exclusive() error {
	for _, pair := range [][2]string{
		{"data", "endpoint"},
		{"data", "connection-string"},
		{"data", "key"},
		{"data", "key-file"},
		{"data", "certificate"},
		{"connection-string", "endpoint"},
		{"connection-string", "key"},
		{"connection-string", "key-file"},
		{"key", "key-file"},
	} {
		if a.changed(pair[0]) && a.changed(pair[1]) {
			return refuse("--%s%s and --%s%s exclude each other", a.prefix, pair[0], a.prefix, pair[1])
		}
	}
	return nil
}

// missing returns the error of a command that needs an account when none is named. Its
// text lists the ways to name one.
func (a *Account) missing() error {
	p, e := a.prefix, a.env
	or := ""
	if a.flags != nil && a.flags.Lookup(p+"data") != nil {
		or = fmt.Sprintf(", or --%sdata DIR for an embedded store", p)
	}
	given := ""
	if what := a.credential(true); what != "" {
		given = what + " is given, but "
	}
	return refuse("%sno account is named; use --%sendpoint URL (with --%skey-file, or with Microsoft Entra ID), --%sconnection-string, the variables %sENDPOINT and %sKEY, or %sCONNECTION_STRING%s", given, p, p, p, e, e, e, or)
}

// keyText returns the account key as the user gave it. from is the flag or variable of
// the key. Flags override variables.
func (a *Account) keyText(warnings io.Writer) (key, from string, err error) {
	if a.key != "" {
		return a.key, "--" + a.prefix + "key", nil
	}
	file, from := a.keyFile, "--"+a.prefix+"key-file"
	if file == "" {
		key = strings.TrimSpace(a.getenv(a.env + "KEY"))
		from = a.env + "KEY_FILE"
		if file = a.getenv(from); file == "" {
			return key, a.env + "KEY", nil
		}
	}
	if a.warned {
		warnings = io.Discard
	}
	a.warned = true
	read, err := ReadKey(file, warnings)
	switch {
	case err != nil:
		return "", from, refuse("%s: %v", from, err)
	case key != "" && key != read:
		return "", from, refuse("%[1]sKEY and %[1]sKEY_FILE are different keys; unset one of them", a.env)
	}
	return read, from, nil
}

// ReadKey reads a key from a file. It removes white space at both ends. The error names
// the file. If other users can read the file, ReadKey writes a warning to warnings.
func ReadKey(file string, warnings io.Writer) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(text))
	if key == "" {
		return "", fmt.Errorf("%s is empty", file)
	}
	if info, err := os.Stat(file); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		_, _ = fmt.Fprintf(warnings, "warning: other users can read the key in %s (mode %#o); use chmod 600\n", file, info.Mode().Perm())
	}
	return key, nil
}

// parse parses a connection string: AccountEndpoint=URL;AccountKey=KEY; in any order. n
// are the names of the account.
func (s *Settings) parse(connection string, n names) error {
	for part := range strings.SplitSeq(connection, ";") {
		name, value, _ := strings.Cut(part, "=") // a key ends in "=", too
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "accountendpoint":
			s.Endpoint = strings.TrimSpace(value)
		case "accountkey":
			s.Key = strings.TrimSpace(value)
		case "disableservercertificatevalidation":
			switch value = strings.TrimSpace(value); {
			case !strings.EqualFold(value, "true") && !strings.EqualFold(value, "false"):
				return errors.New("DisableServerCertificateValidation must be True or False")
			case strings.EqualFold(value, "true"):
				return errors.New("DisableServerCertificateValidation is not supported, because the key would be sent to any server; leave it out, and trust the server's certificate by " + n.certificateFile())
			}
		}
	}
	switch {
	case s.Endpoint == "":
		return errors.New("AccountEndpoint is missing")
	case s.Key == "":
		return errors.New("AccountKey is missing")
	}
	return nil
}

// complete checks the settings. On this machine it also adds two defaults: the emulators'
// key, which is public, and the certificate that `changefeed serve` stores.
func (s *Settings) complete(of origin) error {
	u, err := url.Parse(s.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return refuse("%s is %q: it must be a URL of the form https://account.documents.azure.com:443/", of.endpoint, redacted(s.Endpoint))
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return refuse("%s is %q: its port must be a number from 1 to 65535", of.endpoint, redacted(s.Endpoint))
		}
	}
	if s.Key == "" && onThisMachine(u.Hostname()) {
		s.Key = wire.EmulatorKey
	}
	if s.Key != "" {
		if _, err := wire.ParseKey(s.Key); err != nil {
			return refuse("%s is invalid: %v", of.key, err)
		}
	}
	if s.Certificate == "" {
		s.Certificate = ownCertificate(u)
	}
	return nil
}

// redacted returns an invalid endpoint for an error text, without secrets that it may
// contain. It may be a connection string in the wrong flag, or contain a password.
func redacted(endpoint string) string {
	if strings.ContainsAny(endpoint, ";@") || len(endpoint) > 100 {
		return endpoint[:min(len(endpoint), len("https://"))] + "..."
	}
	return endpoint
}

// onThisMachine reports whether host is localhost or a loopback address.
func onThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ownCertificate returns the file in which this user's in-memory server stores its
// certificate. It returns "" if there is no such file, or if the endpoint is on another
// machine.
func ownCertificate(endpoint *url.URL) string {
	if endpoint.Scheme != "https" || !onThisMachine(endpoint.Hostname()) {
		return ""
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	name := filepath.Join(cache, "changefeed", "localhost.crt")
	if _, err := os.Stat(name); err != nil {
		return ""
	}
	return name
}

// named reports whether a flag, and not only a variable, names an account.
func (a *Account) named() bool { return a.changed("endpoint") || a.changed("connection-string") }

// CheckUnnamed returns an error if a flag gives a key or a certificate for this account, which
// the command does not use because nothing names the account. Otherwise a wrong key would be
// ignored without a word. With variables it considers these, too.
func (a *Account) CheckUnnamed(variables bool) error {
	what := a.credential(variables)
	if what == "" {
		return nil
	}
	return refuse("%s is given, but its account is missing: use %s; a key or a certificate alone does not name an account", what, a.names().endpoints())
}

// credential returns the flag, or with variables the variable, that gives a key or a
// certificate. It returns "" if there is none.
func (a *Account) credential(variables bool) string {
	for _, name := range []string{"key", "key-file", "certificate"} {
		variable := a.env + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		switch {
		case a.changed(name):
			return "--" + a.prefix + name
		case variables && a.getenv(variable) != "":
			return variable
		}
	}
	return ""
}

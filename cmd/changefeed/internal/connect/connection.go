// Package connect gives every command that uses an account the same flags and the same
// environment variables. An account is an endpoint with a key, an endpoint with a sign-in
// by Microsoft Entra ID, a connection string, or the directory of an embedded store. The
// package opens an embedded store behind a server in this process, on a network in
// memory. Each command therefore needs only one implementation.
//
// The package never prints a key, and no error of it contains one.
package connect

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/spf13/pflag"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/admin"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/store"
)

// Flags are the account flags of a command that reads a monitored container: --endpoint,
// --key and so on, and --data. With [Flags.AddLeases] they also include flags with the
// prefix "lease-", for a lease container in another account, and with [Flags.AddLetters]
// those with the prefix "letters-". The zero value is ready to use.
type Flags struct {
	monitored, lease, letters *Account
}

// Add adds the flags of the monitored account, and --data.
func (f *Flags) Add(flags *pflag.FlagSet) {
	f.monitored = NewAccount("")
	f.monitored.Add(flags)
	f.monitored.AddData(flags)
}

// AddLeases adds the flags of the lease container's account.
func (f *Flags) AddLeases(flags *pflag.FlagSet) {
	f.lease = NewAccount("lease-")
	f.lease.Add(flags)
	f.lease.Like(f.monitored)
}

// AddLetters adds the flags of the letters container's account.
func (f *Flags) AddLetters(flags *pflag.FlagSet) {
	f.letters = NewAccount("letters-")
	f.letters.Add(flags)
	f.letters.Like(f.monitored)
}

// Connection holds the accounts that a command works with. The caller of [Flags.Open]
// must close it.
type Connection struct {
	// Monitored is the account of the monitored container. Leases is the account of the
	// lease container, and Letters that of the letters container. They are the same unless a
	// flag or the environment names another one.
	Monitored, Leases, Letters *Opened
}

// Open opens the accounts that the flags and the environment name. It sends no request,
// so an unreachable account fails at its first use. It returns a *[UsageError], or an
// error of [store.Open]. warnings are those of [Account.Settings].
func (f *Flags) Open(warnings io.Writer) (*Connection, error) {
	monitored, err := f.monitored.Open(warnings)
	if err != nil {
		return nil, err
	}
	c := &Connection{Monitored: monitored, Leases: monitored, Letters: monitored}
	for _, other := range []struct {
		flags *Account
		to    **Opened
	}{{f.lease, &c.Leases}, {f.letters, &c.Letters}} {
		if err := other.flags.openBeside(monitored, other.to, warnings); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// openBeside sets to to the account if a flag or the environment names one. An account from the
// environment is not used with an embedded store, because the store has its own containers. One
// from a flag is used. A nil Account names none.
func (a *Account) openBeside(monitored *Opened, to **Opened, warnings io.Writer) error {
	if a == nil {
		return nil
	}
	if !a.Given() || monitored.DB != nil && !a.named() {
		return a.CheckUnnamed(monitored.DB == nil)
	}
	opened, err := a.Open(warnings)
	if err == nil {
		*to = opened
	}
	return err
}

// Close closes all accounts.
func (c *Connection) Close() error {
	var errs []error
	for _, other := range []*Opened{c.Leases, c.Letters} {
		if other != c.Monitored {
			errs = append(errs, other.Close())
		}
	}
	return errors.Join(append(errs, c.Monitored.Close())...)
}

// Opened is an account that is ready for use. [cosmos.Account] has its feed and its
// leases, and [Documents] the rest.
type Opened struct {
	*cosmos.Account
	// Settings are the settings that the account was opened with.
	Settings Settings
	// DB is the embedded store behind the account. It is nil for other accounts.
	DB *store.DB

	http     *http.Client
	names    names
	embedded *embedded
}

// requestTime is the timeout of one request. It is a little longer than the gateway's own
// timeout.
const requestTime = 65 * time.Second

// Open opens the account that flags and environment name. It returns a *[UsageError], or
// an error of [store.Open]. warnings are those of [Account.Settings].
func (a *Account) Open(warnings io.Writer) (*Opened, error) {
	s, err := a.Settings(warnings)
	if err != nil {
		return nil, err
	}
	return a.OpenSettings(s)
}

// OpenSettings opens the account that s names, which [Account.Settings] has returned. The
// errors are the same as those of [Account.Open].
func (a *Account) OpenSettings(s Settings) (*Opened, error) {
	o := &Opened{Settings: s, names: a.names()}
	if s.Data != "" {
		var err error
		if o.embedded, err = openEmbedded(s.Data); err != nil {
			return nil, err
		}
		o.DB, o.http = o.embedded.db, &http.Client{Transport: o.embedded.transport}
		s = Settings{Endpoint: o.embedded.endpoint, Key: o.embedded.key}
	} else {
		t, err := transport(s.Certificate, o.names)
		if err != nil {
			return nil, err
		}
		o.http = &http.Client{Transport: t, Timeout: requestTime}
	}
	if err := o.sign(s); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// sender returns what sends every request to the account.
func (o *Opened) sender() sender { return sender{o.http, o.names} }

// sign creates the account, which signs with its key or with a credential of Microsoft Entra
// ID.
func (o *Opened) sign(s Settings) error {
	options := cosmos.Options{ClientOptions: azcore.ClientOptions{Transport: o.sender()}}
	options.Telemetry.ApplicationID = "changefeed-cli"
	var err error
	if s.Key != "" {
		o.Account, err = cosmos.WithKey(s.Endpoint, s.Key, options)
	} else {
		azure, signErr := azidentity.NewDefaultAzureCredential(nil)
		if signErr != nil {
			return fmt.Errorf("sign in to %s by Microsoft Entra ID, because no key was given: %w", s.Endpoint, signErr)
		}
		o.Account, err = cosmos.WithCredential(s.Endpoint, signIn{azure, o.names}, options)
	}
	if err != nil {
		return &UsageError{reason: err.Error()}
	}
	return nil
}

// Endpoint returns the URL of the account. For an embedded store it is the URL of the
// server in this process.
func (o *Opened) Endpoint() string {
	if o.embedded != nil {
		return o.embedded.endpoint
	}
	return o.Settings.Endpoint
}

// Admin returns a client of the server's admin API, which Azure Cosmos DB does not have.
// It returns a *[UsageError] if there is no key.
func (o *Opened) Admin() (*admin.Client, error) {
	key := o.Settings.Key
	if o.embedded != nil {
		key = o.embedded.key
	}
	if key == "" {
		return nil, refuse("the server's key is missing; use %s", o.names.keys())
	}
	client, err := admin.New(o.Endpoint(), key, o.sender())
	if err != nil {
		return nil, &UsageError{reason: err.Error()}
	}
	return client, nil
}

// Close closes the connections and, if the account is an embedded store, the store.
func (o *Opened) Close() error {
	o.http.CloseIdleConnections()
	if o.embedded != nil {
		return o.embedded.close()
	}
	return nil
}

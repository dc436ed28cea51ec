package server

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// Tokens of an issuer of OpenID Connect, like Microsoft Entra ID: JWTs that are signed with one of the keys that the issuer publishes.
// Checked are the signature, by the key that the token names, and iss, aud, nbf and exp. What such a token may do is what one of the
// emulators' form may: everything with documents, and read everything else. Not supported: role assignments, which the service keeps
// by principals.
//
// Keys are fetched when the first token comes, and again when they are old or a token names one that isn't among them, but not
// more often than [fetchPause]: strangers can't make the server ask the issuer all the time. An issuer that is away stops nothing else; keys
// that were fetched are used for a day without it.

// Issuer is who makes the AAD tokens that a server takes. The zero value is nobody.
type Issuer struct {
	// URL is the issuer's, as its tokens have it in iss; its configuration is at /.well-known/openid-configuration below
	// it. https, or http on this machine.
	URL string
	// Audiences are the values of aud that are taken. Default: https://cosmos.azure.com, which is that of Azure Cosmos DB, and
	// https://localhost.
	Audiences []string
	// Client fetches configuration and keys. Default: one of the net/http package, with a timeout.
	Client *http.Client
}

// The times of an issuer's keys.
const (
	// fetchPause is how long after an attempt to fetch keys the next one comes at least.
	fetchPause = 10 * time.Second
	// keysFresh is how long keys are used before they are fetched again, so that one that the issuer has withdrawn is forgotten.
	keysFresh = time.Hour
	// keysValid is how long they are used when they can't be fetched again.
	keysValid = 24 * time.Hour
	// fetchTimeout bounds an attempt.
	fetchTimeout = 10 * time.Second
)

// maxIssuerBody bounds what an issuer may answer, in bytes.
const maxIssuerBody = 1 << 20

// minRSA is the size of the smallest RSA key that is taken, in bits (RFC 7518, section 3.3).
const minRSA = 2048

// signatureAlgorithms are those with public keys. "none" and those with a shared secret are not among them.
var signatureAlgorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512,
}

// defaultAudiences are those that SDKs ask for: for any account, and for this machine by its name.
var defaultAudiences = []string{"https://cosmos.azure.com", "https://localhost"}

// issuer is an Issuer with its keys.
type issuer struct {
	Issuer
	logger *slog.Logger

	mu sync.Mutex // guards what follows
	// keys were fetched at fetched; attempted is the last attempt, and failure what came of it.
	keys               []jose.JSONWebKey
	fetched, attempted time.Time
	failure            error
	// underway is closed at the end of the attempt that is under way; nil: there is none.
	underway chan struct{}
}

// Validate judges whether the issuer can be asked so that its answers can be believed. The zero value is valid.
func (i Issuer) Validate() error {
	if i.URL == "" {
		if len(i.Audiences) > 0 {
			return errors.New("there are audiences, and no URL of an issuer")
		}
		return nil
	}
	u, err := url.Parse(i.URL)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || !mayAsk(u) {
		return fmt.Errorf("%q is no URL of the form https://host/path (http only on this machine)", i.URL)
	}
	if u.User != nil {
		return fmt.Errorf("%s has a user in it, who would be told to everybody whose token is refused", u.Redacted())
	}
	return nil
}

// newIssuer makes an issuer without keys. nil: there is none.
func newIssuer(o Issuer, logger *slog.Logger) (*issuer, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("Issuer: %w", err)
	}
	if o.URL == "" {
		return nil, nil
	}
	if len(o.Audiences) == 0 {
		o.Audiences = defaultAudiences
	}
	client := http.Client{}
	if o.Client != nil {
		client = *o.Client
	}
	client.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if len(via) >= 5 || !mayAsk(r.URL) {
			return fmt.Errorf("redirected to %s", r.URL.Redacted())
		}
		return nil
	}
	o.Client = &client
	return &issuer{Issuer: o, logger: logger}, nil
}

// mayAsk reports whether an answer from a URL can be believed: who is between could put keys of his own in it.
func mayAsk(u *url.URL) bool {
	if u.Scheme == "https" {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

// check judges a token at a time of the store's clock.
func (i *issuer) check(ctx context.Context, text string, now time.Time) error {
	token, err := jwt.ParseSigned(text, signatureAlgorithms)
	if err != nil || len(token.Headers) != 1 {
		return badToken("it is no JWT that is signed with a public key (RS, PS or ES): %v", err)
	}
	header := token.Headers[0]
	key, err := i.key(ctx, header.KeyID)
	if err != nil {
		return err
	}
	if key.Algorithm != "" && key.Algorithm != header.Algorithm {
		return badToken("it is signed by %s, and the issuer's key %.100q is for %s", header.Algorithm, key.KeyID, key.Algorithm)
	}
	var c jwt.Claims
	if err := token.Claims(key.Key, &c); err != nil {
		return badToken("its signature isn't one of the issuer's key %.100q, or its claims can't be read", key.KeyID)
	}
	switch {
	case !sameURL(c.Issuer, i.URL):
		return badToken("its iss is %.200q, and this server takes tokens of %s", c.Issuer, i.URL)
	case !slices.ContainsFunc(c.Audience, func(a string) bool {
		return slices.ContainsFunc(i.Audiences, func(b string) bool { return sameURL(a, b) })
	}):
		return badToken("its aud is %.200q, and this server takes %q", []string(c.Audience), i.Audiences)
	case c.Expiry == nil:
		return badToken("it has no exp")
	case c.NotBefore != nil && now.Add(tokenSlack).Before(c.NotBefore.Time()):
		return badToken("it is valid from %s on; the server's time is %s", wire.FormatTime(c.NotBefore.Time()), wire.FormatTime(now))
	case now.Add(-tokenSlack).After(c.Expiry.Time()):
		return badToken("it was valid until %s; the server's time is %s", wire.FormatTime(c.Expiry.Time()), wire.FormatTime(now))
	}
	return nil
}

// sameURL compares names that are URLs; SDKs and issuers differ in the slash at the end.
func sameURL(a, b string) bool {
	return a != "" && strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/")
}

// key finds the issuer's key of an id. A token without one is checked with the only key that there is.
func (i *issuer) key(ctx context.Context, id string) (jose.JSONWebKey, error) {
	keys, age, _ := i.known()
	key, found := pick(keys, id)
	if !found || age > keysFresh {
		if err := i.refresh(ctx); err != nil {
			return key, err
		}
		var failure error
		keys, age, failure = i.known()
		if keys == nil || age > keysValid {
			return key, unauthorized("The AAD token can't be checked, because the keys of its issuer %s can't be fetched: %v.", i.URL, failure)
		}
		key, found = pick(keys, id)
	}
	if !found {
		return key, badToken("the issuer %s has no key %.100q (keys are asked for again after %s)", i.URL, id, fetchPause)
	}
	return key, nil
}

func (i *issuer) known() (keys []jose.JSONWebKey, age time.Duration, failure error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys, time.Since(i.fetched), i.failure
}

func pick(keys []jose.JSONWebKey, id string) (jose.JSONWebKey, bool) {
	if id == "" && len(keys) == 1 {
		return keys[0], true
	}
	at := slices.IndexFunc(keys, func(k jose.JSONWebKey) bool { return k.KeyID == id && id != "" })
	if at < 0 {
		return jose.JSONWebKey{}, false
	}
	return keys[at], true
}

// refresh fetches the keys, or waits for whoever does so already; shortly after an attempt it does nothing. The error is that of ctx.
func (i *issuer) refresh(ctx context.Context) error {
	i.mu.Lock()
	underway := i.underway
	mine := underway == nil && (i.attempted.IsZero() || time.Since(i.attempted) >= fetchPause)
	if mine {
		i.attempted, i.underway = time.Now(), make(chan struct{})
	}
	i.mu.Unlock()
	if underway != nil {
		select {
		case <-underway:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if !mine {
		return nil
	}
	var keys []jose.JSONWebKey
	err := errors.New("the attempt failed")
	defer func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		close(i.underway)
		i.underway, i.failure = nil, err
		if err == nil {
			i.keys, i.fetched = keys, time.Now()
		} else if i.keys != nil {
			i.logger.Warn("the issuer's keys can't be fetched again; those from before are used", "issuer", i.URL, "error", err)
		}
	}()
	// Others wait for this attempt: it doesn't end with the request that it was begun for.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
	defer cancel()
	keys, err = i.fetch(limited)
	return nil
}

// fetch asks the issuer for its keys.
func (i *issuer) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	var configuration struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := i.get(ctx, strings.TrimSuffix(i.URL, "/")+"/.well-known/openid-configuration", &configuration); err != nil {
		return nil, err
	}
	if !sameURL(configuration.Issuer, i.URL) {
		return nil, fmt.Errorf("its configuration is that of the issuer %.200q", configuration.Issuer)
	}
	u, err := url.Parse(configuration.Keys)
	if err != nil || u.Host == "" || !mayAsk(u) {
		return nil, fmt.Errorf("its configuration has the jwks_uri %.200q, which is no https URL", configuration.Keys)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := i.get(ctx, configuration.Keys, &set); err != nil {
		return nil, err
	}
	keys := []jose.JSONWebKey{}
	for _, text := range set.Keys {
		// One that can't be read is of a kind that nobody here verifies with; the others are good.
		var key jose.JSONWebKey
		if err := key.UnmarshalJSON(text); err == nil && usable(key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("there is no key for signatures at %s", configuration.Keys)
	}
	return keys, nil
}

// usable reports whether signatures can be verified with a key.
func usable(k jose.JSONWebKey) bool {
	if !k.Valid() || !k.IsPublic() || k.Use != "" && k.Use != "sig" {
		return false
	}
	if r, ok := k.Key.(*rsa.PublicKey); ok && r.N.BitLen() < minRSA {
		return false
	}
	return true
}

// get reads a JSON document.
func (i *issuer) get(ctx context.Context, from string, into any) (err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	a, err := i.Client.Do(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Body.Close()) }()
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", from, a.Status)
	}
	body, err := io.ReadAll(io.LimitReader(a.Body, maxIssuerBody+1))
	if err != nil {
		return fmt.Errorf("GET %s: %w", from, err)
	}
	if len(body) > maxIssuerBody {
		return fmt.Errorf("GET %s: more than %d bytes", from, maxIssuerBody)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("GET %s: %w", from, err)
	}
	return nil
}

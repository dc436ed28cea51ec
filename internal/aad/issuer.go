package aad

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
)

// This file verifies AAD tokens that an OpenID Connect issuer has signed. The signature
// is verified with the issuer's key that the token names, and the claims iss, aud, nbf
// and exp are checked. Role assignments, which the service keeps for each principal, are
// not supported.
//
// The issuer's keys are fetched for the first token, when they are older than keysFresh,
// and when a token names an unknown key. At least fetchInterval passes between two
// attempts, so that invalid tokens cannot make the server call the issuer all the time.
// If the issuer is not reachable, the last keys are used for keysValid.

// Issuer is an OpenID Connect issuer whose tokens are accepted. The zero value means no
// issuer.
type Issuer struct {
	// URL is the issuer's URL as in iss. Its configuration is at
	// /.well-known/openid-configuration below it. The scheme is https, or http on this
	// machine.
	URL string
	// Audiences lists the accepted values of aud. If empty, https://cosmos.azure.com, the
	// audience of Azure Cosmos DB, and https://localhost are used.
	Audiences []string
	// Client fetches configuration and keys. If nil, a new http.Client is used. Each
	// attempt has a timeout of 10 s.
	Client *http.Client
}

// These are the limits of the times for which an issuer's keys are fetched and used.
const (
	// fetchInterval is the least time between two attempts to fetch keys.
	fetchInterval = 10 * time.Second
	// keysFresh is the age at which keys are fetched again, so that a key that the issuer
	// has withdrawn is no longer accepted.
	keysFresh = time.Hour
	// keysValid is the age up to which keys are used if fetching new ones fails.
	keysValid = 24 * time.Hour
	// fetchTimeout limits the time of one attempt to fetch keys.
	fetchTimeout = 10 * time.Second
)

// maxIssuerBody is the maximum size in bytes of an issuer's response.
const maxIssuerBody = 1 << 20

// minRSA is the size in bits of the smallest accepted RSA key (RFC 7518, section 3.3).
const minRSA = 2048

// signatureAlgorithms lists the accepted signature algorithms. All of them verify with a
// public key, so a token cannot be signed with a published key as a shared secret.
var signatureAlgorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512,
}

// defaultAudiences lists the audiences that SDKs request: one for any account, and one
// for this machine by its name.
var defaultAudiences = []string{"https://cosmos.azure.com", "https://localhost"}

// issuer is an Issuer together with the keys that were fetched from it.
type issuer struct {
	Issuer
	logger *slog.Logger
	// fetching is a semaphore: it holds a value while keys are fetched. attempted is the
	// end of the last attempt.
	fetching  chan struct{}
	attempted time.Time

	mu sync.Mutex // guards the fields below
	// keys are the keys of the last successful attempt, which ended at fetched. failure
	// is the error of the last attempt, or nil.
	keys    []jose.JSONWebKey
	fetched time.Time
	failure error
}

// Validate returns an error if responses of the issuer could not be trusted. The zero
// value is valid.
func (i Issuer) Validate() error {
	if i.URL == "" {
		if len(i.Audiences) > 0 {
			return errors.New("cannot check Audiences without the URL of an issuer")
		}
		return nil
	}
	u, err := url.Parse(i.URL)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || !isTrusted(u) {
		return fmt.Errorf("%q is not a URL of the form https://host/path (http only on this machine)", i.URL)
	}
	if u.User != nil {
		return fmt.Errorf("%s contains a user name, which the error for a refused token would reveal", u.Redacted())
	}
	return nil
}

// newIssuer returns the issuer that o describes, before its keys are fetched. It returns
// nil if o is the zero value.
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
		if len(via) >= 5 || !isTrusted(r.URL) {
			return fmt.Errorf("redirected to %s", r.URL.Redacted())
		}
		return nil
	}
	o.Client = &client
	return &issuer{Issuer: o, logger: logger, fetching: make(chan struct{}, 1)}, nil
}

// isTrusted reports whether a response from u cannot be changed on its way: u must be
// https, or http on this machine.
func isTrusted(u *url.URL) bool {
	if u.Scheme == "https" {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

// verify verifies the signature and the claims of a token at the time now. It returns the
// same errors as [Verifier.Verify].
func (i *issuer) verify(ctx context.Context, text string, now time.Time) error {
	token, err := jwt.ParseSigned(text, signatureAlgorithms)
	if err != nil || len(token.Headers) != 1 {
		return refused("it is not a JWT signed with a public key (RS, PS or ES): %v", err)
	}
	header := token.Headers[0]
	key, err := i.key(ctx, header.KeyID)
	if err != nil {
		return err
	}
	if key.Algorithm != "" && key.Algorithm != header.Algorithm {
		return refused("it is signed with %s, but the issuer's key %.100q is for %s", header.Algorithm, key.KeyID, key.Algorithm)
	}
	var c jwt.Claims
	if err := token.Claims(key.Key, &c); err != nil {
		return refused("its signature is not from the issuer's key %.100q, or its claims cannot be read", key.KeyID)
	}
	if !sameURL(c.Issuer, i.URL) {
		return refused("its iss is %.200q, and this server accepts tokens of %s", c.Issuer, i.URL)
	}
	accepted := func(a string) bool {
		return slices.ContainsFunc(i.Audiences, func(b string) bool { return sameURL(a, b) })
	}
	if !slices.ContainsFunc(c.Audience, accepted) {
		return refused("its aud is %.200q, and this server accepts %q", []string(c.Audience), i.Audiences)
	}
	return checkTimes(dateTime(c.NotBefore), dateTime(c.Expiry), now)
}

func dateTime(d *jwt.NumericDate) *time.Time {
	if d == nil {
		return nil
	}
	t := d.Time()
	return &t
}

// sameURL reports whether two texts are the same URL. A slash at the end is ignored,
// because SDKs write it and some issuers do not.
func sameURL(a, b string) bool {
	return a != "" && strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/")
}

// key returns the issuer's key with the given ID, and fetches the keys if necessary. If
// the ID is empty, the issuer must have exactly one key.
func (i *issuer) key(ctx context.Context, id string) (jose.JSONWebKey, error) {
	key, age, _ := i.cached(id)
	if key == nil || age > keysFresh {
		if err := i.refresh(ctx); err != nil {
			return jose.JSONWebKey{}, err
		}
		var failure error
		if key, age, failure = i.cached(id); age > keysValid {
			return jose.JSONWebKey{}, &TokenError{fmt.Sprintf("The AAD token can't be checked, because the keys of its issuer %s can't be fetched: %v.", i.URL, failure)}
		}
	}
	if key == nil {
		return jose.JSONWebKey{}, refused("the issuer %s has no key %.100q (keys are fetched at most every %s)", i.URL, id, fetchInterval)
	}
	return *key, nil
}

// cached returns the key with the given ID from the last fetch, or nil. It also returns
// the age of the keys and the error of the last attempt.
func (i *issuer) cached(id string) (key *jose.JSONWebKey, age time.Duration, failure error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n, k := range i.keys {
		if id == "" && len(i.keys) == 1 || id != "" && k.KeyID == id {
			key = &i.keys[n]
			break
		}
	}
	return key, time.Since(i.fetched), i.failure
}

// refresh fetches the keys. If another call is fetching them, it waits for that call
// instead. Within fetchInterval of the last attempt, it does nothing. Its only error is
// that of ctx.
func (i *issuer) refresh(ctx context.Context) error {
	select {
	case i.fetching <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-i.fetching }()
	if !i.attempted.IsZero() && time.Since(i.attempted) < fetchInterval {
		return nil
	}
	// Other requests may wait for this attempt. So it continues if the request that began
	// it ends.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
	defer cancel()
	keys, err := i.fetch(limited)
	i.attempted = time.Now()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.failure = err; err == nil {
		i.keys, i.fetched = keys, i.attempted
	} else if i.keys != nil {
		i.logger.Warn("keys of the AAD issuer not fetched; the last ones remain in use", "issuer", i.URL, "error", err)
	}
	return nil
}

// fetch reads the issuer's configuration, and then its keys from the URL in the
// configuration.
func (i *issuer) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	var configuration struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := i.get(ctx, strings.TrimSuffix(i.URL, "/")+"/.well-known/openid-configuration", &configuration); err != nil {
		return nil, err
	}
	if !sameURL(configuration.Issuer, i.URL) {
		return nil, fmt.Errorf("its configuration names the issuer %.200q", configuration.Issuer)
	}
	u, err := url.Parse(configuration.Keys)
	if err != nil || u.Host == "" || !isTrusted(u) {
		return nil, fmt.Errorf("its configuration has the jwks_uri %.200q, which is not an https URL", configuration.Keys)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := i.get(ctx, configuration.Keys, &set); err != nil {
		return nil, err
	}
	keys := []jose.JSONWebKey{}
	for _, text := range set.Keys {
		// A key of an unknown kind is skipped. Otherwise one such key would make all
		// others unusable.
		var key jose.JSONWebKey
		if err := key.UnmarshalJSON(text); err == nil && usable(key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s has no key for signatures", configuration.Keys)
	}
	return keys, nil
}

// usable reports whether k is a public key that may verify signatures, and is long
// enough.
func usable(k jose.JSONWebKey) bool {
	if !k.Valid() || !k.IsPublic() || k.Use != "" && k.Use != "sig" {
		return false
	}
	if r, ok := k.Key.(*rsa.PublicKey); ok && r.N.BitLen() < minRSA {
		return false
	}
	return true
}

// get reads the JSON document at the URL from into v.
func (i *issuer) get(ctx context.Context, from string, v any) (err error) {
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
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("GET %s: %w", from, err)
	}
	return nil
}

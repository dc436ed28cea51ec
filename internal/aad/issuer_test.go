package aad

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/changefeed-go/changefeed/internal/memnet"
	"github.com/changefeed-go/changefeed/internal/wire"
)

const testIssuer = "http://localhost:4444/tenant"

// localIssuer is an OpenID Connect issuer for tests, on a network in memory.
type localIssuer struct {
	t       *testing.T
	network memnet.Network
	client  *http.Client

	mu       sync.Mutex // guards all below
	keys     []jose.JSONWebKey
	name     string // the issuer's name in its configuration
	requests int
	away     bool
}

// newLocalIssuer starts a local issuer inside a synctest bubble. It stops when the test
// ends.
func newLocalIssuer(t *testing.T) *localIssuer {
	i := &localIssuer{t: t, name: testIssuer}
	transport := &http.Transport{DialContext: i.network.Dial, DisableKeepAlives: true}
	i.client = &http.Client{Transport: transport}
	l, err := i.network.Listen("localhost:4444")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /tenant/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.answer(w, map[string]string{"issuer": i.name, "jwks_uri": "http://localhost:4444/keys"})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		i.answer(w, jose.JSONWebKeySet{Keys: i.keys})
	})
	server := &http.Server{Handler: mux}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return i
}

func (i *localIssuer) answer(w http.ResponseWriter, v any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.requests++
	if i.away {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if err := json.NewEncoder(w).Encode(v); err != nil {
		i.t.Error(err)
	}
}

// set calls change, which changes the issuer's answers, under the issuer's lock.
func (i *localIssuer) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

// asked returns the number of requests that the issuer received since the last call of
// asked.
func (i *localIssuer) asked() (n int) {
	i.set(func() { n, i.requests = i.requests, 0 })
	return n
}

// signing is a private key for signing tokens, and the public key that the issuer
// publishes.
type signing struct {
	signer crypto.Signer
	public jose.JSONWebKey
}

func newSigning(t *testing.T, id string) signing {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signing{k, jose.JSONWebKey{Key: k.Public(), KeyID: id, Algorithm: "ES256", Use: "sig"}}
}

// token returns a JWT with the given claims, signed with the key.
func (s signing) token(t *testing.T, alg jose.SignatureAlgorithm, claims string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: s.signer}, (&jose.SignerOptions{}).WithHeader("kid", s.public.KeyID))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign([]byte(claims))
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// claimsOf returns the claims of a token that is valid at now. The members in change
// replace the valid ones; nil removes one.
func claimsOf(now time.Time, change map[string]any) string {
	c := map[string]any{
		"iss": testIssuer, "aud": "https://cosmos.azure.com", "nbf": now.Unix(), "exp": now.Add(24 * 365 * time.Hour).Unix(), "oid": "somebody",
	}
	for name, value := range change {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	b, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// withIssuer returns a local issuer, and a function that verifies a token with that
// issuer's keys.
func withIssuer(t *testing.T, audiences ...string) (*localIssuer, func(token string) outcome) {
	i := newLocalIssuer(t)
	v := newTestVerifier(t, Issuer{URL: testIssuer, Audiences: audiences, Client: i.client})
	return i, func(token string) outcome { return outcome{t, v.Verify(t.Context(), token, time.Now())} }
}

func TestIssuerTokensAreAcceptedInAllAlgorithms(t *testing.T) {
	r, err := rsa.GenerateKey(rand.Reader, minRSA)
	if err != nil {
		t.Fatal(err)
	}
	weak, err := rsa.GenerateKey(rand.Reader, minRSA/2)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		i, send := withIssuer(t)
		good := signing{r, jose.JSONWebKey{Key: r.Public(), KeyID: "rsa"}} // like Entra ID, the issuer publishes no algorithm with this key
		short := signing{weak, jose.JSONWebKey{Key: weak.Public(), KeyID: "short"}}
		ec := newSigning(t, "ec")
		secret := jose.JSONWebKey{Key: []byte("a shared secret of thirty-two or so bytes"), KeyID: "secret"}
		sealing := newSigning(t, "enc")
		sealing.public.Use = "enc"
		i.keys = []jose.JSONWebKey{secret, good.public, short.public, ec.public, sealing.public}
		claims := claimsOf(time.Now(), nil)
		for _, alg := range []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS512} {
			send(good.token(t, alg, claims)).accepted()
		}
		send(ec.token(t, jose.ES256, claims)).accepted()
		send(short.token(t, jose.RS256, claims)).refused("has no key")
		send(sealing.token(t, jose.ES256, claims)).refused("has no key")

		sign := func(head string, sig func(text string) []byte) string {
			text := base64.RawURLEncoding.EncodeToString([]byte(head)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
			return text + "." + base64.RawURLEncoding.EncodeToString(sig(text))
		}
		none := func(string) []byte { return nil }
		send(sign(`{"alg":"none","kid":"ec"}`, none)).refused("")
		send(sign(`{"alg":"ES256","kid":"ec"}`, none)).refused("")
		// The public key is used as a shared secret for this token's signature, which an
		// attacker could do, too.
		public, err := i.keys[1].MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		send(sign(`{"alg":"HS256","kid":"rsa"}`, func(text string) []byte { return wire.Key(public).Sign(text) })).refused("")
		send(sign(`{"alg":"HS256","kid":"secret"}`, func(text string) []byte { return wire.Key(secret.Key.([]byte)).Sign(text) })).refused("")
		// The header of this token names another algorithm than the key has.
		send(sign(`{"alg":"RS256","kid":"ec"}`, func(text string) []byte {
			d := sha256.Sum256([]byte(text))
			sig, err := r.Sign(rand.Reader, d[:], crypto.SHA256)
			if err != nil {
				t.Error(err)
			}
			return sig
		})).refused("")
		// The header of this token contains the key that signed it. Only the issuer's
		// keys may be used.
		own := newSigning(t, "ec")
		embedded, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: own.signer}, &jose.SignerOptions{EmbedJWK: true})
		if err != nil {
			t.Fatal(err)
		}
		signed, err := embedded.Sign([]byte(claims))
		if err != nil {
			t.Fatal(err)
		}
		text, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		send(text).refused("")
	})
}

func TestIssuerTokensAreRefusedWithReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, send := withIssuer(t, "api://shop/", "https://other")
		key, stranger := newSigning(t, "one"), newSigning(t, "one")
		i.keys = []jose.JSONWebKey{key.public}
		now := time.Now()
		of := func(name string, value any) string {
			return key.token(t, jose.ES256, claimsOf(now, map[string]any{"aud": "api://shop", name: value}))
		}
		send(of("iss", testIssuer+"/")).accepted()
		send(of("aud", []string{"else", "https://other"})).accepted()
		send(of("nbf", now.Add(clockSkew-time.Second).Unix())).accepted()
		send(of("exp", now.Add(-clockSkew+time.Second).Unix())).accepted()
		good := of("iss", testIssuer)
		for _, c := range []struct{ token, words string }{
			{of("iss", "http://localhost:4444/other"), "its iss is"},
			{of("iss", nil), "its iss is"},
			{of("aud", "https://cosmos.azure.com"), "its aud is"},
			{of("aud", nil), "its aud is"},
			{of("aud", ""), "its aud is"},
			{of("exp", nil), "no exp"},
			{of("exp", "tomorrow"), "claims cannot be read"},
			{of("exp", now.Add(-clockSkew-time.Second).Unix()), "it was valid until"},
			{of("nbf", now.Add(clockSkew+time.Second).Unix()), "it is valid from"},
			{stranger.token(t, jose.ES256, claimsOf(now, nil)), "its signature is not"},
			{newSigning(t, "two").token(t, jose.ES256, claimsOf(now, nil)), "has no key"},
			{good[:len(good)-4] + "AAAA", "its signature is not"},
			{strings.Replace(good, ".", ".e", 1), ""},
			{base64.RawURLEncoding.EncodeToString([]byte(`{}`)) + ".e30.e30", "not a JWT signed with a public key"},
		} {
			send(c.token).refused(c.words)
		}
	})
}

func TestIssuerKeysAreFetchedAgainAtAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, send := withIssuer(t)
		one, two := newSigning(t, "one"), newSigning(t, "two")
		i.keys = []jose.JSONWebKey{one.public}
		claims := claimsOf(time.Now(), nil)
		first, second := one.token(t, jose.ES256, claims), two.token(t, jose.ES256, claims)
		send(first).accepted()
		i.asked()
		for range 50 { // each token names another unknown key
			send(second).refused("has no key")
		}
		if n := i.asked(); n != 0 {
			t.Errorf("within %s of a fetch there were %d more requests", fetchInterval, n)
		}
		i.set(func() { i.keys = []jose.JSONWebKey{two.public} })
		time.Sleep(fetchInterval)
		var all sync.WaitGroup
		for range 20 { // twenty tokens at once; only one of them may fetch the keys
			all.Go(func() { send(second).accepted() })
		}
		all.Wait()
		if n := i.asked(); n != 2 {
			t.Errorf("20 tokens with a new key caused %d requests, want 2", n)
		}
		send(first).refused("")
		// After keysFresh, a withdrawn key must no longer be accepted, although no token
		// has named an unknown key.
		i.set(func() { i.keys = []jose.JSONWebKey{one.public} })
		time.Sleep(keysFresh - time.Second)
		send(second).accepted()
		time.Sleep(2 * time.Second)
		send(second).refused("")
		send(first).accepted()
	})
}

func TestUnreachableIssuerDelaysNoOtherToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, send := withIssuer(t)
		key := newSigning(t, "one")
		i.keys, i.away = []jose.JSONWebKey{key.public}, true
		token := key.token(t, jose.ES256, claimsOf(time.Now(), nil))
		for range 5 {
			send(token).refused("can't be fetched: GET " + testIssuer + "/.well-known/openid-configuration: 503")
		}
		if n := i.asked(); n != 1 {
			t.Errorf("the issuer got %d requests at once", n)
		}
		send(emulatorToken(base64.RawURLEncoding, emulatorTokenHeader, claimsAt(time.Now(), time.Now().Add(time.Hour)), wire.EmulatorKey)).accepted()
		time.Sleep(fetchInterval)
		i.set(func() { i.away = false })
		send(token).accepted()
		i.set(func() { i.away = true })
		time.Sleep(keysValid - time.Second)
		send(token).accepted()
		time.Sleep(2 * time.Second)
		send(token).refused("can't be fetched")
		i.set(func() { i.away, i.name = false, "http://localhost:4444/other" })
		time.Sleep(fetchInterval)
		send(token).refused("names the issuer")
	})
}

func TestSilentIssuerDelaysATokenForABoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, context.Cause(r.Context())
		})}
		v := newTestVerifier(t, Issuer{URL: testIssuer, Client: hanging})
		token := newSigning(t, "one").token(t, jose.ES256, claimsOf(time.Now(), nil))
		began := time.Now()
		outcome{t, v.Verify(t.Context(), token, began)}.refused("deadline")
		if took := time.Since(began); took != fetchTimeout {
			t.Errorf("the token was refused after %s", took)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestInsecureIssuersAreRefused(t *testing.T) {
	for _, o := range []Issuer{
		{URL: "http://login.example.com/tenant"},
		{URL: "login.example.com"},
		{URL: "ftp://localhost/"},
		{URL: "https://"},
		{URL: "https://a/?b"},
		{Audiences: []string{"https://cosmos.azure.com"}},
	} {
		if _, err := newIssuer(o, nil); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	// The error for an untrusted URL must not show a password in the URL, because anybody
	// may read it.
	if _, err := newIssuer(Issuer{URL: "https://ada:secret@login.example.com/"}, nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a URL with a password: %v", err)
	}
	// The issuer's configuration or a redirection names an http URL. The server must not
	// read keys from there.
	for what, keys := range map[string]string{"keys": "http://login.example.com/keys", "a redirection": "http://localhost:4444/redirect"} {
		asked := false
		i, err := newIssuer(Issuer{URL: testIssuer, Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			asked = asked || r.URL.Host != "localhost:4444"
			a := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r}
			text := fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, testIssuer, keys)
			if strings.HasSuffix(r.URL.Path, "/redirect") {
				a.StatusCode = http.StatusFound
				a.Header.Set("Location", "http://login.example.com/keys")
			}
			a.Body = http.NoBody
			if a.StatusCode == http.StatusOK {
				a.Body = io.NopCloser(strings.NewReader(text))
			}
			return a, nil
		})}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.fetch(t.Context()); err == nil || asked {
			t.Errorf("%s: %v, asked elsewhere: %v", what, err, asked)
		}
	}
}

package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// A server with --aad-issuer accepts the tokens of that issuer. It must start even if the
// issuer cannot be reached at first.
func TestServedTokensAreThoseOfTheIssuerOfTheFlags(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	issuer := httptest.NewUnstartedServer(mux)
	name := "http://" + issuer.Listener.Addr().String()
	for path, answer := range map[string]any{
		"/.well-known/openid-configuration": map[string]string{"issuer": name, "jwks_uri": name + "/keys"},
		"/keys":                             jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: private.Public(), KeyID: "one"}}},
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if err := json.NewEncoder(w).Encode(answer); err != nil {
				t.Error(err)
			}
		})
	}
	r := start(t, Config{TLS: plain, AADIssuer: name, AADAudiences: []string{"api://shop"}})
	if status, body := r.get(r.values["endpoint"]); status != http.StatusOK {
		t.Errorf("by the account's key: %d %s", status, body)
	}
	issuer.Start()
	defer issuer.Close()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: private}, (&jose.SignerOptions{}).WithHeader("kid", "one"))
	if err != nil {
		t.Fatal(err)
	}
	for audience, want := range map[string]int{"api://shop": http.StatusOK, "https://cosmos.azure.com": http.StatusUnauthorized} {
		token, err := jwt.Signed(signer).Claims(jwt.Claims{
			Issuer: name, Audience: jwt.Audience{audience}, Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour)),
		}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.values["endpoint"]+"dbs", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "type=aad&ver=1.0&sig="+token)
		a, err := r.client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(a.Body)
		if err := errors.Join(err, a.Body.Close()); err != nil || a.StatusCode != want {
			t.Errorf("a token for %s: %d %s, %v", audience, a.StatusCode, body, err)
		}
	}
}

func TestUntrustworthyIssuersAreRefusedAtTheStart(t *testing.T) {
	for _, c := range []Config{{AADIssuer: "http://login.example.com/"}, {AADAudiences: []string{"https://cosmos.azure.com"}}} {
		c.TLS, c.Listen, c.Partitions, c.Out, c.Log = plain, "127.0.0.1:0", 1, io.Discard, io.Discard
		if err := Run(t.Context(), c); !errors.As(err, new(*ConfigError)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

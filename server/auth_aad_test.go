package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/changefeed-go/changefeed/internal/wire"
)

const emulatorTokenHeader = `{"typ":"JWT","alg":"RS256","x5t":"CosmosEmulatorPrimaryMaster","kid":"CosmosEmulatorPrimaryMaster"}`

// emulatorToken returns a token like those in the SDKs' tests against an emulator:
// header, claims and account key in base64, joined by dots.
func emulatorToken(e *base64.Encoding, header, claims, key string) string {
	return e.EncodeToString([]byte(header)) + "." + e.EncodeToString([]byte(claims)) + "." + e.EncodeToString([]byte(key))
}

func claimsAt(from, until time.Time) string {
	return fmt.Sprintf(`{"aud":"https://localhost.localhost","iss":"https://sts.fake-issuer.net/7b1999a1-dfd7-440e-8204-00170979b984",`+
		`"iat":%d,"nbf":%d,"exp":%d,"appid":"localhost","scp":"user_impersonation"}`, from.Unix(), from.Unix(), until.Unix())
}

func (ts *testServer) withToken(method, path, authorization string, h headers, body string) response {
	ts.t.Helper()
	h = h.with("Authorization", authorization)
	return ts.do(method, path, h, body)
}

func TestEmulatorTokensAreAcceptedInEveryFormThatSDKsWrite(t *testing.T) {
	ts := newTestServer(t, Options{})
	now := ts.db.Now()
	claims := claimsAt(now, now.Add(2*time.Hour))
	for name, token := range map[string]string{
		"Go, Python, Java": emulatorToken(base64.RawURLEncoding, emulatorTokenHeader, claims, wire.EmulatorKey),
		".NET":             emulatorToken(base64.StdEncoding, emulatorTokenHeader, claims, wire.EmulatorKey),
		"Rust":             emulatorToken(base64.RawURLEncoding, emulatorTokenHeader, claimsAt(now.Add(-5*time.Minute), now.Add(time.Hour)), wire.EmulatorKey),
	} {
		plain := "type=aad&ver=1.0&sig=" + token
		for _, header := range []string{plain, url.QueryEscape(plain), strings.ReplaceAll(url.PathEscape(plain), "&", "%26")} {
			if a := ts.withToken("GET", "/dbs", header, headers{wire.HeaderDate: ""}, ""); a.status != http.StatusOK {
				t.Errorf("%s: %q is answered with %d %s", name, header, a.status, a.body)
			}
		}
	}
}

func TestTokensOfOtherKindsAreRefusedByName(t *testing.T) {
	ts := newTestServer(t, Options{ReadOnlyKeys: []string{"cmVhZGVy"}})
	now := ts.db.Now()
	for want, token := range map[string]string{
		"three parts": "a.b",
		// The third part of an emulator token must be a key that may write. This one is a
		// read-only key.
		"not the account's key": emulatorToken(base64.RawURLEncoding, emulatorTokenHeader, claimsAt(now, now.Add(time.Hour)), "cmVhZGVy"),
	} {
		ts.withToken("GET", "/dbs", "type=aad&ver=1.0&sig="+token, nil, "").want(http.StatusUnauthorized).wantBody(want)
	}
	ts.withToken("GET", "/dbs", "type=resource&ver=1&sig=abc", nil, "").want(http.StatusUnauthorized).wantBody("SIGNATURE;CLAIMS;")
	ts.withToken("GET", "/dbs", "type=other&ver=1&sig=abc", nil, "").want(http.StatusUnauthorized).wantBody(`\"other\"`)
}

func TestEmulatorTokenExpiresByTheStoresClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{})
		now := ts.db.Now()
		header := "type=aad&ver=1.0&sig=" + emulatorToken(base64.RawURLEncoding, emulatorTokenHeader, claimsAt(now, now.Add(time.Hour)), wire.EmulatorKey)
		time.Sleep(time.Hour + 5*time.Minute - time.Second)
		ts.withToken("GET", "/dbs", header, nil, "").want(http.StatusOK)
		time.Sleep(2 * time.Second)
		ts.withToken("GET", "/dbs", header, nil, "").want(http.StatusUnauthorized)
	})
}

func TestEmulatorTokenWritesDocumentsAndManagesNothing(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	now := ts.db.Now()
	header := "type=aad&ver=1.0&sig=" + emulatorToken(base64.RawURLEncoding, emulatorTokenHeader, claimsAt(now, now.Add(time.Hour)), wire.EmulatorKey)
	ts.withToken("POST", orders+"/docs", header, pk(`["ada"]`), `{"id":"1","pk":"ada"}`).want(http.StatusCreated)
	ts.withToken("GET", orders+"/docs/1", header, pk(`["ada"]`), "").want(http.StatusOK)
	ts.withToken("POST", orders+"/docs", header, pk(`["ada"]`).with(wire.HeaderBatch, "true").with(wire.HeaderBatchAtomic, "true"),
		`[{"operationType":"Upsert","resourceBody":{"id":"2","pk":"ada"}}]`).want(http.StatusOK)
	ts.withToken("GET", orders, header, nil, "").want(http.StatusOK)
	ts.withToken("POST", "/dbs", header, nil, `{"id":"other"}`).want(http.StatusForbidden, wire.SubRBACDenied)
	ts.withToken("DELETE", orders, header, nil, "").want(http.StatusForbidden, wire.SubRBACDenied)
}

// FuzzAuthorizationWithoutTheKeyIsRefused sends random Authorization headers that do not
// contain the account key. Each must be answered 401.
func FuzzAuthorizationWithoutTheKeyIsRefused(f *testing.F) {
	ts := newTestServer(f, Options{})
	now := ts.db.Now()
	good := claimsAt(now, now.Add(time.Hour))
	f.Add("type=aad&ver=1.0&sig=" + emulatorToken(base64.RawURLEncoding, emulatorTokenHeader, good, "b3RoZXI="))
	f.Add("type=aad&ver=1.0&sig=" + emulatorToken(base64.RawURLEncoding, emulatorTokenHeader, good, ""))
	f.Add("type%3Dmaster%26ver%3D1.0%26sig%3Da%2Bb%2Fc%3D%3D")
	f.Add("type=master&ver=1.0&sig=")
	f.Add("type=resource&ver=1&sig=a;b")
	f.Add("%zz")
	f.Fuzz(func(t *testing.T, header string) {
		if strings.Contains(header, wire.EmulatorKey[:20]) {
			t.Skip("it has the key")
		}
		inner := *ts
		inner.t = t
		r := inner.request("GET", "/dbs", headers{"Authorization": "x"}, "")
		r.Header.Set("Authorization", header)
		w := httptest.NewRecorder()
		ts.ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized {
			t.Errorf("%q is answered %d, want 401", header, w.Code)
		}
	})
}

// issuerTransport is an http.RoundTripper that answers as an OpenID Connect issuer with
// the given keys.
type issuerTransport struct{ keys jose.JSONWebKeySet }

func (i issuerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	var body any = i.keys
	if strings.HasSuffix(r.URL.Path, "/openid-configuration") {
		body = map[string]string{"issuer": "https://login.test/tenant", "jwks_uri": "https://login.test/keys"}
	}
	err := json.NewEncoder(w).Encode(body)
	return w.Result(), err
}

func TestTokensOfAnIssuerWriteDocumentsAndManageNothing(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	network := issuerTransport{jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "one"}}}}
	ts := newTestServer(t, Options{Issuer: Issuer{URL: "https://login.test/tenant", Client: &http.Client{Transport: network}}}).withOrders()
	now := ts.db.Now()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "one"))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(fmt.Appendf(nil, `{"iss":"https://login.test/tenant","aud":"https://cosmos.azure.com","exp":%d}`, now.Add(time.Hour).Unix()))
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	header := "type=aad&ver=1.0&sig=" + token
	ts.withToken("GET", "/dbs", header, nil, "").want(200)
	ts.withToken("POST", orders+"/docs", header, pk(`["p"]`), `{"id":"1","pk":"p"}`).want(201)
	ts.withToken("DELETE", orders, header, nil, "").want(403, wire.SubRBACDenied)
	ts.withToken("POST", "/dbs/shop/users", header, nil, `{"id":"ada"}`).want(403, wire.SubRBACDenied)
	ts.withToken("GET", "/dbs/shop/users/ada/permissions", header, nil, "").want(403, wire.SubRBACDenied)
	// With an issuer configured, tokens in the emulators' form are still accepted.
	emulators := emulatorToken(base64.RawURLEncoding, emulatorTokenHeader, claimsAt(now, now.Add(time.Hour)), wire.EmulatorKey)
	ts.withToken("GET", "/dbs", "type=aad&ver=1.0&sig="+emulators, nil, "").want(200)
	ts.withToken("GET", "/dbs", header[:len(header)-8], nil, "").want(401)
}

package aad

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/changefeed-go/changefeed/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTestVerifier(t *testing.T, i Issuer) *Verifier {
	t.Helper()
	key, err := wire.ParseKey(wire.EmulatorKey)
	if err != nil {
		t.Fatal(err)
	}
	v, err := NewVerifier(i, []wire.Key{key}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// outcome is the result of verifying one token: err is nil if the token was accepted.
type outcome struct {
	t   *testing.T
	err error
}

func (o outcome) accepted() {
	o.t.Helper()
	if o.err != nil {
		o.t.Errorf("the token is refused: %v", o.err)
	}
}

// refused fails the test unless the token was refused with a reason that contains words.
func (o outcome) refused(words string) {
	o.t.Helper()
	var refusal *TokenError
	if !errors.As(o.err, &refusal) || !strings.Contains(refusal.Error(), words) {
		o.t.Errorf("the error is %v, not a refusal with %q", o.err, words)
	}
}

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

func TestEmulatorTokensAreRefusedWithReason(t *testing.T) {
	v := newTestVerifier(t, Issuer{})
	now := time.Now()
	e, good := base64.RawURLEncoding, claimsAt(now, now.Add(time.Hour))
	outcome{t, v.Verify(t.Context(), emulatorToken(e, emulatorTokenHeader, good, wire.EmulatorKey), now)}.accepted()
	for want, token := range map[string]string{
		"three parts":           "a.b",
		"part 2 is not base64":  "e30.!.e30",
		"header is not a JSON":  emulatorToken(e, "x", good, wire.EmulatorKey),
		"not those of Entra ID": emulatorToken(e, `{"typ":"JWT","alg":"RS256","kid":"abc"}`, good, wire.EmulatorKey),
		"not the account's key": emulatorToken(e, emulatorTokenHeader, good, "b3RoZXI="),
		"is not the account":    emulatorToken(e, emulatorTokenHeader, good, "cmVhZGVy"),
		"claims are not a JSON": emulatorToken(e, emulatorTokenHeader, `{"nbf":"1"}`, wire.EmulatorKey),
		"no exp":                emulatorToken(e, emulatorTokenHeader, `{}`, wire.EmulatorKey),
		"valid from":            emulatorToken(e, emulatorTokenHeader, claimsAt(now.Add(time.Hour), now.Add(2*time.Hour)), wire.EmulatorKey),
		"valid until":           emulatorToken(e, emulatorTokenHeader, claimsAt(now.Add(-2*time.Hour), now.Add(-time.Hour)), wire.EmulatorKey),
		"server's time":         emulatorToken(e, emulatorTokenHeader, `{"nbf":1e300,"exp":1e300}`, wire.EmulatorKey),
	} {
		outcome{t, v.Verify(t.Context(), token, now)}.refused(want)
	}
}

func TestEmulatorTokensExpire(t *testing.T) {
	v := newTestVerifier(t, Issuer{})
	now := time.Now()
	token := emulatorToken(base64.RawURLEncoding, emulatorTokenHeader, claimsAt(now, now.Add(time.Hour)), wire.EmulatorKey)
	outcome{t, v.Verify(t.Context(), token, now.Add(time.Hour+clockSkew-time.Second))}.accepted()
	outcome{t, v.Verify(t.Context(), token, now.Add(time.Hour+clockSkew+time.Second))}.refused("it was valid until")
}

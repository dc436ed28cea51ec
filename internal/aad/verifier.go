// Package aad verifies AAD tokens of two forms: the form that the local emulators accept,
// and JWTs that an OpenID Connect issuer such as Microsoft Entra ID signed.
//
// [NewVerifier] returns a [Verifier] for the keys of an account and an optional [Issuer].
// [Verifier.Verify] verifies one token, and returns a [TokenError] with the reason if it
// refuses the token. A Verifier fetches the keys of its issuer when it needs them.
package aad

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// emulatorKeyID is the name of the account key in the header of an emulator's token.
const emulatorKeyID = "CosmosEmulatorPrimaryMaster"

// clockSkew is the accepted difference between the server's clock and the clock of the
// token's issuer.
const clockSkew = 5 * time.Minute

// Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct {
	// keys holds the SHA-256 digest of each account key's base64 text.
	keys [][sha256.Size]byte
	// issuer verifies signed tokens. It is nil if only tokens in the emulators' form are
	// accepted.
	issuer *issuer
}

// TokenError is the error of a token that is not accepted. Its text is the reason.
type TokenError struct{ message string }

func (e *TokenError) Error() string { return e.message }

func refused(format string, args ...any) error {
	return &TokenError{"The AAD token is refused: " + fmt.Sprintf(format, args...) + "."}
}

// NewVerifier returns a verifier for an account with the given keys. The zero Issuer
// means no issuer. It returns an error if [Issuer.Validate] returns one.
func NewVerifier(i Issuer, keys []wire.Key, logger *slog.Logger) (*Verifier, error) {
	v := &Verifier{}
	for _, k := range keys {
		v.keys = append(v.keys, sha256.Sum256([]byte(base64.StdEncoding.EncodeToString(k))))
	}
	var err error
	v.issuer, err = newIssuer(i, logger)
	return v, err
}

// Verify returns nil if the token is valid at the time now. It returns a *[TokenError]
// with the reason if the token is refused, or the error of ctx.
//
// A token in the emulators' form is a JWT, as in the SDKs' tests. Its header names the
// key "CosmosEmulatorPrimaryMaster". Its third part is not a signature, but the base64 of
// the account key's text. SDKs write the parts in either alphabet of base64, with or
// without padding.
func (v *Verifier) Verify(ctx context.Context, token string, now time.Time) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return refused("it does not have the three parts of a JWT")
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		if decoded[i], err = decodeBase64(part); err != nil {
			return refused("its part %d is not base64", i+1)
		}
	}
	var header struct{ Kid, X5T string }
	if err := json.Unmarshal(decoded[0], &header); err != nil {
		return refused("its header is not a JSON object")
	}
	if header.Kid != emulatorKeyID && header.X5T != emulatorKeyID {
		if v.issuer == nil {
			return refused("this server accepts only tokens in the emulators' form, which name the key %s, and not those of Entra ID; "+
				"use the account key or the emulator's credential, or give the server an issuer (changefeed serve --aad-issuer)", emulatorKeyID)
		}
		return v.issuer.verify(ctx, token, now)
	}
	if !v.isKey(decoded[2]) {
		return refused("its third part is not the account's key")
	}
	var claims struct{ Nbf, Exp *float64 }
	if err := json.Unmarshal(decoded[1], &claims); err != nil {
		return refused("its claims are not a JSON object, or nbf or exp is not a number")
	}
	return checkTimes(claimTime(claims.Nbf), claimTime(claims.Exp), now)
}

// checkTimes returns an error unless now is between from (the claim nbf) and until (the
// claim exp), with clockSkew. A nil time means that the claim is missing.
func checkTimes(from, until *time.Time, now time.Time) error {
	switch {
	case until == nil:
		return refused("it has no exp")
	case from != nil && now.Add(clockSkew).Before(*from):
		return refused("it is valid from %s; the server's time is %s", wire.FormatTime(*from), wire.FormatTime(now))
	case now.Add(-clockSkew).After(*until):
		return refused("it was valid until %s; the server's time is %s", wire.FormatTime(*until), wire.FormatTime(now))
	}
	return nil
}

// decodeBase64 decodes base64 in the standard or the URL alphabet, with or without
// padding.
func decodeBase64(s string) ([]byte, error) {
	s = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(s, "="))
	return base64.RawStdEncoding.DecodeString(s)
}

// isKey reports whether text is the base64 of an account key. It compares all keys in
// constant time.
func (v *Verifier) isKey(text []byte) bool {
	given, found := sha256.Sum256(text), 0
	for i := range v.keys {
		found |= subtle.ConstantTimeCompare(given[:], v.keys[i][:])
	}
	return found == 1
}

// claimTime converts the Unix time in a claim, in seconds and possibly with a fraction.
// It returns nil for a missing claim. It clamps the time to the years 1970 to 9999.
func claimTime(seconds *float64) *time.Time {
	if seconds == nil {
		return nil
	}
	const last = 253402300799 // the last second of the year 9999
	t := time.Unix(int64(math.Min(math.Max(*seconds, 0), last)), 0)
	return &t
}

package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// AAD tokens in the form that the local emulators take, as the test credentials of the SDKs make it:
// a JWT whose header names the key "CosmosEmulatorPrimaryMaster" and whose third part is, in place of a signature, the
// base64 of the account key's text. The claims say how long it is valid. SDKs write the parts
// in either alphabet of base64, with padding and without.
//
// Tokens that name another key are those of an issuer, see issuer.go. Not supported: roles. A
// token may do everything with documents and read everything else, as with the service, where databases, containers and
// throughput are managed elsewhere.

// emulatorKeyID is the name of the account key in a token's header.
const emulatorKeyID = "CosmosEmulatorPrimaryMaster"

// tokenSlack is how far the clocks of a token's maker and the server may be apart.
const tokenSlack = 5 * time.Minute

// authorizeToken checks a token.
func (s *Server) authorizeToken(x *exchange, token wire.Token) (grant, error) {
	parts := strings.Split(token.Signature, ".")
	if len(parts) != 3 {
		return 0, badToken("it has not the three parts of a JWT")
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		if decoded[i], err = decodeToken(part); err != nil {
			return 0, badToken("its part %d is no base64", i+1)
		}
	}
	var header struct{ Kid, X5T string }
	if err := json.Unmarshal(decoded[0], &header); err != nil {
		return 0, badToken("its header is no JSON object")
	}
	if header.Kid != emulatorKeyID && header.X5T != emulatorKeyID {
		if s.issuer == nil {
			return 0, badToken("this server takes tokens of the emulators' form only, which name the key %s, and none of Entra ID: "+
				"use the account key or the emulator's credential, or give the server an issuer (changefeed serve --aad-issuer)", emulatorKeyID)
		}
		return documentsOnly, s.issuer.check(x.r.Context(), token.Signature, s.db.Now())
	}
	if !s.isKeyText(decoded[2]) {
		return 0, badToken("its third part is not the account's key")
	}
	var claims struct{ Nbf, Exp *float64 }
	if err := json.Unmarshal(decoded[1], &claims); err != nil {
		return 0, badToken("its claims are no JSON object, or nbf and exp are no numbers")
	}
	if claims.Exp == nil {
		return 0, badToken("it has no exp")
	}
	now := s.db.Now()
	if claims.Nbf != nil && now.Add(tokenSlack).Before(tokenTime(*claims.Nbf)) {
		return 0, badToken("it is valid from %s on; the server's time is %s", wire.FormatTime(tokenTime(*claims.Nbf)), wire.FormatTime(now))
	}
	if now.Add(-tokenSlack).After(tokenTime(*claims.Exp)) {
		return 0, badToken("it was valid until %s; the server's time is %s", wire.FormatTime(tokenTime(*claims.Exp)), wire.FormatTime(now))
	}
	return documentsOnly, nil
}

func badToken(format string, args ...any) error {
	return failure(http.StatusUnauthorized, wire.SubNone, "The AAD token is refused: "+format+".", args...)
}

// decodeToken decodes base64 of either alphabet, with padding or without.
func decodeToken(s string) ([]byte, error) {
	s = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(s, "="))
	return base64.RawStdEncoding.DecodeString(s)
}

// isKeyText reports whether a text is that of an account key that may write. The time it takes says nothing of the keys.
func (s *Server) isKeyText(text []byte) bool {
	given, found := sha256.Sum256(text), 0
	for _, k := range s.keys {
		if k.grant != readWrite {
			continue
		}
		key := sha256.Sum256([]byte(base64.StdEncoding.EncodeToString(k.key)))
		found |= subtle.ConstantTimeCompare(given[:], key[:])
	}
	return found == 1
}

// tokenTime is a time of a claim: seconds since 1970, perhaps with a fraction. It is bounded to the years that have four digits.
func tokenTime(seconds float64) time.Time {
	const last = 253402300799 // the last second of the year 9999
	return time.Unix(int64(math.Min(math.Max(seconds, 0), last)), 0)
}

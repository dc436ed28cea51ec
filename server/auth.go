package server

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// grant is the set of operations that a credential (a key or a token) permits.
type grant int

const (
	readOnly grant = iota + 1
	// documentsOnly permits reading every resource and writing documents. AAD tokens have
	// it.
	documentsOnly
	readWrite
)

// permits returns nil if the credential permits the operation of route r. Otherwise it
// returns a 403 error with the reason.
func (g grant) permits(x *request, r route) error {
	switch {
	case x.allowed != nil:
		return x.allowed.permits(x, r)
	case !r.writes || g == readWrite:
		return nil
	case g == documentsOnly && x.path.Type() == "docs":
		return nil
	case g == documentsOnly:
		return failure(http.StatusForbidden, wire.SubRBACDenied, "an AAD token may not %s: databases, containers and throughput are managed with the account key", r.op)
	}
	return forbidden("the key that signed the request may only read, but %s writes", r.op)
}

type grantedKey struct {
	key      wire.Key
	verifier *wire.Verifier
	grant    grant
}

func grantKeys(keys, readers []string) ([]grantedKey, error) {
	var all []grantedKey
	for i, text := range slices.Concat(keys, readers) {
		kind, granted := "key", readWrite
		if i >= len(keys) {
			kind, granted = "read-only key", readOnly
		}
		key, err := wire.ParseKey(text)
		if err != nil {
			return nil, fmt.Errorf("cannot use a %s: %w", kind, err)
		}
		all = append(all, grantedKey{key, wire.NewVerifier(key), granted})
	}
	return all, nil
}

// errNoAuthorization is the answer to a request without an Authorization header.
var errNoAuthorization = unauthorized("Required Header authorization is missing. Ensure a valid Authorization token is passed.")

// clockWindow is the largest accepted difference between the date in a signed request and
// the server's clock, in either direction.
const clockWindow = 15 * time.Minute

// authorize verifies the credential in the Authorization header and returns its grant.
func (s *Server) authorize(x *request) (grant, error) {
	header := x.header("Authorization")
	if header == "" {
		return 0, errNoAuthorization
	}
	token, err := wire.ParseAuthorization(header)
	if err != nil {
		return 0, unauthorized("Cannot read the authorization header: %v.", err)
	}
	var g grant
	switch token.Type {
	case "master":
		g, err = s.authorizeSigned(x, token)
	case "aad":
		// The roles in an AAD token are ignored. Every valid AAD token has the same
		// grant.
		g, err = documentsOnly, s.tokens.Verify(x.r.Context(), token.Signature, s.timeOfOthers())
	case "resource":
		g, err = s.authorizeResource(x, token)
	default:
		return 0, unauthorized("Authorization of type %q is not supported by this server. The types are master, resource and aad.", token.Type)
	}
	if err != nil {
		return 0, err
	}
	x.grant = g
	return g, nil
}

// authorizeSigned verifies a request that is signed with an account key, and the date in
// the signed text.
func (s *Server) authorizeSigned(x *request, token wire.Token) (grant, error) {
	date := x.header(wire.HeaderDate)
	if date == "" {
		date = x.header("Date")
	}
	if date == "" {
		return 0, unauthorized("The request has no date. Send the time in the header x-ms-date.")
	}
	at, err := wire.ParseTime(date)
	if err != nil {
		return 0, unauthorized("Cannot read the date of the request: %v.", err)
	}
	g, err := s.authorizeKey(x, token)
	if err != nil {
		return 0, err
	}
	// The date is checked after the signature, so that a client without a key learns
	// nothing about the clock.
	//
	// The date may match the store's clock or the wall clock. The store's clock never
	// goes back, so it stays ahead if the wall clock was once set ahead. Clients then
	// send dates by the wall clock.
	if now := s.db.Now(); !inWindow(at, now) && !inWindow(at, time.Now()) {
		return 0, forbidden("The authorization token is not valid at the current time. Token time: %s, server time: %s; they may be %s apart.",
			wire.FormatTime(at), wire.FormatTime(now), clockWindow)
	}
	return g, nil
}

// timeOfOthers returns the time by which to judge what another party has dated. That is
// the store's clock, unless the wall clock was once ahead: the store's clock never goes
// back, and every new AAD token would count as expired.
func (s *Server) timeOfOthers() time.Time {
	now, wall := s.db.Now(), time.Now()
	if now.Sub(wall) > clockWindow {
		return wall
	}
	return now
}

// inWindow reports whether date and now differ by at most clockWindow.
func inWindow(date, now time.Time) bool { return date.Sub(now).Abs() <= clockWindow }

// authorizeKey finds the account key that made the signature of a request, and returns
// the grant of that key. A path can have several resource links, so it tries every key
// with every link.
//
// Each comparison takes constant time. The search stops at the first match, which reveals
// nothing about other keys to the signer. Keys that may write are tried first.
func (s *Server) authorizeKey(x *request, token wire.Token) (grant, error) {
	sig, err := base64.StdEncoding.DecodeString(token.Signature)
	if err != nil {
		return 0, unauthorized("The signature is not base64.")
	}
	kind, links := x.signed()
	payload := make([]byte, 0, 256)
	for _, link := range links {
		payload = wire.AppendPayload(payload[:0], x.r.Method, kind, link, x.header(wire.HeaderDate), x.header("Date"))
		for i, k := range s.keys {
			if k.verifier.Verify(payload, sig) {
				x.signer = signer{key: i + 1}
				return k.grant, nil
			}
		}
	}
	expected := wire.Payload(x.r.Method, kind, links[0], x.header(wire.HeaderDate), x.header("Date"))
	return 0, unauthorized("The input authorization token can't serve the request. The wrong key is being used or the expected payload is not built "+
		"as per the protocol. Server used the following payload to sign: '%s'", strings.ReplaceAll(expected, "\n", `\n`))
}

// signed returns the resource type that the signature of the request must cover, and the
// resource links of which it may cover any one.
func (x *request) signed() (kind string, links []string) {
	if x.kind != "" {
		return x.kind, x.links
	}
	return x.path.SignedType(), x.path.Links()
}

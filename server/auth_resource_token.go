package server

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// This file makes and verifies resource tokens. A token has the form
// type=resource&ver=1&sig=<signature>;<claims>; with both parts in base64. The claims
// name a permission and the time in which the token is valid. The account key makes the
// signature.
//
// Each request reads the permission of its token. So a deleted permission makes its
// tokens invalid. A replaced permission can take rights from older tokens, but never adds
// any. The token keeps its resource. It permits writes only if the permission has the
// mode All and had it when the token was made.
//
// A request with a token needs no other signature and no date.

// claims is the signed content of a resource token. Its fields are encoded in this order,
// in big-endian byte order.
type claims struct {
	Version uint8
	// Database is the rid of the database. User and Permission are the numbers of the
	// user and the permission in the store.
	Database         [4]byte
	User, Permission uint32
	// All is 1 if the permission had the mode All when the token was made, and 0 for
	// Read.
	All uint8
	// From and Until are the times between which the token is valid, as Unix times in
	// seconds.
	From, Until int64
	// Resource is the hash of the resource that the permission had when the token was
	// made.
	Resource [8]byte
}

const (
	claimsVersion = 1
	// tokenDomain is prepended to the claims before they are signed. The signed text of a
	// request begins with an HTTP method instead. So the signature of a token can never
	// be used as the signature of a request.
	tokenDomain = "a resource token of changefeed\n"
)

// encode returns the bytes of the claims, which are signed and sent.
func (c claims) encode() []byte {
	b, _ := binary.Append(nil, binary.BigEndian, c) // the struct has a fixed size
	return b
}

func decodeClaims(b []byte) (c claims, ok bool) {
	n, err := binary.Decode(b, binary.BigEndian, &c)
	return c, err == nil && n == len(b) && c.Version == claimsVersion && c.All <= 1
}

// makeToken returns a new resource token for the permission p of the user u. The token is
// valid from now on for the time life. The first account key signs it.
func (s *Server) makeToken(u *user, p permission, life time.Duration) string {
	now := s.db.Now()
	c := claims{
		Version: claimsVersion, User: u.record.Number, Permission: p.Number,
		From: now.Unix(), Until: now.Add(life).Unix(), Resource: p.Permitted.digest(),
	}
	copy(c.Database[:], ridBytes(u.database.RID))
	if p.All {
		c.All = 1
	}
	return s.signClaims(c)
}

// signClaims returns the resource token that consists of the claims c and their
// signature.
func (s *Server) signClaims(c claims) string {
	b := c.encode()
	sig := s.keys[0].key.Sign(tokenDomain + string(b))
	return "type=resource&ver=1&sig=" + base64.StdEncoding.EncodeToString(sig) + ";" + base64.StdEncoding.EncodeToString(b) + ";"
}

// parseToken returns the claims in the text after "sig=" of a resource token. It returns
// an error unless an account key made the signature.
func (s *Server) parseToken(signature string) (claims, error) {
	parts := strings.Split(signature, ";")
	if len(parts) != 3 || parts[2] != "" {
		return claims{}, badResourceToken("it does not have the form type=resource&ver=1&sig=SIGNATURE;CLAIMS;")
	}
	sig, err := base64.StdEncoding.DecodeString(parts[0])
	if err != nil {
		return claims{}, badResourceToken("its signature is not base64")
	}
	b, err := base64.StdEncoding.DecodeString(parts[1])
	if err != nil {
		return claims{}, badResourceToken("its claims are not base64")
	}
	for _, k := range s.keys {
		if k.grant == readWrite && hmac.Equal(k.key.Sign(tokenDomain+string(b)), sig) {
			if c, ok := decodeClaims(b); ok {
				return c, nil
			}
		}
	}
	return claims{}, badResourceToken("it was changed, or was not made with a key of this account")
}

func badResourceToken(format string, args ...any) error {
	return unauthorized("The resource token is refused: "+format+".", args...)
}

// allowance is the access of a request that has a resource token: the resource, and
// whether writes are permitted.
type allowance struct {
	permitted permittedResource
	all       bool
}

// authorizeResource verifies the resource token of a request. It sets x.allowed, which
// later checks the operation and its keys.
func (s *Server) authorizeResource(x *request, token wire.Token) (grant, error) {
	c, err := s.parseToken(token.Signature)
	if err != nil {
		return 0, err
	}
	if now := s.db.Now(); now.Unix() >= c.Until {
		return 0, forbidden("The authorization token is not valid at the current time. Please create another token and retry "+
			"(token start time: %s, token end time: %s, current server time: %s).", wire.FormatTime(time.Unix(c.From, 0)), wire.FormatTime(time.Unix(c.Until, 0)), wire.FormatTime(now))
	}
	p, err := s.permissionOf(x, c)
	if errors.Is(err, feed.ErrNotFound) {
		return 0, forbidden("The resource token's permission was deleted, or its user or database was.")
	}
	if err != nil {
		return 0, err
	}
	if p.Permitted.digest() != c.Resource {
		return 0, forbidden("The resource token's permission %s was changed to another resource after the token was made. Read the permission again for a new token.", p.ID)
	}
	x.signer = signer{database: c.Database, user: c.User, permission: c.Permission}
	x.allowed = &allowance{permitted: p.Permitted, all: p.All && c.All == 1}
	if x.allowed.all {
		return readWrite, nil
	}
	return readOnly, nil
}

// permissionOf returns the permission that the claims of a token name. It returns an
// error if the permission no longer exists.
func (s *Server) permissionOf(x *request, c claims) (permission, error) {
	ctx := x.r.Context()
	d, err := s.db.DatabaseByRID(ctx, layout.RIDEncoding.EncodeToString(c.Database[:]))
	if err != nil {
		return permission{}, err
	}
	r, err := s.db.RecordByNumber(ctx, d.ID, c.User)
	if err != nil {
		return permission{}, err
	}
	u, err := readUser(d, r)
	if err != nil {
		return permission{}, err
	}
	for _, p := range u.Permissions {
		if p.Number == c.Permission {
			return p, nil
		}
	}
	return permission{}, fmt.Errorf("permission %d: %w", c.Permission, feed.ErrNotFound)
}

// insufficient returns a 403 error with the service's message, followed by the formatted
// reason.
func insufficient(why string, args ...any) error {
	return failure(http.StatusForbidden, wire.SubNone, "Insufficient permissions provided in the authorization header for the corresponding request. "+
		"Please retry with another authorization header. "+why, args...)
}

// permits returns an error if the token does not permit the operation of route r. A token
// permits reading everything in its resource and, with the mode All, writing documents.
//
// SDKs read the account, the container and its partitions before their first request for
// a document. So every token permits these reads.
func (a *allowance) permits(x *request, r route) error {
	shape := x.path.Shape()
	if shape == "/" {
		return nil
	}
	switch shape {
	case "/dbs/*", "/dbs/*/colls", "/dbs/*/colls/*", "/dbs/*/colls/*/pkranges", "/dbs/*/colls/*/docs", "/dbs/*/colls/*/docs/*":
	default:
		return insufficient("A resource token is for databases, containers and items. To %s, use the account key.", r.op)
	}
	if r.writes && !a.all {
		return insufficient("The token's permission is Read, but to %s is a write.", r.op)
	}
	d, err := x.database()
	if err != nil || d.RID != a.permitted.Database {
		return insufficient("The token is for another database.")
	}
	if len(x.path.IDs) < 2 {
		if a.permitted.Container != "" {
			return insufficient("The token is for a container and its content, but to %s concerns the database.", r.op)
		}
		return nil
	}
	if a.permitted.Container == "" {
		return nil
	}
	if err := a.permitsContainer(x); err != nil {
		return err
	}
	switch {
	case shape == "/dbs/*/colls/*/docs" && r.op != opPlan:
		return a.permitsFeed(x, r)
	case shape == "/dbs/*/colls/*/docs/*":
		return a.permitsItem(x)
	case r.writes && (a.permitted.Item != "" || a.permitted.Key != ""):
		return insufficient("The token is for a part of the container, but to %s concerns the whole container.", r.op)
	}
	return nil
}

// permitsContainer returns an error if the request addresses another container than the
// one of the token.
func (a *allowance) permitsContainer(x *request) error {
	c, err := x.container()
	if err == nil && c.Identity().ContainerRID == a.permitted.Container {
		return nil
	}
	if err != nil && !errors.Is(err, feed.ErrNotFound) {
		return err
	}
	return insufficient("The token is for another container, or for a deleted container of that name.")
}

// permitsFeed returns an error if the token does not permit an operation on several
// items: a query, a feed, a create or a batch.
func (a *allowance) permitsFeed(x *request, r route) error {
	switch {
	case a.permitted.Item != "":
		return insufficient("The token is for one item, which a request addresses by its id, but to %s concerns every item of the container.", r.op)
	case a.permitted.Key == "", r.op == opBatch && !x.flag(wire.HeaderBatchAtomic):
		return nil // permitsKey checks each operation of a bulk request
	}
	return a.permitsHeader(x)
}

// permitsItem returns an error if the token is for one item and the request addresses
// another one, or if the partition key is not permitted.
func (a *allowance) permitsItem(x *request) error {
	if a.permitted.Item != "" && x.path.IDs[2] != a.permitted.Item && (a.permitted.ItemRID == "" || x.path.IDs[2] != a.permitted.ItemRID) {
		return insufficient("The token is for another item.")
	}
	if x.path.IDs[2] == a.permitted.ItemRID && x.header(wire.HeaderPartitionKey) == "" {
		return nil // a rid belongs to one item
	}
	return a.permitsHeader(x)
}

// permitsHeader returns an error if the token does not permit the partition key in the
// header of the request.
func (a *allowance) permitsHeader(x *request) error {
	key, err := x.partitionKey()
	if err != nil {
		return err
	}
	return x.permitsKey(key)
}

// permitsKey returns an error if the token of the request does not permit documents with
// this partition key. A nil key means that the request names no key.
func (x *request) permitsKey(key feed.PartitionKey) error {
	switch {
	case x.allowed == nil || x.allowed.permitted.covers(key):
		return nil
	case key == nil:
		return insufficient("The token is for the partition key %s, which the request must name in the header x-ms-documentdb-partitionkey.", x.allowed.permitted.Key)
	}
	return insufficient("The token is for the partition key %s.", x.allowed.permitted.Key)
}

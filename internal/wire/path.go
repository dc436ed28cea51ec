package wire

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Path is the path of a request: pairs of a resource type and an id. The path of a feed
// has no last id.
type Path struct {
	// Types and IDs are the pairs. Types are in lower case, and ids are decoded.
	Types, IDs []string
	// sent is the path of the request without slashes at its ends, and raw holds its segments.
	sent string
	raw  []string
}

// types are the resource types of the protocol.
var types = []string{
	"dbs", "colls", "docs", "pkranges", "offers", "sprocs", "triggers", "udfs", "users", "permissions", "conflicts",
	"clientencryptionkeys", "attachments", operations,
}

// operations is the type of /dbs/<id>/colls/<id>/operations/partitionkeydelete. Its id is
// the operation on the container.
const operations = "operations"

// ParsePath parses an escaped path. It ignores a slash at the end, which some SDKs send.
func ParsePath(escaped string) (Path, error) {
	var p Path
	escaped = strings.Trim(escaped, "/")
	if escaped == "" {
		return p, nil
	}
	p.sent, p.raw = escaped, strings.Split(escaped, "/")
	both := make([]string, 0, len(p.raw)+1) // one allocation for both lists
	p.Types, p.IDs = both[:0:(len(p.raw)+1)/2], both[(len(p.raw)+1)/2:(len(p.raw)+1)/2]
	for i, segment := range p.raw {
		text, err := url.PathUnescape(segment)
		if err != nil {
			return Path{}, fmt.Errorf("segment %.60q of the path is not properly escaped", segment)
		}
		if i%2 == 1 {
			if text == "" {
				return Path{}, fmt.Errorf("segment %d of the path is empty", i+1)
			}
			p.IDs = append(p.IDs, text)
			continue
		}
		if text = strings.ToLower(text); !slices.Contains(types, text) {
			return Path{}, fmt.Errorf("%.60q is not a type of resource", segment)
		}
		p.Types = append(p.Types, text)
	}
	return p, nil
}

// Type returns the type of the resource that the path addresses, or the type of the
// resources in a feed. It is empty for the account.
func (p Path) Type() string {
	if len(p.Types) == 0 {
		return ""
	}
	return p.Types[len(p.Types)-1]
}

// Shape returns the path with every id replaced by "*", such as /dbs/*/colls.
func (p Path) Shape() string {
	if len(p.Types) == 0 {
		return "/"
	}
	var b strings.Builder
	b.Grow(64)
	for i, t := range p.Types {
		b.WriteByte('/')
		b.WriteString(t)
		if i < len(p.IDs) {
			b.WriteString("/*")
		}
	}
	return b.String()
}

// SignedType returns the resource type that a signature of the path covers. SDKs sign an
// operation with the type and link of its container.
func (p Path) SignedType() string { return p.signed().Type() }

// signed returns the part of the path that a signature covers. It omits an operation on a
// container.
func (p Path) signed() Path {
	if n := len(p.Types) - 1; n > 0 && p.Types[n] == operations {
		p.Types, p.IDs = p.Types[:n], p.IDs[:min(len(p.IDs), n)]
	}
	return p
}

// Links returns the resource links that a signature of the path may cover. The first one
// is the link that SDKs sign: the path with decoded ids, without the type of a feed. Some
// clients sign the path of the request. If the ids are resource ids, the link is the last
// one in lower case.
func (p Path) Links() []string {
	p = p.signed()
	if len(p.IDs) == 0 {
		return []string{""}
	}
	links := make([]string, 0, 3)
	size, plain := -1, true
	for i, id := range p.IDs {
		kind, sent := p.raw[2*i], p.raw[2*i+1]
		size += len(kind) + len(sent) + len("//")
		plain = plain && kind == p.Types[i] && sent == id
	}
	if !plain {
		var decoded strings.Builder
		decoded.Grow(64)
		for i, id := range p.IDs {
			if i > 0 {
				decoded.WriteByte('/')
			}
			decoded.WriteString(p.Types[i])
			decoded.WriteByte('/')
			decoded.WriteString(id)
		}
		links = append(links, decoded.String())
	}
	links = append(links, p.sent[:size])
	if p.byRID() {
		links = append(links, strings.ToLower(p.IDs[len(p.IDs)-1]))
	}
	return links
}

// rids is the encoding of resource ids: base64 with - instead of /.
var rids = base64.NewEncoding("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-")

// byRID reports whether all ids of the path can be resource ids. They have 4, 8 and 16
// bytes, from the database down, and each begins with its owner's id. Offers have no
// other ids.
func (p Path) byRID() bool {
	if p.Types[0] == "offers" {
		return true
	}
	var owner []byte
	for i, id := range p.IDs {
		size := 4 << i
		if len(id) != rids.EncodedLen(size) {
			return false
		}
		rid, err := rids.DecodeString(id)
		if err != nil || len(rid) != size || !bytes.HasPrefix(rid, owner) {
			return false
		}
		owner = rid
	}
	return true
}

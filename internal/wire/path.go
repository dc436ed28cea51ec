package wire

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Path is the path of a request: pairs of a resource type and an id, with the
// last id missing when a feed is addressed.
type Path struct {
	// Types and IDs are the pairs; IDs may be one shorter. Types are in lower
	// case, ids percent-decoded.
	Types, IDs []string
	// raw has the segments as they came.
	raw []string
}

// types are the resource types of the protocol.
var types = []string{
	"dbs", "colls", "docs", "pkranges", "offers", "sprocs", "triggers", "udfs", "users", "permissions", "conflicts",
	"clientencryptionkeys", "attachments", operations,
}

// operations is the type of /dbs/<id>/colls/<id>/operations/partitionkeydelete: the id is what is to be done with the container.
const operations = "operations"

// ParsePath reads an escaped path. A slash at the end is ignored; SDKs differ in it.
func ParsePath(escaped string) (Path, error) {
	var p Path
	escaped = strings.Trim(escaped, "/")
	if escaped == "" {
		return p, nil
	}
	p.raw = strings.Split(escaped, "/")
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
			return Path{}, fmt.Errorf("%.60q is no type of resource", segment)
		}
		p.Types = append(p.Types, text)
	}
	return p, nil
}

// Type is the type of the resource, or of the resources of the feed, that is
// addressed; empty for the account.
func (p Path) Type() string {
	if len(p.Types) == 0 {
		return ""
	}
	return p.Types[len(p.Types)-1]
}

// IsFeed reports whether a feed is addressed, and not one resource.
func (p Path) IsFeed() bool { return len(p.Types) > len(p.IDs) }

// Shape is the path with every id replaced by "*": /dbs/*/colls.
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

// SignedType is the resource type that a signature of the path covers. SDKs sign an operation as
// the container that it is done with.
func (p Path) SignedType() string { return p.signed().Type() }

// signed is the path of the resource that is signed.
func (p Path) signed() Path {
	if n := len(p.Types) - 1; n > 0 && p.Types[n] == operations {
		p.Types, p.IDs = p.Types[:n], p.IDs[:min(len(p.IDs), n)]
	}
	return p
}

// Links returns the resource links that a signature of the path may cover, the one that SDKs
// sign first. By names it is the path with decoded ids, without the type of a feed. Some clients
// sign the path as they sent it. By resource ids it is the last one alone, in lower case.
func (p Path) Links() []string {
	p = p.signed()
	if len(p.IDs) == 0 {
		return []string{""}
	}
	links := make([]string, 0, 3)
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
	if sent := strings.Join(p.raw[:2*len(p.IDs)], "/"); sent != links[0] {
		links = append(links, sent)
	}
	if p.byRID() {
		links = append(links, strings.ToLower(p.IDs[len(p.IDs)-1]))
	}
	return links
}

// rids is how resource ids are written: base64 with - in place of /.
var rids = base64.NewEncoding("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-")

// byRID reports whether all ids of the path can be resource ids: those of databases have 4
// bytes, those below them 8 and then 16, and each begins with its owner's. Offers have no other
// ids.
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

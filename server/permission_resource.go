package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/storetype"
)

// permittedResource is the part of a database that a permission permits: a database, a
// container or an item, optionally only the documents of one partition key.
//
// Databases and containers are identified by their rids. So a permission for a container
// is not valid for a new container of the same name. An item is identified by its ID, and
// also by its rid if the permission names the rid.
type permittedResource struct {
	// Database is the rid of the user's database. Container is the rid of a container. If
	// Container is empty, the permission covers all containers of the database.
	Database  string `json:"database"`
	Container string `json:"container,omitempty"`
	// Item is the ID of an item. If it is empty, the permission covers all items of the
	// container. ItemRID is the item's rid, if the permission names it.
	Item    string `json:"item,omitempty"`
	ItemRID string `json:"itemRid,omitempty"`
	// Key is the JSON of a partition key, or of a prefix of a hierarchical key. If it is
	// empty, the permission covers all keys.
	Key string `json:"key,omitempty"`
}

// digest returns a hash of the resource, which is a part of resource tokens.
func (r permittedResource) digest() (d [8]byte) {
	h := sha256.New()
	for _, part := range []string{r.Database, r.Container, r.Item, r.ItemRID, r.Key} {
		h.Write([]byte(part))
		h.Write([]byte{0}) // no part contains a zero byte, because JSON escapes it
	}
	copy(d[:], h.Sum(nil))
	return d
}

// covers reports whether the permission covers the documents of a partition key. If key
// is nil, it reports whether the permission covers all keys.
func (r permittedResource) covers(key feed.PartitionKey) bool {
	if r.Key == "" {
		return true
	}
	own, err := parseKey(r.Key)
	return err == nil && len(own) <= len(key) && slices.Equal(own, key[:len(own)])
}

// resolve returns the resource that a link and the JSON of a partition key identify. The
// link may contain names or rids.
func (x *request) resolve(link string, keyText json.RawMessage) (r permittedResource, err error) {
	d, err := x.parent()
	if err != nil {
		return r, err
	}
	r.Database = d.RID
	segments := strings.Split(strings.Trim(link, "/"), "/")
	types := []string{"dbs", "colls", "docs"}
	for i := 0; i < len(segments); i += 2 {
		if i+1 == len(segments) || i/2 >= len(types) || segments[i] != types[i/2] || segments[i+1] == "" {
			return r, badRequest("the resource of the permission is %.300q; it must be the link of a database, a container or an item, as in dbs/shop/colls/orders "+
				"(stored procedures, triggers, functions and attachments are not supported by this server)", link)
		}
	}
	if !isNamed(segments[1], d.ID, d.RID) {
		return r, badRequest("the resource of the permission is %.300q, which is not in the user's database, %s", link, d.ID)
	}
	if len(segments) == 2 {
		if keyText != nil {
			return r, badRequest("a permission for a database cannot have a resourcePartitionKey, because its containers may have different keys")
		}
		return r, nil
	}
	c, err := x.linked(d, segments[3])
	if err != nil {
		return r, err
	}
	r.Container = c.Identity().ContainerRID
	key, err := x.keyFor(c, keyText)
	if err != nil {
		return r, err
	}
	if key != nil {
		r.Key = key.String()
	}
	if len(segments) == 6 {
		err = x.resolveItem(c, key, segments[5], isNamed(segments[3], r.Container, r.Container), &r)
	}
	return r, err
}

// isNamed reports whether a segment of a link is the given rid, or the given ID, escaped
// or not.
func isNamed(segment, id, rid string) bool {
	plain, err := url.PathUnescape(segment)
	return segment == id || segment == rid || err == nil && plain == id
}

// linked returns the container of the database d that a segment of a link names by its
// name, its escaped name or its rid.
func (x *request) linked(d storetype.DatabaseProperties, segment string) (*engine.Container, error) {
	c, err := x.containerIn(d, segment)
	if plain, escErr := url.PathUnescape(segment); errors.Is(err, feed.ErrNotFound) && escErr == nil && plain != segment {
		return x.s.db.Container(x.r.Context(), d.ID, plain)
	}
	return c, err
}

// keyFor parses the JSON of a permission's partition key, which is an array or a single
// value. It returns nil if the text is empty.
func (x *request) keyFor(c *engine.Container, text json.RawMessage) (feed.PartitionKey, error) {
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return nil, nil
	}
	array := string(text)
	if text[0] != '[' {
		array = "[" + array + "]"
	}
	key, err := feed.ParsePartitionKey(array)
	switch {
	case err != nil:
		return nil, badRequest("the resourcePartitionKey of the permission is not a partition key: %s", keyArray)
	case len(key) == 0:
		// In the header of a request, [] means the documents without a key. A user who
		// writes [] in a permission could also mean all documents, so it is refused.
		return nil, badRequest("the resourcePartitionKey of the permission is [], which names no key; leave it out for the documents of all keys, " +
			"or write [{}] for those without one")
	}
	p, err := c.Properties(x.r.Context())
	if err != nil {
		return nil, err
	}
	if len(key) > len(p.KeyPaths) {
		return nil, badRequest("the resourcePartitionKey of the permission has %d values, but the container's partition key has %d", len(key), len(p.KeyPaths))
	}
	return key, nil
}

// resolveItem sets r.Item to the item that a segment of a link names. byRID reports
// whether the link names the container by its rid. Then the segment may be the rid of an
// item. An item that is named by its ID need not exist.
func (x *request) resolveItem(c *engine.Container, key feed.PartitionKey, segment string, byRID bool, r *permittedResource) error {
	if byRID {
		found, err := c.ItemByRID(x.r.Context(), key, segment)
		switch {
		case err == nil:
			r.Item, r.ItemRID, r.Key = found.ID, segment, found.Key.String()
			return nil
		case !errors.Is(err, feed.ErrNotFound):
			return err
		}
	}
	r.Item = segment
	if plain, err := url.PathUnescape(segment); err == nil && plain != segment {
		// Some SDKs escape links. But an ID may contain a percent sign itself, so the
		// unescaped ID is used only if no item has the ID as it is.
		if _, err := c.Read(x.r.Context(), key, segment, storetype.ReadOptions{}); key == nil || errors.Is(err, feed.ErrNotFound) {
			r.Item = plain
		}
	}
	return nil
}

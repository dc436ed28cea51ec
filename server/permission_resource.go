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
)

// reach is what a permission is for: a resource with all that is below it, and of that, where there is a key, what is in that logical
// partition. Databases and containers are known by their rids, so that a permission for a container doesn't reach another one that is
// later made under its name. An item is known by its id, and by its rid too where the permission named that.
type permittedResource struct {
	// Database is the rid of the user's own database. Container is a rid; empty: all of them.
	Database  string `json:"database"`
	Container string `json:"container,omitempty"`
	// Item is an id; empty: all of the container. ItemRID is set where the permission was made with it.
	Item    string `json:"item,omitempty"`
	ItemRID string `json:"itemRid,omitempty"`
	// Key is a partition key, or a prefix of a hierarchical one, as the protocol writes it; empty: any.
	Key string `json:"key,omitempty"`
}

// digest stands for the reach in tokens.
func (r permittedResource) digest() (d [8]byte) {
	h := sha256.New()
	for _, part := range []string{r.Database, r.Container, r.Item, r.ItemRID, r.Key} {
		h.Write([]byte(part))
		h.Write([]byte{0}) // ids have none that is a part of the text alone: JSON writes it otherwise
	}
	copy(d[:], h.Sum(nil))
	return d
}

// covers reports whether documents of a partition key are within the reach. nil is no key.
func (r permittedResource) covers(key feed.PartitionKey) bool {
	if r.Key == "" {
		return true
	}
	own, err := parseKey(r.Key)
	return err == nil && len(own) <= len(key) && slices.Equal(own, key[:len(own)])
}

// resolve finds out what a permission's resource and partition key are. Links are by names or by rids.
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
			return r, badRequest("the resource of a permission is %.300q: it is the link of a database, a container or an item, as in dbs/shop/colls/orders "+
				"(stored procedures, triggers, functions and attachments are not supported by this server)", link)
		}
	}
	if !isNamed(segments[1], d.ID, d.RID) {
		return r, badRequest("the resource of a permission is %.300q, which isn't in the user's database, %s", link, d.ID)
	}
	if len(segments) == 2 {
		if keyText != nil {
			return r, badRequest("a permission for a database has no resourcePartitionKey: containers of it may have different keys")
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

// isNamed reports whether a segment of a link is one of two texts, perhaps escaped.
func isNamed(segment, id, rid string) bool {
	plain, err := url.PathUnescape(segment)
	return segment == id || segment == rid || err == nil && plain == id
}

// linked finds the container that a link names: by its name, its rid, or its name in escaped form.
func (x *request) linked(d engine.DatabaseProperties, segment string) (*engine.Container, error) {
	c, err := x.containerIn(d, segment)
	if plain, escErr := url.PathUnescape(segment); errors.Is(err, feed.ErrNotFound) && escErr == nil && plain != segment {
		return x.s.db.Container(x.r.Context(), d.ID, plain)
	}
	return c, err
}

// keyFor reads a permission's partition key: an array, or one value that isn't in an array; nil: it has none.
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
		return nil, badRequest("the resourcePartitionKey of a permission is no partition key: %v", err)
	case len(key) == 0:
		// In a header it stands for documents without a key. Here whoever sends it may as well mean all of them.
		return nil, badRequest("the resourcePartitionKey of a permission is [], which names no key: leave it out for the documents of all keys, " +
			"or write [{}] for those without one")
	}
	p, err := c.Properties(x.r.Context())
	if err != nil {
		return nil, err
	}
	if len(key) > len(p.KeyPaths) {
		return nil, badRequest("the resourcePartitionKey of the permission has %d values, and the container's partition key %d", len(key), len(p.KeyPaths))
	}
	return key, nil
}

// resolveItem finds the item of a link. In a container that is linked by its rid the item may be too; by its id it needn't be there yet.
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
		// Some SDKs escape links. An id with a percent sign that isn't escaped is found first.
		if _, err := c.Read(x.r.Context(), key, segment, engine.ReadOptions{}); key == nil || errors.Is(err, feed.ErrNotFound) {
			r.Item = plain
		}
	}
	return nil
}

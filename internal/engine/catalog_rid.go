package engine

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

// Resource ids (_rid) are base64 with - for /. The SDKs of .NET and Java parse them. They
// have these bytes:
//
//   - A database has 4 bytes.
//   - A container has the 4 bytes of its database, and a number of 4 bytes whose top bit
//     is set. Without that bit, it would be the id of a user.
//   - A document has the 8 bytes of its container, and a number of 8 bytes. The top four
//     bits of the last byte are 0, which marks a document.

// maxDocumentNumber is the highest number of a document. A number is stored twice, see
// appendDocumentRID. Its second copy ends in the byte whose top four bits mark a
// document.
const maxDocumentNumber = 1<<28 - 1

// maxContainerNumber is the highest number of a container. The next higher bit marks a
// container.
const maxContainerNumber = 1<<31 - 1

const containerMark = 1 << 31

// RIDEncoding is the encoding of resource ids: base64 with - in place of /, and with +.
var RIDEncoding = base64.NewEncoding("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-").Strict()

// databaseRID returns the rid of database number n, which is positive.
func databaseRID(n uint32) string {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	return RIDEncoding.EncodeToString(b[:])
}

// containerRID returns the rid of container number n, from 1 to maxContainerNumber, in
// the database with the given number.
func containerRID(database, n uint32) string {
	var b [8]byte
	binary.BigEndian.PutUint32(b[:4], database)
	binary.BigEndian.PutUint32(b[4:], n|containerMark)
	return RIDEncoding.EncodeToString(b[:])
}

// appendDocumentRID appends a document's rid. The rid has the number twice, first
// big-endian and then little-endian. Some SDKs compare the last eight bytes of rids as a
// big-endian number and some as a little-endian one. With both copies, all agree on the
// order.
func appendDocumentRID(dst []byte, database, container, n uint32) []byte {
	var b [16]byte
	binary.BigEndian.PutUint32(b[:4], database)
	binary.BigEndian.PutUint32(b[4:8], container|containerMark)
	binary.BigEndian.PutUint32(b[8:12], n)
	binary.LittleEndian.PutUint32(b[12:], n)
	return RIDEncoding.AppendEncode(dst, b[:])
}

// rid is a parsed resource id: the numbers of a database, of a container in it, and of a
// document in that. In the id of a database or a container, the other numbers are 0.
type rid struct{ database, container, document uint32 }

// parseRID parses the resource id of a database, a container or a document. ok is false
// if s is not one of these.
func parseRID(s string) (r rid, ok bool) {
	var space [18]byte // the decoded size of 24 characters, the longest resource id
	if len(s) > ridSize {
		return rid{}, false
	}
	n, err := RIDEncoding.Decode(space[:], []byte(s))
	b := space[:n]
	if err != nil || n != 4 && n != 8 && n != 16 || RIDEncoding.EncodedLen(n) != len(s) {
		return rid{}, false
	}
	r.database = binary.BigEndian.Uint32(b)
	if n > 4 {
		c := binary.BigEndian.Uint32(b[4:])
		if c&containerMark == 0 {
			return rid{}, false
		}
		r.container = c &^ containerMark
	}
	if n > 8 {
		r.document = binary.BigEndian.Uint32(b[8:])
		if r.document > maxDocumentNumber || bits.ReverseBytes32(r.document) != binary.BigEndian.Uint32(b[12:]) {
			return rid{}, false
		}
	}
	return r, true
}

// databaseSelf returns the _self link of a database.
func databaseSelf(database uint32) string { return "dbs/" + databaseRID(database) + "/" }

// containerSelf returns the _self link of a container.
func containerSelf(database, container uint32) string {
	return databaseSelf(database) + "colls/" + containerRID(database, container) + "/"
}

// DatabaseByRID returns the database with a resource id (_rid). It returns an error that
// wraps feed.ErrNotFound if there is none, or if id is not the rid of a database.
func (db *DB) DatabaseByRID(ctx context.Context, id string) (storetype.DatabaseProperties, error) {
	v, err := db.acquire(ctx)
	if err != nil {
		return storetype.DatabaseProperties{}, err
	}
	defer v.release()
	if r, ok := parseRID(id); ok && r.container == 0 {
		for _, d := range v.catalog.databases {
			if d.number == r.database {
				return db.propertiesOf(d), nil
			}
		}
	}
	return storetype.DatabaseProperties{}, notFound("database with the _rid %q", id)
}

// ContainerByRID returns the container with a resource id (_rid). It returns an error
// that wraps feed.ErrNotFound if there is none, or if id is not the rid of a container. A
// container that is recreated under an old name has another rid.
func (db *DB) ContainerByRID(ctx context.Context, id string) (*Container, error) {
	v, err := db.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer v.release()
	if r, ok := parseRID(id); ok && r.container != 0 && r.document == 0 {
		for _, s := range v.states {
			if s != nil && s.c.number == r.container && s.c.database == r.database {
				return s.c, nil
			}
		}
	}
	return nil, notFound("container with the _rid %q", id)
}

// Located is an item that was found without its key and id.
type Located struct {
	// Key and ID are the address of the item.
	Key feed.PartitionKey
	ID  string
	// Result is the result of a read of the item.
	storetype.Result
}

// ItemByRID returns the item with a resource id (_rid), and its key and id. key limits
// the search to a logical partition key, or to a prefix of a hierarchical one. If nil,
// the whole container is searched, which costs one lookup for each physical partition.
//
// ItemByRID returns an error that wraps feed.ErrNotFound if there is no such item or it
// has expired. It returns a *[storetype.BadRequestError] if key does not fit the container, and a
// *feed.ThrottledError if the provisioned throughput is used up.
func (c *Container) ItemByRID(ctx context.Context, key feed.PartitionKey, id string) (Located, error) {
	if err := c.admit(ctx); err != nil {
		return Located{}, err
	}
	sc, err := c.newKeyFilter(feed.Range{}, key)
	if err != nil {
		return Located{}, err
	}
	r, ok := parseRID(id)
	if !ok || r.document == 0 || r.container != c.number || r.database != c.database {
		c.spend(readCharge(0))
		return Located{}, notFound("item with the _rid %q in container %s", id, c.name)
	}
	v, s, err := c.open(ctx)
	if err != nil {
		return Located{}, err
	}
	defer v.release()
	found, err := c.locate(v, s, &sc, r.document)
	c.spend(max(found.Charge, readCharge(0)))
	if err != nil {
		return Located{}, fmt.Errorf("read by _rid %q: %w", id, err)
	}
	return found, nil
}

// locate looks up the item with a document number, if sc selects it. It reads its document
// and its key.
func (c *Container) locate(v *view, s *state, sc *keyFilter, number uint32) (found Located, err error) {
	point, id, err := c.findNumber(v, s.meta, number)
	if err != nil {
		return found, err
	}
	if point == nil || !sc.holds(point) {
		return found, notFound("item")
	}
	op := operation{id: string(id), key: append(append(appendContainerKey(nil, spaceIndex, c.number), point...), id...)}
	op.point = op.key[containerKeySize : containerKeySize+len(point)]
	if found.Result, err = c.readOne(v, s, &op); err != nil {
		return found, err
	}
	// parseDocument must not get the system properties. With them, the document may
	// exceed the largest size that a caller can write.
	own := len(found.Body) - c.tail.fixedSize() - digitCount(found.Modified.Unix()) - 1
	doc, err := parseDocument(append(bytes.Clone(found.Body[:max(own, 0)]), '}'), c.paths, false)
	if err != nil {
		return Located{}, c.db.fault(corrupt("container %s: the document at LSN %d: %v", c.name, found.LSN, err))
	}
	found.Key, found.ID = partitionKey(doc.components()), op.id
	return found, nil
}

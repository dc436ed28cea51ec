package layout

import (
	"encoding/base64"
	"encoding/binary"
	"math/bits"
)

// Resource ids (_rid) are base64 with - for /. The SDKs of .NET and Java parse them. They
// have these bytes:
//
//   - A database has 4 bytes.
//   - A container has the 4 bytes of its database, and a number of 4 bytes whose top bit
//     is set. Without that bit, it would be the id of a user.
//   - A document has the 8 bytes of its container, and a number of 8 bytes. The top four
//     bits of the last byte are 0, which marks a document.

// MaxDocumentNumber is the highest number of a document. A number is stored twice, see
// AppendDocumentRID. Its second copy ends in the byte whose top four bits mark a
// document.
const MaxDocumentNumber = 1<<28 - 1

// MaxContainerNumber is the highest number of a container. The next higher bit marks a
// container.
const MaxContainerNumber = 1<<31 - 1

const containerMark = 1 << 31

// RIDEncoding is the encoding of resource ids: base64 with - in place of /, and with +.
var RIDEncoding = base64.NewEncoding("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-").Strict()

// DatabaseRID returns the rid of database number n, which is positive.
func DatabaseRID(n uint32) string {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	return RIDEncoding.EncodeToString(b[:])
}

// ContainerRID returns the rid of container number n, from 1 to MaxContainerNumber, in
// the database with the given number.
func ContainerRID(database, n uint32) string {
	var b [8]byte
	binary.BigEndian.PutUint32(b[:4], database)
	binary.BigEndian.PutUint32(b[4:], n|containerMark)
	return RIDEncoding.EncodeToString(b[:])
}

// AppendDocumentRID appends a document's rid. The rid has the number twice, first
// big-endian and then little-endian. Some SDKs compare the last eight bytes of rids as a
// big-endian number and some as a little-endian one. With both copies, all agree on the
// order.
func AppendDocumentRID(dst []byte, database, container, n uint32) []byte {
	var b [16]byte
	binary.BigEndian.PutUint32(b[:4], database)
	binary.BigEndian.PutUint32(b[4:8], container|containerMark)
	binary.BigEndian.PutUint32(b[8:12], n)
	binary.LittleEndian.PutUint32(b[12:], n)
	return RIDEncoding.AppendEncode(dst, b[:])
}

// RID is a parsed resource id: the numbers of a database, of a container in it, and of a
// document in that. In the id of a database or a container, the other numbers are 0.
type RID struct{ Database, Container, Document uint32 }

// ParseRID parses the resource id of a database, a container or a document. ok is false
// if s is not one of these.
func ParseRID(s string) (r RID, ok bool) {
	var space [18]byte // the decoded size of 24 characters, the longest resource id
	if len(s) > ridSize {
		return RID{}, false
	}
	n, err := RIDEncoding.Decode(space[:], []byte(s))
	b := space[:n]
	if err != nil || n != 4 && n != 8 && n != 16 || RIDEncoding.EncodedLen(n) != len(s) {
		return RID{}, false
	}
	r.Database = binary.BigEndian.Uint32(b)
	if n > 4 {
		c := binary.BigEndian.Uint32(b[4:])
		if c&containerMark == 0 {
			return RID{}, false
		}
		r.Container = c &^ containerMark
	}
	if n > 8 {
		r.Document = binary.BigEndian.Uint32(b[8:])
		if r.Document > MaxDocumentNumber || bits.ReverseBytes32(r.Document) != binary.BigEndian.Uint32(b[12:]) {
			return RID{}, false
		}
	}
	return r, true
}

// databaseSelf returns the _self link of a database.
func databaseSelf(database uint32) string { return "dbs/" + DatabaseRID(database) + "/" }

// containerSelf returns the _self link of a container.
func containerSelf(database, container uint32) string {
	return databaseSelf(database) + "colls/" + ContainerRID(database, container) + "/"
}

package engine

import (
	"encoding/base64"
	"encoding/binary"
	"math/bits"
)

// Resource ids (_rid) are base64 with - for /, and the SDKs of .NET and Java
// take them apart: a database has 4 bytes, a container 8 (first its
// database's; the top bit of the fifth set, else it would be a user), a document 16 (first
// its container's; the top four bits of the last byte 0, the mark of a document).

// maxDocumentNumber is the highest number that a document can have. A number
// is stored twice, see appendDocumentRID, and its second copy ends in the byte whose
// top four bits mark a document.
const maxDocumentNumber = 1<<28 - 1

// maxContainerNumber is the highest number that a container can have: the bit
// above marks a container.
const maxContainerNumber = 1<<31 - 1

const containerMark = 1 << 31

// ridEncoding is base64 with - in place of / and with + as it is.
var ridEncoding = base64.NewEncoding("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-").Strict()

// databaseRID is the rid of database number n, which is positive.
func databaseRID(n uint32) string {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	return ridEncoding.EncodeToString(b[:])
}

// containerRID is the rid of container number n, from 1 to maxContainerNumber,
// in database number database.
func containerRID(database, n uint32) string {
	var b [8]byte
	binary.BigEndian.PutUint32(b[:4], database)
	binary.BigEndian.PutUint32(b[4:], n|containerMark)
	return ridEncoding.EncodeToString(b[:])
}

// documentRID is the rid of document number n, from 1 to maxDocumentNumber.
func documentRID(database, container, n uint32) string {
	return string(appendDocumentRID(nil, database, container, n))
}

// appendDocumentRID appends a document's rid. The number stands in it twice,
// big-endian and then little-endian, because some SDKs compare the last eight
// bytes of rids as a number of the one byte order and some of the other: so they agree.
func appendDocumentRID(dst []byte, database, container, n uint32) []byte {
	var b [16]byte
	binary.BigEndian.PutUint32(b[:4], database)
	binary.BigEndian.PutUint32(b[4:8], container|containerMark)
	binary.BigEndian.PutUint32(b[8:12], n)
	binary.LittleEndian.PutUint32(b[12:], n)
	return ridEncoding.AppendEncode(dst, b[:])
}

// rid is a resource id taken apart. What a shorter one doesn't name is 0.
type rid struct{ database, container, document uint32 }

// parseRID reads a rid of a database, a container or a document; ok is false for
// other texts.
func parseRID(s string) (r rid, ok bool) {
	var space [18]byte // what 24 characters decode to, before the padding is seen
	if len(s) > ridSize {
		return rid{}, false
	}
	n, err := ridEncoding.Decode(space[:], []byte(s))
	b := space[:n]
	if err != nil || n != 4 && n != 8 && n != 16 || ridEncoding.EncodedLen(n) != len(s) {
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

// databaseSelf is a database's _self link.
func databaseSelf(database uint32) string { return "dbs/" + databaseRID(database) + "/" }

// containerSelf is a container's _self link.
func containerSelf(database, container uint32) string {
	return databaseSelf(database) + "colls/" + containerRID(database, container) + "/"
}

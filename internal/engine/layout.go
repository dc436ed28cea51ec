package engine

import (
	"encoding/binary"

	"github.com/changefeed-go/changefeed/internal/epk"
)

// The key spaces. The first byte of a key is its key space. FORMAT.md describes keys and
// values. All integers in keys are big-endian, so that bytes sort as numbers do.
const (
	spaceNumbers   = 'N' // one key; the value has the last assigned numbers
	spaceDatabase  = 'D' // database -> its record
	spaceContainer = 'C' // container -> its record, with partitions and segments
	spacePartition = 'P' // container, partition -> counters
	spaceIndex     = 'I' // container, point, id -> entry
	spaceLog       = 'L' // container, segment, LSN, ordinal, point -> document
	spaceVersions  = 'A' // container, segment, LSN, ordinal, point -> version with its images
	spaceRecord    = 'R' // database, then a number or a name -> the caller's record
	spaceUnique    = 'U' // container, point, unique key, digest, id -> length of the point
	spaceKeyOrder  = 'K' // container, point, document number -> id
	spaceOrder     = 'O' // container, partition, document number -> length of the point, point, id
)

const (
	containerKeySize = 5                    // the size of a key space and a container number
	segmentKeySize   = containerKeySize + 4 // the size with a segment number
	logKeySize       = segmentKeySize + 10  // the size with LSN and ordinal; the point follows
	logHeaderSize    = 12                   // the size of ts (u64) and ttl (i32) before the document in a log value
	entrySize        = 36
	countersSize     = 20
	orderKeySize     = containerKeySize + 8 // the size with a partition and a document number
)

// containerSpaces are the key spaces whose keys begin with the number of a container, and
// which are emptied when it is deleted.
var containerSpaces = []byte{spacePartition, spaceIndex, spaceLog, spaceVersions, spaceUnique, spaceKeyOrder, spaceOrder}

// appendContainerKey appends the first bytes of a key: the key space and the container's
// number.
func appendContainerKey(dst []byte, space byte, container uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, space), container)
}

func databaseKey(number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{spaceDatabase}, number)
}

func containerKey(number uint32) []byte {
	return appendContainerKey(nil, spaceContainer, number)
}

func partitionKeyOf(container, partition uint32) []byte {
	return binary.BigEndian.AppendUint32(appendContainerKey(nil, spacePartition, container), partition)
}

// appendLogKey appends the key of an entry in the log or the versions log, without the
// point at its end.
func appendLogKey(dst []byte, space byte, container, segment uint32, lsn int64, ordinal uint16) []byte {
	dst = appendContainerKey(dst, space, container)
	dst = binary.BigEndian.AppendUint32(dst, segment)
	dst = binary.BigEndian.AppendUint64(dst, uint64(lsn))
	return binary.BigEndian.AppendUint16(dst, ordinal)
}

// logBounds returns the lower and upper bound of the keys of a segment's entries with
// from < LSN <= to.
func logBounds(space byte, container, segment uint32, from, to int64) (lower, upper []byte) {
	buf := make([]byte, 0, 2*(segmentKeySize+8))
	buf = appendContainerKey(buf, space, container)
	buf = binary.BigEndian.AppendUint32(buf, segment)
	buf = binary.BigEndian.AppendUint64(buf, uint64(from+1))
	n := len(buf)
	buf = appendContainerKey(buf, space, container)
	if to == maxLSN {
		buf = binary.BigEndian.AppendUint32(buf, segment+1)
	} else {
		buf = binary.BigEndian.AppendUint32(buf, segment)
		buf = binary.BigEndian.AppendUint64(buf, uint64(to+1))
	}
	return buf[:n:n], buf[n:]
}

// maxLSN is the highest possible LSN. As an upper bound it means that there is none.
const maxLSN = int64(1<<63 - 1)

func logLSN(key []byte) int64      { return int64(binary.BigEndian.Uint64(key[segmentKeySize:])) }
func logOrdinal(key []byte) uint16 { return binary.BigEndian.Uint16(key[segmentKeySize+8:]) }
func logPoint(key []byte) []byte   { return key[logKeySize:] }

// logHeader returns the time of the write (_ts) and the time to live from the header of a
// log value.
func logHeader(value []byte) (ts int64, ttl int32) {
	return int64(binary.BigEndian.Uint64(value)), int32(binary.BigEndian.Uint32(value[8:]))
}

func putLogHeader(value []byte, ts int64, ttl int32) {
	binary.BigEndian.PutUint64(value, uint64(ts))
	binary.BigEndian.PutUint32(value[8:], uint32(ttl))
}

// entry is an item's entry in the index. It has the position of the document in the log,
// and all data that must be available without a read of the document.
type entry struct {
	stamp
	segment uint32
	// point is the size in bytes of the point in the item's index key. The id follows the
	// point.
	point uint16
	// size is the size in bytes of the stored document. ttl is the document's own time to
	// live in seconds.
	size uint32
	ttl  int32
}

func (e *entry) encode() (b [entrySize]byte) {
	binary.BigEndian.PutUint64(b[0:], uint64(e.lsn))
	binary.BigEndian.PutUint64(b[8:], uint64(e.ts))
	binary.BigEndian.PutUint32(b[16:], e.segment)
	binary.BigEndian.PutUint32(b[20:], e.number)
	binary.BigEndian.PutUint32(b[24:], e.size)
	binary.BigEndian.PutUint32(b[28:], uint32(e.ttl))
	binary.BigEndian.PutUint16(b[32:], e.ordinal)
	binary.BigEndian.PutUint16(b[34:], e.point)
	return b
}

func decodeEntry(b []byte) (e entry, err error) {
	if len(b) != entrySize {
		return e, corrupt("an index entry has %d bytes, not %d", len(b), entrySize)
	}
	e.lsn = int64(binary.BigEndian.Uint64(b[0:]))
	e.ts = int64(binary.BigEndian.Uint64(b[8:]))
	e.segment = binary.BigEndian.Uint32(b[16:])
	e.number = binary.BigEndian.Uint32(b[20:])
	e.size = binary.BigEndian.Uint32(b[24:])
	e.ttl = int32(binary.BigEndian.Uint32(b[28:]))
	e.ordinal = binary.BigEndian.Uint16(b[32:])
	e.point = binary.BigEndian.Uint16(b[34:])
	return e, nil
}

// counters are the data of a partition that must survive even if all of its entries are
// deleted.
type counters struct {
	// lsn is the partition's last LSN. docs is the container's last document number and
	// ts its last _ts, both at the time of that LSN.
	lsn  int64
	docs uint32
	ts   int64
}

func (c counters) encode() (b [countersSize]byte) {
	binary.BigEndian.PutUint64(b[0:], uint64(c.lsn))
	binary.BigEndian.PutUint64(b[8:], uint64(c.ts))
	binary.BigEndian.PutUint32(b[16:], c.docs)
	return b
}

func decodeCounters(b []byte) (c counters, err error) {
	if len(b) != countersSize {
		return c, corrupt("the counters of a partition have %d bytes, not %d", len(b), countersSize)
	}
	c.lsn = int64(binary.BigEndian.Uint64(b[0:]))
	c.ts = int64(binary.BigEndian.Uint64(b[8:]))
	c.docs = binary.BigEndian.Uint32(b[16:])
	return c, nil
}

// appendIndexKey appends the index key of an item to dst. It also returns the size in
// bytes of the point in the key.
func appendIndexKey(dst []byte, container uint32, hash epk.Hash, key []epk.Component, id string) (b []byte, point int) {
	dst = appendContainerKey(dst, spaceIndex, container)
	n := len(dst)
	dst = hash.Append(dst, key)
	point = len(dst) - n
	return append(dst, id...), point
}

// appendKeyOrder appends the key under which an item is found in the order of writing
// among the items of its partition key.
func appendKeyOrder(dst []byte, container uint32, point []byte, document uint32) []byte {
	dst = append(appendContainerKey(dst, spaceKeyOrder, container), point...)
	return binary.BigEndian.AppendUint32(dst, document)
}

// appendOrderKey appends the key under which an item is found in the order of writing
// among the items of its physical partition.
func appendOrderKey(dst []byte, container, partition, document uint32) []byte {
	dst = appendContainerKey(dst, spaceOrder, container)
	dst = binary.BigEndian.AppendUint32(dst, partition)
	return binary.BigEndian.AppendUint32(dst, document)
}

// appendOrderValue appends the value of a key made by appendOrderKey.
func appendOrderValue(dst, point []byte, id string) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(point))) //nolint:gosec // an entry has the same
	return append(append(dst, point...), id...)
}

// decodeOrder returns the point and the id in a value that appendOrderValue made.
func decodeOrder(value []byte) (point, id []byte, err error) {
	if len(value) < 2 || len(value) < 2+int(binary.BigEndian.Uint16(value)) {
		return nil, nil, corrupt("an entry in the order of writing has %d bytes", len(value))
	}
	end := 2 + int(binary.BigEndian.Uint16(value))
	return value[2:end], value[end:], nil
}

// successor returns the lowest key that is above all keys with the given prefix. The
// prefix must have a byte below 0xFF. Every key has one, because its key space is a
// letter.
func successor(prefix []byte) []byte {
	b := append([]byte(nil), prefix...)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xFF {
			b[i]++
			return b[:i+1]
		}
	}
	return nil
}

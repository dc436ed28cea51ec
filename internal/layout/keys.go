package layout

import (
	"encoding/binary"

	"github.com/changefeed-go/changefeed/internal/epk"
)

// The key spaces. The first byte of a key is its key space. FORMAT.md describes keys and
// values. All integers in keys are big-endian, so that bytes sort as numbers do.
const (
	SpaceNumbers   = 'N' // one key; the value has the last assigned numbers
	SpaceDatabase  = 'D' // database -> its record
	SpaceContainer = 'C' // container -> its record, with partitions and segments
	SpacePartition = 'P' // container, partition -> counters
	SpaceIndex     = 'I' // container, point, id -> entry
	SpaceLog       = 'L' // container, segment, LSN, ordinal, point -> document
	SpaceVersions  = 'A' // container, segment, LSN, ordinal, point -> version with its images
	SpaceRecord    = 'R' // database, then a number or a name -> the caller's record
	SpaceUnique    = 'U' // container, point, unique key, digest, id -> length of the point
	SpaceKeyOrder  = 'K' // container, point, document number -> id
	SpaceOrder     = 'O' // container, partition, document number -> length of the point, point, id
)

// The sizes of keys and values, in bytes.
const (
	ContainerKeySize = 5                    // the size of a key space and a container number
	SegmentKeySize   = ContainerKeySize + 4 // the size with a segment number
	LogKeySize       = SegmentKeySize + 10  // the size with LSN and ordinal; the point follows
	LogHeaderSize    = 12                   // the size of ts (u64) and ttl (i32) before the document in a log value
	EntrySize        = 36
	countersSize     = 20
	OrderKeySize     = ContainerKeySize + 8 // the size with a partition and a document number
)

// ContainerSpaces are the key spaces whose keys begin with the number of a container, and
// which are emptied when it is deleted.
var ContainerSpaces = []byte{SpacePartition, SpaceIndex, SpaceLog, SpaceVersions, SpaceUnique, SpaceKeyOrder, SpaceOrder}

// AppendContainerKey appends the first bytes of a key: the key space and the container's
// number.
func AppendContainerKey(dst []byte, space byte, container uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, space), container)
}

// DatabaseKey returns the key of a database's record.
func DatabaseKey(number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{SpaceDatabase}, number)
}

// ContainerKey returns the key of a container's record.
func ContainerKey(number uint32) []byte {
	return AppendContainerKey(nil, SpaceContainer, number)
}

// PartitionKeyOf returns the key of a partition's [Counters].
func PartitionKeyOf(container, partition uint32) []byte {
	return binary.BigEndian.AppendUint32(AppendContainerKey(nil, SpacePartition, container), partition)
}

// AppendLogKey appends the key of an entry in the log or the versions log, without the
// point at its end.
func AppendLogKey(dst []byte, space byte, container, segment uint32, lsn int64, ordinal uint16) []byte {
	dst = AppendContainerKey(dst, space, container)
	dst = binary.BigEndian.AppendUint32(dst, segment)
	dst = binary.BigEndian.AppendUint64(dst, uint64(lsn))
	return binary.BigEndian.AppendUint16(dst, ordinal)
}

// LogBounds returns the lower and upper bound of the keys of a segment's entries with
// from < LSN <= to.
func LogBounds(space byte, container, segment uint32, from, to int64) (lower, upper []byte) {
	buf := make([]byte, 0, 2*(SegmentKeySize+8))
	buf = AppendContainerKey(buf, space, container)
	buf = binary.BigEndian.AppendUint32(buf, segment)
	buf = binary.BigEndian.AppendUint64(buf, uint64(from+1))
	n := len(buf)
	buf = AppendContainerKey(buf, space, container)
	if to == MaxLSN {
		buf = binary.BigEndian.AppendUint32(buf, segment+1)
	} else {
		buf = binary.BigEndian.AppendUint32(buf, segment)
		buf = binary.BigEndian.AppendUint64(buf, uint64(to+1))
	}
	return buf[:n:n], buf[n:]
}

// MaxLSN is the highest possible LSN. As an upper bound it means that there is none.
const MaxLSN = int64(1<<63 - 1)

// LogLSN returns the LSN in a key of the log.
func LogLSN(key []byte) int64 { return int64(binary.BigEndian.Uint64(key[SegmentKeySize:])) }

// LogOrdinal returns the place in its transaction in a key of the log.
func LogOrdinal(key []byte) uint16 { return binary.BigEndian.Uint16(key[SegmentKeySize+8:]) }

// LogPoint returns the point in a key of the log.
func LogPoint(key []byte) []byte { return key[LogKeySize:] }

// LogHeader returns the time of the write (_ts) and the time to live from the header of a
// log value.
func LogHeader(value []byte) (ts int64, ttl int32) {
	return int64(binary.BigEndian.Uint64(value)), int32(binary.BigEndian.Uint32(value[8:]))
}

// PutLogHeader writes what [LogHeader] reads.
func PutLogHeader(value []byte, ts int64, ttl int32) {
	binary.BigEndian.PutUint64(value, uint64(ts))
	binary.BigEndian.PutUint32(value[8:], uint32(ttl))
}

// Entry is an item's entry in the index. It has the position of the document in the log,
// and all data that must be available without a read of the document.
type Entry struct {
	Stamp
	Segment uint32
	// point is the size in bytes of the point in the item's index key. The id follows the
	// point.
	Point uint16
	// size is the size in bytes of the stored document. ttl is the document's own time to
	// live in seconds.
	Size uint32
	TTL  int32
}

// Encode returns the value that [DecodeEntry] reads.
func (e *Entry) Encode() (b [EntrySize]byte) {
	binary.BigEndian.PutUint64(b[0:], uint64(e.LSN))
	binary.BigEndian.PutUint64(b[8:], uint64(e.TS))
	binary.BigEndian.PutUint32(b[16:], e.Segment)
	binary.BigEndian.PutUint32(b[20:], e.Number)
	binary.BigEndian.PutUint32(b[24:], e.Size)
	binary.BigEndian.PutUint32(b[28:], uint32(e.TTL))
	binary.BigEndian.PutUint16(b[32:], e.Ordinal)
	binary.BigEndian.PutUint16(b[34:], e.Point)
	return b
}

// DecodeEntry returns the entry that Encode wrote, or an error for a damaged value.
func DecodeEntry(b []byte) (e Entry, err error) {
	if len(b) != EntrySize {
		return e, Corrupt("an index entry has %d bytes, not %d", len(b), EntrySize)
	}
	e.LSN = int64(binary.BigEndian.Uint64(b[0:]))
	e.TS = int64(binary.BigEndian.Uint64(b[8:]))
	e.Segment = binary.BigEndian.Uint32(b[16:])
	e.Number = binary.BigEndian.Uint32(b[20:])
	e.Size = binary.BigEndian.Uint32(b[24:])
	e.TTL = int32(binary.BigEndian.Uint32(b[28:]))
	e.Ordinal = binary.BigEndian.Uint16(b[32:])
	e.Point = binary.BigEndian.Uint16(b[34:])
	return e, nil
}

// Counters are the data of a partition that must survive even if all of its entries are
// deleted.
type Counters struct {
	// lsn is the partition's last LSN. docs is the container's last document number and
	// ts its last _ts, both at the time of that LSN.
	LSN  int64
	Docs uint32
	TS   int64
}

// Encode returns the value that [DecodeCounters] reads.
func (c Counters) Encode() (b [countersSize]byte) {
	binary.BigEndian.PutUint64(b[0:], uint64(c.LSN))
	binary.BigEndian.PutUint64(b[8:], uint64(c.TS))
	binary.BigEndian.PutUint32(b[16:], c.Docs)
	return b
}

// DecodeCounters returns the counters that Encode wrote, or an error for a damaged value.
func DecodeCounters(b []byte) (c Counters, err error) {
	if len(b) != countersSize {
		return c, Corrupt("the counters of a partition have %d bytes, not %d", len(b), countersSize)
	}
	c.LSN = int64(binary.BigEndian.Uint64(b[0:]))
	c.TS = int64(binary.BigEndian.Uint64(b[8:]))
	c.Docs = binary.BigEndian.Uint32(b[16:])
	return c, nil
}

// AppendIndexKey appends the index key of an item to dst. It also returns the size in
// bytes of the point in the key.
func AppendIndexKey(dst []byte, container uint32, hash epk.Hash, key []epk.Component, id string) (b []byte, point int) {
	dst = AppendContainerKey(dst, SpaceIndex, container)
	n := len(dst)
	dst = hash.Append(dst, key)
	point = len(dst) - n
	return append(dst, id...), point
}

// AppendKeyOrder appends the key under which an item is found in the order of writing
// among the items of its partition key.
func AppendKeyOrder(dst []byte, container uint32, point []byte, document uint32) []byte {
	dst = append(AppendContainerKey(dst, SpaceKeyOrder, container), point...)
	return binary.BigEndian.AppendUint32(dst, document)
}

// AppendOrderKey appends the key under which an item is found in the order of writing
// among the items of its physical partition.
func AppendOrderKey(dst []byte, container, partition, document uint32) []byte {
	dst = AppendContainerKey(dst, SpaceOrder, container)
	dst = binary.BigEndian.AppendUint32(dst, partition)
	return binary.BigEndian.AppendUint32(dst, document)
}

// AppendOrderValue appends the value of a key made by AppendOrderKey.
func AppendOrderValue(dst, point []byte, id string) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(point))) //nolint:gosec // an entry has the same
	return append(append(dst, point...), id...)
}

// DecodeOrder returns the point and the id in a value that AppendOrderValue made.
func DecodeOrder(value []byte) (point, id []byte, err error) {
	if len(value) < 2 || len(value) < 2+int(binary.BigEndian.Uint16(value)) {
		return nil, nil, Corrupt("an entry in the order of writing has %d bytes", len(value))
	}
	end := 2 + int(binary.BigEndian.Uint16(value))
	return value[2:end], value[end:], nil
}

// Successor returns the lowest key that is above all keys with the given prefix. The
// prefix must have a byte below 0xFF. Every key has one, because its key space is a
// letter.
func Successor(prefix []byte) []byte {
	b := append([]byte(nil), prefix...)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xFF {
			b[i]++
			return b[:i+1]
		}
	}
	return nil
}

package hybridrow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Version is the first byte of every row, and so of every stream. There is only one
// version.
const Version = 0x81

// The schemas of the framing, from HybridRow's system namespace.
const (
	segmentSchema = 2147473648
	recordSchema  = 2147473649
)

const (
	// headerSize is the size of the version and the schema's number, which begin each
	// row.
	headerSize = 5
	// segmentSize is the size of a segment's header without optional fields.
	segmentSize = headerSize + 1 + 4
	// recordSize is the size of a record without its row.
	recordSize = headerSize + 4 + 4
)

// Is reports whether a body is a HybridRow stream. The batches of .NET have no content
// type of their own.
func Is(body []byte) bool { return len(body) > 0 && body[0] == Version }

// Reader reads the records of a stream.
type Reader struct {
	stream []byte
	// at is the offset in stream of the next record's header.
	at int
	// n is the number of records that Next has returned.
	n int
}

// NewReader returns a reader of a stream, which must not change while its rows are in
// use.
func NewReader(stream []byte) *Reader { return &Reader{stream: stream} }

// Next returns the row of the next record, which is a part of the stream. It returns
// io.EOF after the last record. Any other error describes a mistake in the stream, and is
// returned again by the next call.
func (r *Reader) Next() ([]byte, error) {
	if r.at == 0 && len(r.stream) == 0 {
		return nil, errors.New("the stream is empty; it begins with a segment")
	}
	for {
		rest := r.stream[r.at:]
		if len(rest) == 0 {
			return nil, io.EOF
		}
		schema, err := schemaOf(rest)
		if err == nil {
			switch {
			case schema == segmentSchema:
				err = r.skipSegment(rest)
			case schema != recordSchema:
				err = fmt.Errorf("schema %d is neither a segment's nor a record's", schema)
			case r.at == 0:
				err = errors.New("the stream begins with a record; a segment comes first")
			default:
				row, err := r.record(rest)
				if err != nil {
					return nil, fmt.Errorf("record %d at byte %d: %w", r.n, r.at, err)
				}
				return row, nil
			}
		}
		if err != nil {
			return nil, fmt.Errorf("byte %d: %w", r.at, err)
		}
	}
}

// schemaOf returns the number of the schema in the header of a row.
func schemaOf(row []byte) (uint32, error) {
	if len(row) < headerSize {
		return 0, fmt.Errorf("%d bytes are too few for the header of a row", len(row))
	}
	if row[0] != Version {
		return 0, fmt.Errorf("version %#x is unknown; a row begins with %#x", row[0], Version)
	}
	return binary.LittleEndian.Uint32(row[1:]), nil
}

// skipSegment moves the reader past the header of a segment. rest is the stream from that
// header on. The header may have two optional fields: a comment and a schema.
func (r *Reader) skipSegment(rest []byte) error {
	if len(rest) < segmentSize {
		return fmt.Errorf("%d bytes are too few for a segment", len(rest))
	}
	size := int32(binary.LittleEndian.Uint32(rest[headerSize+1:]))
	if rest[headerSize]&1 == 0 || size < segmentSize || int(size) > len(rest) {
		return fmt.Errorf("a segment's header has %d bytes; it must have %d to %d", size, segmentSize, len(rest))
	}
	r.at += int(size)
	return nil
}

func (r *Reader) record(rest []byte) ([]byte, error) {
	if len(rest) < recordSize {
		return nil, fmt.Errorf("%d bytes are too few", len(rest))
	}
	size := int32(binary.LittleEndian.Uint32(rest[headerSize:]))
	if size < headerSize || int(size) > len(rest)-recordSize {
		return nil, fmt.Errorf("it has %d bytes; it must have %d to %d", size, headerSize, len(rest)-recordSize)
	}
	row := rest[recordSize : recordSize+int(size) : recordSize+int(size)]
	if want, got := binary.LittleEndian.Uint32(rest[headerSize+4:]), crc32.ChecksumIEEE(row); got != want {
		return nil, fmt.Errorf("its checksum is %08x instead of %08x, so it is damaged", got, want)
	}
	r.at += recordSize + int(size)
	r.n++
	return row, nil
}

// Row is an [Operation] or a [Result].
type Row interface {
	// Append appends the row's bytes.
	Append(b []byte) []byte
}

// AppendSegment appends the header that a stream begins with.
func AppendSegment(b []byte) []byte {
	b = append(appendHeader(b, segmentSchema), 1)
	return binary.LittleEndian.AppendUint32(b, segmentSize)
}

// AppendRecord appends a record: a row after its length and checksum.
func AppendRecord(b []byte, row Row) []byte {
	b = append(appendHeader(b, recordSchema), 0, 0, 0, 0, 0, 0, 0, 0)
	at := len(b)
	b = row.Append(b)
	binary.LittleEndian.PutUint32(b[at-8:], uint32(len(b)-at))
	binary.LittleEndian.PutUint32(b[at-4:], crc32.ChecksumIEEE(b[at:]))
	return b
}

func appendHeader(b []byte, schema uint32) []byte {
	return binary.LittleEndian.AppendUint32(append(b, Version), schema)
}

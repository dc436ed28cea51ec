package hybridrow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// code is the number that HybridRow gives to the type of a value.
type code byte

// The types of a batch's fields, with their numbers in HybridRow.
const (
	codeNull    code = 1
	codeFalse   code = 2
	codeTrue    code = 3
	codeInt32   code = 7
	codeUint32  code = 11
	codeVarInt  code = 13
	codeVarUint code = 14
	codeFloat64 code = 16
	codeUTF8    code = 20
	codeBinary  code = 21
)

// sizes has the size in bytes of the values of each type with a fixed size. These are
// null, booleans, integers, floats, decimal, times, GUID, and MongoDB's id. The reader
// needs the sizes to skip unknown fields.
var sizes = map[code]int{
	codeNull: 0, codeFalse: 0, codeTrue: 0, 5: 1, 6: 2, codeInt32: 4, 8: 8, 9: 1, 10: 2, codeUint32: 4, 12: 8,
	15: 4, codeFloat64: 8, 17: 16, 18: 8, 19: 16, 22: 16, 23: 8, 24: 12,
}

// storage is the part of a row that holds a field.
type storage byte

const (
	fixed storage = iota
	variable
	sparse
)

// column is one field of a schema. All booleans have the type codeTrue.
type column struct {
	name    string
	code    code
	storage storage
}

// layout is a schema: its number and its fields. Fixed fields come first, sparse ones
// last. The name of a sparse field is its index, counted from 1. No schema has more than
// eight fixed and variable fields, so presence is one byte.
type layout struct {
	name    string
	schema  uint32
	columns []column
}

// value is the decoded value of a field. The field's type determines which of the Go
// fields below is used.
type value struct {
	number uint64
	bytes  []byte
}

func (v value) int32() int32     { return int32(uint32(v.number)) }
func (v value) float64() float64 { return math.Float64frombits(v.number) }

// read calls visit for each field of a row, with the index of its column. It skips fields
// that the schema does not have, like .NET's reader.
func (l *layout) read(row []byte, visit func(column int, v value)) error {
	schema, err := schemaOf(row)
	if err != nil {
		return err
	}
	if schema != l.schema {
		return fmt.Errorf("its schema is %d; a %s has schema %d", schema, l.name, l.schema)
	}
	rest := row[headerSize:]
	if len(rest) == 0 {
		return errors.New("it ends before its fields")
	}
	presence := rest[0]
	rest = rest[1:]
	var seen uint
	for i, c := range l.columns {
		if c.storage == sparse {
			break
		}
		present := presence&(1<<i) != 0
		if c.storage == variable && !present {
			continue
		}
		v, after, err := readValue(c.code, rest)
		if err != nil {
			return fmt.Errorf("field %s: %w", c.name, err)
		}
		if rest = after; present {
			seen |= 1 << i
			visit(i, v)
		}
	}
	for len(rest) > 0 {
		i, v, after, err := l.readSparse(rest)
		if err != nil {
			return err
		}
		if rest = after; i < 0 {
			continue
		}
		if seen&(1<<i) != 0 {
			return fmt.Errorf("field %s is duplicate", l.columns[i].name)
		}
		seen |= 1 << i
		visit(i, v)
	}
	return nil
}

// readSparse reads the sparse field at the start of rest. It returns the index of its
// column, its value, and the bytes after it. The index is -1 for null, and for a field
// that the schema does not have.
func (l *layout) readSparse(rest []byte) (int, value, []byte, error) {
	kind := code(rest[0])
	token, after, err := readVaruint(rest[1:])
	if err != nil {
		return 0, value{}, nil, fmt.Errorf("the name of a sparse field: %w", err)
	}
	names := uint64(len(l.columns) + 1)
	if token >= names { // token-names is the length of the name that follows
		if token-names > uint64(len(after)) {
			return 0, value{}, nil, errors.New("it ends within the name of a sparse field")
		}
		after = after[token-names:]
	}
	v, after, err := readValue(kind, after)
	switch {
	case err != nil:
		return 0, value{}, nil, fmt.Errorf("sparse field %d: %w", token, err)
	case token == 0 || token >= names || kind == codeNull:
		return -1, value{}, after, nil
	}
	c := l.columns[token-1]
	if c.storage != sparse || kind != c.code && (c.code != codeTrue || kind != codeFalse) {
		return 0, value{}, nil, fmt.Errorf("field %s is a sparse field of type %d, which its schema does not allow", c.name, kind)
	}
	return int(token) - 1, v, after, nil
}

// readValue reads a value of the given type at the start of b. It returns the value and
// the bytes after it.
func readValue(kind code, b []byte) (value, []byte, error) {
	switch kind {
	case codeFalse:
		return value{number: 0}, b, nil
	case codeTrue:
		return value{number: 1}, b, nil
	case codeVarInt, codeVarUint:
		n, after, err := readVaruint(b)
		return value{number: n}, after, err
	case codeUTF8, codeBinary:
		size, after, err := readVaruint(b)
		if err != nil {
			return value{}, nil, err
		}
		if size > uint64(len(after)) {
			return value{}, nil, fmt.Errorf("it has %d bytes, and %d are left", size, len(after))
		}
		v := value{bytes: after[:size:size]}
		if kind == codeUTF8 && !utf8.Valid(v.bytes) {
			return value{}, nil, errors.New("its text is not UTF-8")
		}
		return v, after[size:], nil
	default:
		return readFixed(kind, b)
	}
}

// readFixed reads a value of a type with a fixed size at the start of b. It returns the
// value and the bytes after it.
func readFixed(kind code, b []byte) (value, []byte, error) {
	size, known := sizes[kind]
	if !known {
		return value{}, nil, fmt.Errorf("type %d is unknown", kind)
	}
	if size > len(b) {
		return value{}, nil, fmt.Errorf("it has %d bytes, and %d are left", size, len(b))
	}
	var v value
	switch size {
	case 4:
		v.number = uint64(binary.LittleEndian.Uint32(b))
	case 8:
		v.number = binary.LittleEndian.Uint64(b)
	}
	return v, b[size:], nil
}

// readVaruint reads a varuint at the start of b. It returns the number and the bytes
// after it.
func readVaruint(b []byte) (uint64, []byte, error) {
	n, size := binary.Uvarint(b)
	if size <= 0 {
		return 0, nil, errors.New("a number is cut or too large")
	}
	return n, b[size:], nil
}

// appendRow appends the start of a row to b: its header and its presence byte. The caller
// then appends the fields in the order of the schema.
func (l *layout) appendRow(b []byte, presence byte) []byte {
	return append(appendHeader(b, l.schema), presence)
}

func appendInt32(b []byte, n int32) []byte { return binary.LittleEndian.AppendUint32(b, uint32(n)) }

// appendBytes appends the length and the bytes of a variable or sparse field to b.
func appendBytes[T string | []byte](b []byte, v T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// appendSparse appends the type and the name of a sparse field to b. The caller then
// appends the value.
func (l *layout) appendSparse(b []byte, column int, kind code) []byte {
	return binary.AppendUvarint(append(b, byte(kind)), uint64(column+1))
}

// appendSparseText appends a sparse field with a text to b. It appends nothing if the
// text is empty.
func (l *layout) appendSparseText(b []byte, column int, text string) []byte {
	if text == "" {
		return b
	}
	return appendBytes(l.appendSparse(b, column, codeUTF8), text)
}

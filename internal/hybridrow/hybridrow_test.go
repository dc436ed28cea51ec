package hybridrow

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
)

// unhex returns the bytes of a hexadecimal text, which may contain spaces.
func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// These are parts of streams in hexadecimal, in the layouts that .NET's SDK defines.
const (
	segmentHex = "81 f0 d8 ff 7f 01 0a 00 00 00"
	upsertHex  = "81 f1 d8 ff 7f 2c 00 00 00 b9 d7 33 c9 81 70 54 e1 7f 47 14 00 00 00 02 00 00 00 06 5b 22 70 31 22 5d 14 7b 22 69 64 22 3a 22 61 22 2c 22 70 6b 22 3a 22 70 31 22 7d 03 0c"
	deleteHex  = "81 f1 d8 ff 7f 17 00 00 00 f9 20 11 74 81 70 54 e1 7f 13 04 00 00 00 02 00 00 00 01 61 14 09 04 22 65 31 22"
	resultHex  = "81 f1 d8 ff 7f 1d 00 00 00 fe 7b 20 61 81 71 54 e1 7f 07 c9 00 00 00 00 00 00 00 04 22 65 32 22 10 06 29 5c 8f c2 f5 28 19 40"
)

var (
	p1        = `["p1"]`
	upsertRow = Operation{Type: Upsert, ResourceType: Document, PartitionKey: &p1, Body: []byte(`{"id":"a","pk":"p1"}`), Minimal: true}
	deleteRow = Operation{Type: Delete, ResourceType: Document, ID: "a", IfMatch: `"e1"`}
	resultRow = Result{Status: 201, ETag: `"e2"`, Charge: 6.29}
)

// rows returns all rows of a stream. An error fails the test.
func rows(t testing.TB, stream []byte) [][]byte {
	t.Helper()
	var all [][]byte
	r := NewReader(stream)
	for {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, row)
	}
}

func TestRowsEqualThoseOfDotNet(t *testing.T) {
	stream := AppendRecord(AppendRecord(AppendSegment(nil), upsertRow), deleteRow)
	if want := unhex(t, segmentHex+upsertHex+deleteHex); string(stream) != string(want) {
		t.Errorf("written\n got %x\nwant %x", stream, want)
	}
	read := rows(t, stream)
	if len(read) != 2 {
		t.Fatalf("%d records", len(read))
	}
	for i, want := range []Operation{upsertRow, deleteRow} {
		if got, err := ParseOperation(read[i]); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("operation %d\n got %+v, %v\nwant %+v", i, got, err, want)
		}
	}
	stream = AppendRecord(AppendSegment(nil), resultRow)
	if want := unhex(t, segmentHex+resultHex); string(stream) != string(want) {
		t.Errorf("written\n got %x\nwant %x", stream, want)
	}
	if got, err := ParseResult(rows(t, stream)[0]); err != nil || !reflect.DeepEqual(got, resultRow) {
		t.Errorf("result\n got %+v, %v\nwant %+v", got, err, resultRow)
	}
}

func TestEveryFieldIsDecoded(t *testing.T) {
	key, seconds := `["ü",1]`, int32(-1)
	o := Operation{
		Type: Replace, ResourceType: Document, PartitionKey: &key, EffectivePartitionKey: []byte{1, 0xFF}, ID: "ü", BinaryID: []byte{0},
		Body: []byte(strings.Repeat("x", 300)), IndexingDirective: "Exclude", IfMatch: "a", IfNoneMatch: "b", TimeToLive: &seconds, Minimal: true,
	}
	if got, err := ParseOperation(o.Append(nil)); err != nil || !reflect.DeepEqual(got, o) {
		t.Errorf("\n got %+v, %v\nwant %+v", got, err, o)
	}
	r := Result{Status: 429, SubStatus: 3200, ETag: "e", Body: []byte(strings.Repeat("x", 1<<20)), RetryAfter: math.MaxUint32, Charge: 0.1}
	if got, err := ParseResult(r.Append(nil)); err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("another result is decoded: %d %d %q %d bytes %d %v, %v", got.Status, got.SubStatus, got.ETag, len(got.Body), got.RetryAfter, got.Charge, err)
	}
	if got, err := ParseOperation(operationLayout.appendRow(nil, 0)); err == nil {
		t.Errorf("a row without its fixed fields is decoded as %+v", got)
	}
	if got, err := ParseOperation(append(operationLayout.appendRow(nil, 0), make([]byte, 8)...)); err != nil || got.Type != -1 || got.ResourceType != -1 {
		t.Errorf("absent fields are %+v, %v", got, err)
	}
}

func TestCommentsAndFurtherSegmentsAreSkipped(t *testing.T) {
	longer := unhex(t, "81 f0 d8 ff 7f 01 0f 00 00 00 14 02 02 68 69")
	stream := append(longer, unhex(t, deleteHex)...)
	stream = append(append(stream, longer...), unhex(t, segmentHex+upsertHex)...)
	if got := len(rows(t, stream)); got != 2 {
		t.Errorf("%d records of two", got)
	}
	if got := rows(t, unhex(t, segmentHex)); got != nil {
		t.Errorf("a stream of no records has %x", got)
	}
}

func TestUnknownFieldsAreSkipped(t *testing.T) {
	row := deleteRow.Append(nil)
	for _, unknown := range []string{
		"05 10 61 62 63 7f", // abc, an int8
		"16 0e 61 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f", // a, a float128
		"15 0e 62 02 ff fe", // b, binary
		"0d 0e 63 80 01",    // c, a varint
		"01 0e 64",          // d, null
		"02 0e 65",          // e, false
		"01 0b",             // timeToLiveInSeconds, null
		"03 00",             // a field without a name
	} {
		row = append(row, unhex(t, unknown)...)
	}
	got, err := ParseOperation(append(row, 3, 12))
	want := deleteRow
	want.Minimal = true
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v, %v\nwant %+v", got, err, want)
	}
}

func TestErrorsDescribeDamagedStreams(t *testing.T) {
	record := func(row string) string {
		b := unhex(t, row)
		head := binary.LittleEndian.AppendUint32(unhex(t, "81 f1 d8 ff 7f"), uint32(len(b)))
		head = binary.LittleEndian.AppendUint32(head, crc32.ChecksumIEEE(b))
		return segmentHex + hex.EncodeToString(append(head, b...))
	}
	const fixedFields = "81 70 54 e1 7f 03 00 00 00 00 02 00 00 00 "
	for _, c := range []struct{ name, stream, want string }{
		{"nothing", "", "empty"},
		{"no segment", upsertHex, "segment comes first"},
		{"another version", "82 f0 d8 ff 7f 01 0a 00 00 00", "version 0x82"},
		{"another schema", "81 f2 d8 ff 7f 01 0a 00 00 00", "schema 2147473650"},
		{"a short header", "81 f0 d8", "too few"},
		{"a short segment", "81 f0 d8 ff 7f 01 0a", "too few"},
		{"a segment of no length", "81 f0 d8 ff 7f 01 00 00 00 00", "0 bytes"},
		{"a segment without its length", "81 f0 d8 ff 7f 00 0a 00 00 00", "segment"},
		{"a segment beyond the end", "81 f0 d8 ff 7f 01 0b 00 00 00", "11 bytes"},
		{"a segment of negative length", "81 f0 d8 ff 7f 01 ff ff ff ff", "-1 bytes"},
		{"a short record", segmentHex + "81 f1 d8 ff 7f 2c", "too few"},
		{"a record beyond the end", segmentHex + deleteHex[:len(deleteHex)-3], "23 bytes"},
		{"a record of negative length", segmentHex + "81 f1 d8 ff 7f ff ff ff ff 00 00 00 00", "-1 bytes"},
		{"an empty record", segmentHex + "81 f1 d8 ff 7f 00 00 00 00 00 00 00 00", "0 bytes"},
		{"a wrong checksum", segmentHex + strings.Replace(deleteHex, "f9 20", "f9 21", 1), "checksum"},
		{"a changed row", segmentHex + strings.Replace(deleteHex, "01 61", "01 62", 1), "checksum"},
		{"a result", segmentHex + resultHex, "schema is 2145473649"},
		{"a row without fields", record("81 70 54 e1 7f"), "ends before"},
		{"half a fixed field", record("81 70 54 e1 7f 03 00 00"), "operationType"},
		{"a text beyond the end", record("81 70 54 e1 7f 13 00 00 00 00 02 00 00 00 05 61"), "field id: it has 5 bytes, and 1 are left"},
		{"a length of 2^64", record("81 70 54 e1 7f 13 00 00 00 00 02 00 00 00 ff ff ff ff ff ff ff ff ff 01"), "field id"},
		{"a length without end", record("81 70 54 e1 7f 13 00 00 00 00 02 00 00 00 ff ff ff ff ff ff ff ff ff ff ff"), "field id"},
		{"a text with invalid UTF-8", record("81 70 54 e1 7f 13 00 00 00 00 02 00 00 00 01 ff"), "UTF-8"},
		{"a sparse field of another type", record(fixedFields + "07 09 00 00 00 00"), "ifMatch"},
		{"a boolean that is a number", record(fixedFields + "05 0c 01"), "minimalReturnPreference"},
		{"a fixed field among the sparse ones", record(fixedFields + "07 01 00 00 00 00"), "operationType"},
		{"a duplicate field", record(fixedFields + "03 0c 02 0c"), "duplicate"},
		{"an unknown type", record(fixedFields + "63 0c"), "type 99"},
		{"an object", record(fixedFields + "1e 0e 61 46"), "type 30"},
		{"a sparse field without a name", record(fixedFields + "03"), "name"},
		{"half a name", record(fixedFields + "03 10 61"), "name"},
		{"a sparse value beyond the end", record(fixedFields + "14 09 05 61"), "sparse field 9"},
	} {
		err := readAll(unhex(t, c.stream))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.name, err, c.want)
		}
	}
}

// readAll decodes all operations of a stream and returns the first error.
func readAll(stream []byte) error {
	r := NewReader(stream)
	for {
		row, err := r.Next()
		if err == nil {
			_, err = ParseOperation(row)
		} else if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// FuzzRead checks that no stream makes the reader panic. Every decoded row must be the
// same after it was encoded and decoded again.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{segmentHex + upsertHex + deleteHex, segmentHex + resultHex, "81 f0 d8 ff 7f 01 0f 00 00 00 14 02 02 68 69" + deleteHex} {
		f.Add(unhex(f, seed))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := NewReader(stream)
		for {
			row, err := r.Next()
			if err != nil {
				break
			}
			same(t, row, ParseOperation)
			same(t, row, ParseResult)
		}
		// Few streams have a correct checksum, so the bytes are also decoded as a row.
		same(t, stream, ParseOperation)
		same(t, stream, ParseResult)
	})
}

// same checks that a valid row is the same after it was encoded and decoded again.
func same[T Row](t *testing.T, row []byte, parse func([]byte) (T, error)) {
	t.Helper()
	first, err := parse(row)
	if err != nil {
		return
	}
	again, err := parse(first.Append(nil))
	if err != nil {
		t.Fatalf("%x is decoded as %+v, which is refused when it is encoded: %v", row, first, err)
	}
	if a, b := first.Append(nil), again.Append(nil); string(a) != string(b) {
		t.Fatalf("%x is %x, and then %x", row, a, b)
	}
}

func TestBodiesAreNotCopied(t *testing.T) {
	large := upsertRow
	large.Body = make([]byte, 1<<20)
	row := large.Append(nil)
	got, err := ParseOperation(row)
	if err != nil || &got.Body[0] != &row[len(row)-2-len(large.Body)] { // the last two bytes are another field
		t.Errorf("a body was copied: %v", err)
	}
}

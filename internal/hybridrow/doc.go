// Package hybridrow encodes and decodes the batches of .NET's SDK. A batch is a list of
// rows in HybridRow, a binary encoding of rows that follow a schema. RecordIO, the framing
// of HybridRow, separates the rows.
//
// A [Reader] reads the rows of a request. [ParseOperation] decodes an [Operation]:
//
//	r := hybridrow.NewReader(body)
//	row, err := r.Next() // io.EOF after the last row
//	operation, err := hybridrow.ParseOperation(row)
//
// A response has a [Result] for each operation:
//
//	body := hybridrow.AppendSegment(nil)
//	body = hybridrow.AppendRecord(body, hybridrow.Result{Status: 201, ETag: `"1"`})
//
// The package has only the schemas of batches: BatchOperation and BatchResult of the
// namespace Microsoft.Azure.Cosmos.BatchApi. The SDK contains them, so it never sends a
// schema. The layouts come from the public sources microsoft/HybridRow and
// azure-cosmos-dotnet-v3.
//
// # Encoding
//
// Numbers are little-endian. A varuint has seven bits a byte, the lowest first. A stream
// is the header of a segment, records, and perhaps more segments. The header of a
// segment, a record and the content of a record are rows. A row begins with a version,
// 0x81, and the number of its schema.
//
//	segment  81 F0D8FF7F presence length(int32)           length of the header with all optional fields
//	record   81 F1D8FF7F length(int32) crc(uint32) row    CRC-32 (IEEE) of the row
//	row      81 schema presence fixed variable sparse
//
// presence has a bit for every fixed and variable field, in their order, the lowest
// first. An absent fixed field still has its bytes. A variable field is a varuint length
// and bytes. A sparse field is a type, a varuint that names the field, and a value.
// Sparse fields fill the rest of the row, in any order.
//
// All functions are pure and safe for concurrent use, but a [Reader] is not. Decoded
// values refer to the bytes of the stream. For an invalid stream, [Reader.Next] and the
// Parse functions return an error that describes the mistake. Decoding takes no more
// memory than the stream.
package hybridrow

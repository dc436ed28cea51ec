// Package hybridrow reads and writes the batches of .NET's SDK: HybridRow, the binary form of rows by
// a schema, in the framing called RecordIO.
//
//	r := hybridrow.NewReader(body)
//	row, err := r.Next() // io.EOF behind the last
//	operation, err := hybridrow.ParseOperation(row)
//
//	answer := hybridrow.AppendSegment(nil)
//	answer = hybridrow.AppendRecord(answer, hybridrow.Result{Status: 201, ETag: `"1"`})
//
// Only what a batch needs is here: the schemas BatchOperation and BatchResult of the namespace Microsoft.Azure.Cosmos.BatchApi,
// which the SDK has built in, so that none is ever sent. Layouts are those of the public sources of microsoft/HybridRow and of
// azure-cosmos-dotnet-v3.
//
// # The form
//
// Numbers are little-endian; a varuint has seven bits a byte, the lowest first. A stream is a segment's header and records
// behind it, and maybe more segments. All three are rows: a version, 0x81, and a schema's number, before the fields.
//
//	segment  81 F0D8FF7F presence length(int32)            length is that of the header, all optional fields included
//	record   81 F1D8FF7F length(int32) crc(uint32) row     CRC-32 (IEEE) of the row's bytes
//	row      81 schema presence fixed variable sparse
//
// presence has a bit for every fixed and variable field, in their order, the lowest first. A fixed field takes its place whether
// it is present or not. A variable field is a varuint length and bytes, a sparse one a type, a varuint that
// names the field, and the value. Sparse fields go on to the end of the row, in any order.
//
// Everything here is pure and safe for concurrent use, except a [Reader], which belongs to one goroutine. What is read refers
// to the bytes it was read from. Bytes that are no such stream are an error that says what is wrong where, never a panic,
// and cost no more memory than they have.
package hybridrow

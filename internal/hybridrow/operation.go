package hybridrow

// OperationType is the type of an operation, with its number in .NET's SDK.
type OperationType int32

// The types of operations in a batch.
const (
	Create  OperationType = 0
	Patch   OperationType = 1
	Read    OperationType = 2
	Delete  OperationType = 4
	Replace OperationType = 5
	Upsert  OperationType = 20
)

// Document is the resource type of a document. Batches have no other resource type.
const Document = 2

// operationLayout is the schema BatchOperation.
var operationLayout = layout{
	name: "batch operation", schema: 2145473648, columns: []column{
		{"operationType", codeInt32, fixed},
		{"resourceType", codeInt32, fixed},
		{"partitionKey", codeUTF8, variable},
		{"effectivePartitionKey", codeBinary, variable},
		{"id", codeUTF8, variable},
		{"binaryId", codeBinary, variable},
		{"resourceBody", codeBinary, variable},
		{"indexingDirective", codeUTF8, sparse},
		{"ifMatch", codeUTF8, sparse},
		{"ifNoneMatch", codeUTF8, sparse},
		{"timeToLiveInSeconds", codeInt32, sparse},
		{"minimalReturnPreference", codeTrue, sparse},
	},
}

// The indexes of operationLayout's columns.
const (
	opType = iota
	opResource
	opKey
	opEPK
	opID
	opBinaryID
	opBody
	opIndexing
	opIfMatch
	opIfNoneMatch
	opTimeToLive
	opMinimal
)

// Operation is one operation of a batch. Absent fields are nil or empty.
type Operation struct {
	// Type is -1 if the row has no type.
	Type OperationType
	// ResourceType is [Document], or -1 if the row has no resource type.
	ResourceType int32
	// PartitionKey is the logical partition key, a JSON array. If nil, the request's key
	// is used.
	PartitionKey *string
	// EffectivePartitionKey is the hash of the key, which internal users send instead of
	// the key.
	EffectivePartitionKey []byte
	// ID is the item's id.
	ID string
	// BinaryID is an id in binary form, which internal users send.
	BinaryID []byte
	// Body is the document, or the operations of a patch, as JSON text.
	Body []byte
	// IndexingDirective is Default, Include or Exclude.
	IndexingDirective string
	// IfMatch and IfNoneMatch are the etags of the operation's condition.
	IfMatch, IfNoneMatch string
	// TimeToLive is a time in seconds that internal users send.
	TimeToLive *int32
	// Minimal requests a result without the document.
	Minimal bool
}

// ParseOperation decodes an operation. The byte slices of the operation are parts of the
// row. It accepts unknown types and does not check which fields a type needs.
func ParseOperation(row []byte) (Operation, error) {
	o := Operation{Type: -1, ResourceType: -1}
	err := operationLayout.read(row, func(column int, v value) {
		switch column {
		case opType:
			o.Type = OperationType(v.int32())
		case opResource:
			o.ResourceType = v.int32()
		case opKey:
			key := string(v.bytes)
			o.PartitionKey = &key
		case opEPK:
			o.EffectivePartitionKey = v.bytes
		case opID:
			o.ID = string(v.bytes)
		case opBinaryID:
			o.BinaryID = v.bytes
		case opBody:
			o.Body = v.bytes
		case opIndexing:
			o.IndexingDirective = string(v.bytes)
		case opIfMatch:
			o.IfMatch = string(v.bytes)
		case opIfNoneMatch:
			o.IfNoneMatch = string(v.bytes)
		case opTimeToLive:
			seconds := v.int32()
			o.TimeToLive = &seconds
		case opMinimal:
			o.Minimal = v.number != 0
		}
	})
	return o, err
}

// Append appends the encoded operation, like .NET's SDK. Strings must be UTF-8.
func (o Operation) Append(b []byte) []byte {
	at := len(b) + headerSize
	b = operationLayout.appendRow(b, 1<<opType|1<<opResource)
	b = appendInt32(b, int32(o.Type))
	b = appendInt32(b, o.ResourceType)
	if o.PartitionKey != nil {
		b = appendBytes(b, *o.PartitionKey)
		b[at] |= 1 << opKey
	}
	if o.EffectivePartitionKey != nil {
		b = appendBytes(b, o.EffectivePartitionKey)
		b[at] |= 1 << opEPK
	}
	if o.ID != "" {
		b = appendBytes(b, o.ID)
		b[at] |= 1 << opID
	}
	if o.BinaryID != nil {
		b = appendBytes(b, o.BinaryID)
		b[at] |= 1 << opBinaryID
	}
	if o.Body != nil {
		b = appendBytes(b, o.Body)
		b[at] |= 1 << opBody
	}
	l := &operationLayout
	b = l.appendSparseText(b, opIndexing, o.IndexingDirective)
	b = l.appendSparseText(b, opIfMatch, o.IfMatch)
	b = l.appendSparseText(b, opIfNoneMatch, o.IfNoneMatch)
	if o.TimeToLive != nil {
		b = appendInt32(l.appendSparse(b, opTimeToLive, codeInt32), *o.TimeToLive)
	}
	if o.Minimal {
		b = l.appendSparse(b, opMinimal, codeTrue)
	}
	return b
}

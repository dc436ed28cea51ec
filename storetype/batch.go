package storetype

import "fmt"

// OpKind is the kind of an operation of a batch.
type OpKind int

// The kinds of operations.
const (
	OpCreate OpKind = iota + 1
	OpUpsert
	OpReplace
	OpDelete
	OpRead
	// OpChange replaces an item with the result of [Operation].Change.
	OpChange
)

// Operation is an operation of a batch.
type Operation struct {
	// Kind must be set.
	Kind OpKind
	// ID is the id of the item. OpCreate and OpUpsert ignore it and read the id from the
	// body.
	ID string
	// Body is the document of OpCreate, OpUpsert and OpReplace.
	Body []byte
	// Change is the function of OpChange. It receives the old document, system properties
	// included, and returns the new one. All writes wait while it runs, so it must be
	// quick, must not call the store, and must not keep old. The operation fails with its
	// error, which is returned unchanged.
	Change func(old []byte) ([]byte, error)
	// IfMatch and IfNoneMatch are as in [WriteOptions] and [ReadOptions].
	IfMatch, IfNoneMatch string
	// NoBody and ExactCharge are as in [WriteOptions]. OpRead ignores them.
	NoBody, ExactCharge bool
}

// BatchError reports which operation of a batch failed. No operation of the batch was
// applied.
type BatchError struct {
	// Index is the index of the operation in the batch, from 0.
	Index int
	// Err is the operation's error. For an [OpChange] it may be the function's error.
	Err error
	// Partition, End and Charge are as in [Result], for the whole batch. Partition is
	// empty if the batch was refused before it reached a partition.
	Partition string
	End       int64
	Charge    float64
	// Charges has the part of each operation in Charge.
	Charges []float64
}

func (e *BatchError) Error() string {
	return fmt.Sprintf("operation %d of the batch: %v", e.Index, e.Err)
}

// Unwrap returns the operation's error.
func (e *BatchError) Unwrap() error { return e.Err }

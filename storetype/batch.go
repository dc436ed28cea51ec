package storetype

import "fmt"

// OpKind is the kind of an operation in a batch.
type OpKind int

// The kinds of operations.
const (
	OpCreate OpKind = iota + 1
	OpUpsert
	OpReplace
	OpDelete
	OpRead
	// OpChange replaces an item with what [Operation].Change returns.
	OpChange
)

// Operation is one operation in a batch.
type Operation struct {
	// Kind must be set.
	Kind OpKind
	// ID is the item's id. OpCreate and OpUpsert ignore it and read the id from the body.
	ID string
	// Body is the document for OpCreate, OpUpsert and OpReplace.
	Body []byte
	// Change makes OpChange's new document from the old one, whose system properties are
	// included. Because all writes wait while it runs, it must be quick and must not call
	// the store; nor may it keep old. If it returns an error, the operation fails with it
	// unchanged.
	Change func(old []byte) ([]byte, error)
	// IfMatch and IfNoneMatch are as in [WriteOptions] and [ReadOptions].
	IfMatch, IfNoneMatch string
	// NoBody and ExactCharge are as in [WriteOptions]. OpRead ignores them.
	NoBody, ExactCharge bool
}

// BatchError reports which operation in a batch failed. None was applied.
type BatchError struct {
	// Index is the operation's index in the batch, from 0.
	Index int
	// Err is the operation's error. For an [OpChange] it may be the function's error.
	Err error
	// Partition, End and Charge are as in [Result], for the whole batch. Partition is
	// empty if the batch was refused before it reached a partition.
	Partition string
	End       int64
	Charge    float64
	// Charges has each operation's part in Charge.
	Charges []float64
}

func (e *BatchError) Error() string {
	return fmt.Sprintf("operation %d of the batch: %v", e.Index, e.Err)
}

// Unwrap returns the operation's error.
func (e *BatchError) Unwrap() error { return e.Err }

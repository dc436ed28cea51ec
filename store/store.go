package store

import "github.com/changefeed-go/changefeed/internal/engine"

// The limits and errors of the engine.
const (
	MaxBatchOperations = engine.MaxBatchOperations
	MaxBatchSize       = engine.MaxBatchSize
	MaxBatchResult     = engine.MaxBatchResult
	MaxDocumentSize    = engine.MaxDocumentSize
	MaxIDSize          = engine.MaxIDSize
	MaxDepth           = engine.MaxDepth
	MaxKeyPaths        = engine.MaxKeyPaths
	MaxKeySize         = engine.MaxKeySize
	MaxNameSize        = engine.MaxNameSize
	MaxPartitions      = engine.MaxPartitions
	MaxExtraSize       = engine.MaxExtraSize
	MaxUniqueKeys      = engine.MaxUniqueKeys
	MaxUniqueKeyPaths  = engine.MaxUniqueKeyPaths
	BadBody            = engine.BadBody
	BadID              = engine.BadID
	BadKey             = engine.BadKey
	KeyMismatch        = engine.KeyMismatch
	BadTTL             = engine.BadTTL
	BadProperties      = engine.BadProperties
	BadContinuation    = engine.BadContinuation
	BadBatch           = engine.BadBatch
	BadRange           = engine.BadRange
	DefaultHash        = engine.DefaultHash
	HashV1             = engine.HashV1
	HashV2             = engine.HashV2
	MultiHash          = engine.MultiHash
	OpCreate           = engine.OpCreate
	OpUpsert           = engine.OpUpsert
	OpReplace          = engine.OpReplace
	OpDelete           = engine.OpDelete
	OpRead             = engine.OpRead
	OpChange           = engine.OpChange
)

// The errors of identity.
var (
	ErrConflict           = engine.ErrConflict
	ErrPreconditionFailed = engine.ErrPreconditionFailed
	ErrNotModified        = engine.ErrNotModified
	ErrClosed             = engine.ErrClosed
	ErrFull               = engine.ErrFull
)

// The types of the engine.
type (
	BadRequestError     = engine.BadRequestError
	BadRequestKind      = engine.BadRequestKind
	BatchError          = engine.BatchError
	Container           = engine.Container
	ContainerProperties = engine.ContainerProperties
	CorruptError        = engine.CorruptError
	DB                  = engine.DB
	DatabaseProperties  = engine.DatabaseProperties
	DiskError           = engine.DiskError
	FormatError         = engine.FormatError
	Item                = engine.Item
	ItemsPage           = engine.ItemsPage
	ItemsRequest        = engine.ItemsRequest
	KeyVersion          = engine.KeyVersion
	Leases              = engine.Leases
	LockedError         = engine.LockedError
	OpKind              = engine.OpKind
	Operation           = engine.Operation
	Options             = engine.Options
	PartitionStats      = engine.PartitionStats
	ReadOptions         = engine.ReadOptions
	Record              = engine.Record
	Result              = engine.Result
	TooLargeError       = engine.TooLargeError
	UniqueKeyError      = engine.UniqueKeyError
	VisitedItem         = engine.VisitedItem
	WriteOptions        = engine.WriteOptions
)

// Open opens the store in the directory dir.
func Open(dir string, o Options) (*DB, error) { return engine.Open(dir, o) }

// OpenMemory opens a new, empty store in memory.
func OpenMemory(o Options) (*DB, error) { return engine.OpenMemory(o) }

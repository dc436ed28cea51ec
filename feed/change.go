package feed

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/internal/jsonscan"
)

// Op is what happened to an item.
type Op uint8

const (
	// Upsert is a write of which latest version mode doesn't tell whether it
	// created or replaced the item.
	Upsert Op = iota
	// Create made the item. It, Replace and Delete are those of all versions and
	// deletes mode.
	Create
	// Replace wrote an item that was there.
	Replace
	// Delete deleted the item, or its time to live did.
	Delete
)

// String names the operation as the protocol does.
func (o Op) String() string {
	switch o {
	case Create:
		return "create"
	case Replace:
		return "replace"
	case Delete:
		return "delete"
	case Upsert:
	}
	return "upsert"
}

// Change is one entry of a change feed.
//
// Current and Previous are slices of the one buffer of the page they came with.
// They must not be written to. The buffer is never used again, so a handler may
// keep them, and by that keeps the whole page alive.
type Change struct {
	// Op is Upsert in latest version mode.
	Op Op
	// Expired tells that the delete was made by the item's time to live.
	Expired bool
	// LSN is the position of the transaction that made the change: positive,
	// rising within a partition and across its ancestors, not to be compared
	// between partitions. All changes of one transaction share it.
	LSN int64
	// Time is the time of the write, in UTC and whole seconds (_ts).
	Time time.Time
	// Current is the item after the change, system properties included. It is
	// nil for a delete.
	Current json.RawMessage
	// Previous is the item before the change, where the engine keeps it (all
	// versions and deletes mode only).
	Previous json.RawMessage
	// DeletedID and DeletedKey name the item of a delete. They are set on
	// nothing else: what still has a Current carries both in it.
	DeletedID  string
	DeletedKey PartitionKey
}

// ErrNoID is returned by [Change.ID] when the change names no item: its JSON has
// no member "id" that is a string.
var ErrNoID = errors.New("the change has no id")

// ID returns the id of the item that changed. It is found by a scan of Current
// at each call, because most handlers don't need it and those that decode the
// item have it anyway. For a delete it is DeletedID, or else what Previous says.
// The error wraps [ErrNoID].
func (c Change) ID() (string, error) {
	if c.Current == nil && c.DeletedID != "" {
		return c.DeletedID, nil
	}
	item := c.Current
	if item == nil {
		item = c.Previous
	}
	id, err := scanID(item)
	if err != nil {
		return "", fmt.Errorf("%w: %w (LSN %d)", ErrNoID, err, c.LSN)
	}
	return id, nil
}

// The reasons why scanID finds nothing, besides a *jsonscan.SyntaxError.
var (
	errNoMember   = errors.New("no such member")
	errNotAString = errors.New("not a string")
)

// maxDepth bounds the nesting of items, as encoding/json does.
const maxDepth = 10_000

// scanID returns the value of the first member "id" of an item. It does not look at the text behind it.
func scanID(item []byte) (string, error) {
	in := jsonscan.New(item, maxDepth)
	in.Space()
	for more, err := in.Object(1); more || err != nil; more, err = in.Next('}') {
		if err != nil {
			return "", err
		}
		name, err := in.Name()
		switch {
		case err != nil:
			return "", err
		case !name.Is("id"):
			if err := in.Value(2); err != nil {
				return "", err
			}
		case in.Peek() != '"':
			return "", errNotAString
		default:
			id, err := in.Text()
			return id.String(), err
		}
	}
	return "", errNoMember
}

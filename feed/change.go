package feed

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/internal/jsonscan"
)

// Op is the operation that a [Change] records.
type Op uint8

const (
	// Upsert is a write in latest version mode, which does not report whether the write
	// created or replaced the item.
	Upsert Op = iota
	// Create is a new item's first write. Create, Replace and Delete appear in all versions
	// and deletes mode only.
	Create
	// Replace is a write to an existing item.
	Replace
	// Delete means that the item was deleted, by a request or by its time to live.
	Delete
)

// String returns what the protocol calls the operation.
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

// Change is one entry in a change feed.
//
// Current and Previous are slices of their page's buffer, so do not write to them. A
// handler may keep them because the buffer is never reused, but one slice keeps the whole
// page in memory; copy what you keep for long.
type Change struct {
	// Op is the operation, always Upsert in latest version mode.
	Op Op
	// Expired reports whether the item's time to live caused the delete.
	Expired bool
	// LSN is the position of the transaction that made the change, and all changes in one
	// transaction share it. It is positive and rises within a partition and its ancestors,
	// but says nothing beside an LSN from another partition.
	LSN int64
	// Time is when the item was written, in UTC and whole seconds (_ts).
	Time time.Time
	// Current is the item after the change, with its system properties, or nil for a delete.
	Current json.RawMessage
	// Previous is the item before the change, in all versions and deletes mode and if the
	// engine keeps it. Otherwise it is nil.
	Previous json.RawMessage
	// DeletedID and DeletedKey name a deleted item. They are zero otherwise, because Current
	// contains both.
	DeletedID  string
	DeletedKey PartitionKey
}

// ErrNoID is returned by [Change.ID] if the change names no item: its JSON has no member
// "id" that is a string.
var ErrNoID = errors.New("the change has no id")

// ID returns the id of the item that changed: for a delete DeletedID or, if that is
// empty, the id in Previous. Each call scans Current, since most handlers do not need the
// id, so call it once. The error wraps [ErrNoID].
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

// These are the errors of scanID, besides a *jsonscan.SyntaxError.
var (
	errNoMember   = errors.New("no such member")
	errNotAString = errors.New("not a string")
)

// maxDepth is the maximum nesting of an item that scanID reads. encoding/json has the
// same limit.
const maxDepth = 10_000

// scanID returns the value of an item's first member "id". It does not read the text
// after that member.
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

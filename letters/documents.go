package letters

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"github.com/changefeed-go/changefeed/feed"
)

// Documents is what an engine does for the letters: it reads, writes and finds documents in a
// container that is partitioned by [KeyPath]. An engine implements it and makes it a [Store]
// with [NewStore]. The methods are safe for concurrent use.
//
// If it is a [feed.Identifier], or has a method Charged() float64, the Store has that, too.
type Documents interface {
	// Read returns a document with its member _etag. The error wraps [feed.ErrNotFound] if
	// the document does not exist.
	Read(ctx context.Context, pk, id string) ([]byte, error)
	// Write executes one write, and returns the new ETag unless it is a delete.
	Write(ctx context.Context, w Write) (etag string, err error)
	// Find returns the documents that s selects, in any order, with at least the members
	// that [Selection.Members] returns.
	Find(ctx context.Context, s Selection) iter.Seq2[json.RawMessage, error]
	// Session merges a session token into the Documents' own, and returns the result. Every
	// Read and Find uses the merged token, and every answer from the service, also a refusal,
	// is merged into it. An engine without session tokens returns "".
	Session(token string) string
}

// These are the errors of a [Write], besides one that wraps [feed.ErrNotFound] if the document
// to replace or delete does not exist.
var (
	// ErrExists is returned by a create if there is a document with that id.
	ErrExists = errors.New("the document exists")
	// ErrChanged is returned if the document's ETag is not the write's.
	ErrChanged = errors.New("the document was changed")
)

// Method says what a [Write] does.
type Method int

// What a [Write] may do.
const (
	Create Method = iota + 1
	Upsert
	Replace
	Delete
)

// Write is one write of a document.
type Write struct {
	Method Method
	// PK is the document's partition key, and ID its id.
	PK, ID string
	// ETag is what a replace or a delete requires the document to have. If empty, it may have any.
	ETag string
	// Document is the JSON text, unless the write is a delete.
	Document []byte
}

// Selection says which documents [Documents].Find returns. A document has to meet every
// condition; an empty field is none.
type Selection struct {
	// Key selects one processor's and source's letters, unless its RID is empty.
	Key Key
	// Range selects letters by their hash.
	Range feed.Range
	// PK selects one logical partition, and ID the documents with that id.
	PK, ID string
	// PartsOf selects the parts that belong to the letter with that id. If empty, letters are
	// selected, and no parts.
	PartsOf string
}

// Members returns the members that the found documents must have, if they are stored. What is
// large is not among them.
func (s Selection) Members() []string {
	if s.PartsOf != "" {
		return []string{"id", "_etag"}
	}
	return []string{
		"id", "pk", "type", "state", "processor", "account", "source", "database", "container", "key", "hash", "item", "lsn", "place", "index",
		"sequence", "time", "operation", "expired", "parts", "error", "attempts", "host", "lease", "first", "last", "_etag",
	}
}

// Conditions returns the members that a found document must have with the value that is given
// here, beside the range of the member hash, for engines with queries.
func (s Selection) Conditions() map[string]string {
	all := map[string]string{"type": typeLetter}
	if s.PartsOf != "" {
		all = map[string]string{"type": typePart, "letter": s.PartsOf}
	} else if !s.Key.all() {
		all["processor"], all["account"], all["source"] = s.Key.Processor, s.Key.Source.Account, s.Key.Source.RID
	}
	if s.PK != "" {
		all["pk"] = s.PK
	}
	if s.ID != "" {
		all["id"] = s.ID
	}
	return all
}

// Holds reports whether s selects a document, for engines without queries.
func (s Selection) Holds(document []byte) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(document, &members) != nil {
		return false
	}
	value := func(name string) (text string) {
		_ = json.Unmarshal(members[name], &text) // what is no text meets no condition
		return text
	}
	for name, want := range s.Conditions() {
		if value(name) != want {
			return false
		}
	}
	return s.PartsOf != "" || s.Range.OrFull().Holds(value("hash"))
}

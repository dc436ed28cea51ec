package letters

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"github.com/changefeed-go/changefeed/feed"
)

// Documents is what an engine does for the letters: it reads, writes and finds documents in a
// container that is partitioned by [KeyPath]. An engine implements it and makes its [Store] of
// it with [NewStore]. The methods are safe for concurrent use.
//
// If it is a [feed.Identifier], or has a method Charged() float64, the Store has that, too.
type Documents interface {
	// Read returns a document with its member _etag. The error wraps [feed.ErrNotFound] if
	// the document does not exist.
	Read(ctx context.Context, pk, id string) ([]byte, error)
	// Write executes one write, and returns the new ETag unless it is a delete.
	Write(ctx context.Context, w Write) (etag string, err error)
	// Find returns the documents that s selects, in any order. It may leave out the members
	// current, previous, stack and text.
	Find(ctx context.Context, s Selection) iter.Seq2[json.RawMessage, error]
	// Session merges a session token into the Documents' own, and returns the result. Every
	// Read and Find uses the merged token, and every answer of the service, also a refusal,
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

// Method is the kind of a [Write].
type Method int

// The kinds of writes.
const (
	Create Method = iota
	Upsert
	Replace
	Delete
)

// Write is one write of a document.
type Write struct {
	Method Method
	// PK is the document's partition key, and ID its id.
	PK, ID string
	// ETag is the condition of a replace or a delete. If empty, there is none.
	ETag string
	// Document is the JSON text, unless the write is a delete.
	Document []byte
}

// Selection says which documents [Documents].Find returns. A document has to meet every
// condition; an empty field is none.
type Selection struct {
	// Key selects the letters of one processor and source, unless its RID is empty.
	Key Key
	// Range selects letters by their hash.
	Range feed.Range
	// PK selects one logical partition, and ID the documents with that id.
	PK, ID string
	// PartsOf selects the parts of the letter with that id. If empty, letters are selected,
	// and no parts.
	PartsOf string
}

// Holds reports whether s selects a document, for engines without queries.
func (s Selection) Holds(document []byte) bool {
	var m struct {
		ID        string `json:"id"`
		PK        string `json:"pk"`
		Type      string `json:"type"`
		Letter    string `json:"letter"`
		Processor string `json:"processor"`
		Account   string `json:"account"`
		Source    string `json:"source"`
		Hash      string `json:"hash"`
	}
	if json.Unmarshal(document, &m) != nil {
		return false
	}
	switch {
	case s.PK != "" && m.PK != s.PK, s.ID != "" && m.ID != s.ID:
		return false
	case s.PartsOf != "":
		return m.Type == typePart && m.Letter == s.PartsOf
	case !s.Key.all() && (m.Processor != s.Key.Processor || m.Account != s.Key.Source.Account || m.Source != s.Key.Source.RID):
		return false
	}
	return m.Type == typeLetter && s.Range.OrFull().Holds(m.Hash)
}

package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sort"
	"strconv"
	"sync"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/letters"
)

// maxDocument is the largest document in bytes, as in Azure Cosmos DB.
const maxDocument = 2 << 20

// Letters is a letters container in memory. It implements [letters.Container].
type Letters struct {
	mu   sync.Mutex // guards the fields below; held for lookups only
	docs map[string]json.RawMessage
	etag int
}

// NewLetters returns an empty letters container.
func NewLetters() *Letters { return &Letters{docs: map[string]json.RawMessage{}} }

// Open implements [letters.Container].
func (m *Letters) Open(ctx context.Context, k letters.Key) (letters.Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return letters.NewStore(k, letterDocuments{m}, maxDocument), nil
}

// letterDocuments implements [letters.Documents].
type letterDocuments struct{ *Letters }

// path names a document. A partition key has no line break in front of an id.
func path(pk, id string) string { return pk + "\n" + id }

// Session implements [letters.Documents]. Every read sees every write.
func (letterDocuments) Session(string) string { return "" }

// Read implements [letters.Documents].
func (m letterDocuments) Read(ctx context.Context, pk, id string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if d, found := m.docs[path(pk, id)]; found {
		return d, nil
	}
	return nil, feed.ErrNotFound
}

// Write implements [letters.Documents].
func (m letterDocuments) Write(ctx context.Context, w letters.Write) (etag string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if len(w.Document) > maxDocument {
		return "", fmt.Errorf("the document has %d bytes, more than %d", len(w.Document), maxDocument)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	current, found := m.docs[path(w.PK, w.ID)]
	switch w.Method {
	case letters.Create:
		if found {
			return "", letters.ErrExists
		}
	case letters.Replace, letters.Delete:
		if !found {
			return "", feed.ErrNotFound
		}
		if w.ETag != "" && w.ETag != etagOf(current) {
			return "", letters.ErrChanged
		}
	case letters.Upsert:
	}
	if w.Method == letters.Delete {
		delete(m.docs, path(w.PK, w.ID))
		return "", nil
	}
	m.etag++
	etag = `"e` + strconv.Itoa(m.etag) + `"`
	m.docs[path(w.PK, w.ID)] = fmt.Appendf(nil, `%s,"_etag":%q}`, bytes.TrimSuffix(w.Document, []byte("}")), etag)
	return etag, nil
}

// etagOf returns the ETag of a stored document.
func etagOf(document []byte) string {
	var m struct {
		ETag string `json:"_etag"`
	}
	_ = json.Unmarshal(document, &m) // Write has made it
	return m.ETag
}

// Find implements [letters.Documents].
func (m letterDocuments) Find(ctx context.Context, s letters.Selection) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(nil, err)
			return
		}
		for _, d := range m.all() {
			if s.Holds(d) && !yield(d, nil) {
				return
			}
		}
	}
}

// all returns all documents, sorted by their names.
func (m letterDocuments) all() []json.RawMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := make([]string, 0, len(m.docs))
	for name := range m.docs {
		names = append(names, name)
	}
	sort.Strings(names)
	all := make([]json.RawMessage, len(names))
	for i, name := range names {
		all[i] = m.docs[name]
	}
	return all
}

var _ letters.Documents = letterDocuments{}

package engine

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// changed calls the operation's change function with the item's document, and returns the
// new document. It checks that id and key have not changed.
func (t *transaction) changed(op *operation, old version) (doc layout.Document, err error) {
	stored, err := t.appendDocument(nil, op, old)
	if err != nil {
		return doc, err
	}
	public, err := layout.AppendPublic(nil, stored)
	if err != nil {
		return doc, err
	}
	body, err := runChange(op.change, public)
	if err != nil {
		return doc, err
	}
	c := t.l.c
	doc, err = layout.ParseDocument(body, c.paths, t.l.meta.props.DefaultTTL != layout.TTLOff)
	if err != nil {
		return doc, err
	}
	if err := t.produce(max(len(body), len(doc.Body))); err != nil {
		return doc, err
	}
	if doc.ID != op.id {
		return doc, layout.BadRequest(storetype.BadID, "a change cannot give item %q the id %q", op.id, doc.ID)
	}
	if !bytes.Equal(c.hash.Append(nil, doc.Components()), op.point) {
		return doc, layout.BadRequest(storetype.KeyMismatch, "a change cannot give item %q another partition key", op.id)
	}
	return doc, c.prepareUnique(op, doc)
}

// produce adds n to the bytes that a transaction makes. It returns a *[storetype.TooLargeError]
// above the limit. Without a limit, a hundred small changes could rewrite a hundred large
// documents while all writers wait.
func (t *transaction) produce(n int) error {
	if t.made += n; t.made > MaxBatchResult {
		return &storetype.TooLargeError{What: "batch", Size: t.made, Limit: MaxBatchResult}
	}
	return nil
}

var errNoChange = errors.New("an operation of kind OpChange has no function")

// runChange calls f and returns its result. It returns a panic of f as an error, because
// a panic must not end the sequencer.
func runChange(f func([]byte) ([]byte, error), old []byte) (body []byte, err error) {
	if f == nil {
		return nil, errNoChange
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("change: panic: %v", p)
		}
	}()
	return f(old)
}

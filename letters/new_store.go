package letters

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/changefeed-go/changefeed/feed"
)

// NewStore returns k's letters in an engine's documents, which have at most limit bytes each.
// Only engines need it; a program calls [Container].Open.
func NewStore(k Key, d Documents, limit int) Store {
	s := &store{key: k, documents: d, limit: limit}
	if id, can := d.(feed.Identifier); can {
		return identified{s, id}
	}
	return s
}

// store implements Store.
type store struct {
	key       Key
	documents Documents
	limit     int
}

// identified is a store that knows its container.
type identified struct {
	*store
	feed.Identifier
}

// Charged returns the total charge of the requests; see [Store].
func (s *store) Charged() float64 {
	if d, can := s.documents.(interface{ Charged() float64 }); can {
		return d.Charged()
	}
	return 0
}

// Put implements [Store].
//
// A letter in parts is looked up first. Otherwise a Put that repeats an earlier one would write
// the parts anew while somebody who deletes the letter deletes them, and would then write a
// head without parts.
func (s *store) Put(ctx context.Context, l Letter) error {
	l, err := s.key.letter(l)
	if err != nil {
		return err
	}
	fail := func(err error) error { return fmt.Errorf("write letter %s: %w", l.ID, err) }
	parts, head, err := documents(l, s.limit)
	if err != nil {
		return fail(err)
	}
	if len(parts) > 0 {
		switch _, err := s.documents.Read(ctx, l.Group, l.ID); {
		case err == nil:
			return nil
		case !errors.Is(err, feed.ErrNotFound):
			return fail(err)
		}
	}
	for _, p := range parts {
		text, err := encode(p)
		if err == nil {
			_, err = s.documents.Write(ctx, Write{Method: Upsert, PK: p.PK, ID: p.ID, Document: text})
		}
		if err != nil {
			return fail(err)
		}
	}
	_, err = s.documents.Write(ctx, Write{Method: Create, PK: l.Group, ID: l.ID, Document: head})
	if err != nil && !errors.Is(err, ErrExists) {
		return fail(err)
	}
	return nil
}

// Session implements [Store].
func (s *store) Session(token string) string { return s.documents.Session(token) }

// Read implements [Store].
func (s *store) Read(ctx context.Context, q Query) iter.Seq2[Letter, error] {
	return func(yield func(Letter, error) bool) {
		var all []Letter
		for document, err := range s.documents.Find(ctx, Selection{Key: s.key, Range: q.Range, PK: q.Group, ID: q.ID}) {
			var l Letter
			if err == nil {
				l, err = Decode(document)
			}
			if err != nil {
				yield(Letter{}, fmt.Errorf("read letters: %w", err))
				return
			}
			l.Current, l.Previous, l.Stack = nil, nil, ""
			all = append(all, l)
		}
		slices.SortFunc(all, func(a, b Letter) int {
			return cmp.Or(cmp.Compare(a.Hash, b.Hash), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.ID, b.ID))
		})
		for _, l := range all {
			if !yield(l, nil) {
				return
			}
		}
	}
}

// Get implements [Store].
func (s *store) Get(ctx context.Context, group, id string) (Letter, error) {
	head, err := s.documents.Read(ctx, group, id)
	if err != nil {
		return Letter{}, fmt.Errorf("read letter %s: %w", id, err)
	}
	l, err := Decode(head)
	if err != nil || l.Parts == 0 {
		return l, err
	}
	parts := make([]part, l.Parts)
	for i := range parts {
		text, err := s.documents.Read(ctx, group, partID(id, i+1, l.Parts))
		switch {
		case errors.Is(err, feed.ErrNotFound):
			return Letter{}, s.incomplete(ctx, l, i+1)
		case err == nil:
			err = json.Unmarshal(text, &parts[i])
		}
		if err != nil {
			return Letter{}, fmt.Errorf("read part %d of letter %s: %w", i+1, id, err)
		}
	}
	return join(l, parts)
}

// incomplete returns the error for a letter of which a part is missing. Nearly always somebody
// has deleted the letter after its head was read.
func (s *store) incomplete(ctx context.Context, l Letter, missing int) error {
	if _, err := s.documents.Read(ctx, l.Group, l.ID); err != nil {
		return fmt.Errorf("read letter %s: %w", l.ID, err)
	}
	return fmt.Errorf("letter %s lacks part %d of %d, which somebody has deleted; drop the letter", l.ID, missing, l.Parts)
}

// Update implements [Store].
func (s *store) Update(ctx context.Context, l Letter) (Letter, error) {
	fail := func(err error) (Letter, error) { return Letter{}, fmt.Errorf("update letter %s: %w", l.ID, err) }
	if !l.State.valid() {
		return fail(errNoState)
	}
	for {
		stored, err := s.documents.Read(ctx, l.Group, l.ID)
		if err != nil {
			return fail(err)
		}
		current, err := Decode(stored)
		if err != nil {
			return fail(err)
		}
		if l.ETag != "" && current.ETag != l.ETag {
			return Letter{}, s.conflict(ctx, l)
		}
		text, err := updated(stored, l)
		if err != nil {
			return fail(err)
		}
		etag, err := s.documents.Write(ctx, Write{Method: Replace, PK: l.Group, ID: l.ID, ETag: current.ETag, Document: text})
		switch {
		case errors.Is(err, ErrChanged) && l.ETag == "":
			continue // the caller accepts every version
		case errors.Is(err, ErrChanged):
			return Letter{}, s.conflict(ctx, l)
		case err != nil:
			return fail(err)
		}
		l.Error, l.Stack, l.Last, l.ETag = cut(l.Error), cut(l.Stack), l.Last.UTC(), etag
		return l, nil
	}
}

// conflict returns the error of a write of l whose ETag is not that of the stored letter.
func (s *store) conflict(ctx context.Context, l Letter) error {
	current, err := s.Get(ctx, l.Group, l.ID)
	if err != nil {
		return fmt.Errorf("after a conflict: %w", err)
	}
	return &ConflictError{Current: current}
}

// Delete implements [Store]. The head goes first, because without it the letter does not exist.
// A part is deleted only if it still is the one that was found before the head was deleted.
// Otherwise it belongs to a Put that writes the letter anew.
func (s *store) Delete(ctx context.Context, l Letter) error {
	fail := func(err error) error { return fmt.Errorf("delete letter %s: %w", l.ID, err) }
	var parts []part
	if l.Parts > 0 {
		for document, err := range s.documents.Find(ctx, Selection{PK: l.Group, PartsOf: l.ID}) {
			var p part
			if err == nil {
				err = json.Unmarshal(document, &p)
			}
			if err != nil {
				return fail(err)
			}
			parts = append(parts, p)
		}
	}
	switch _, err := s.documents.Write(ctx, Write{Method: Delete, PK: l.Group, ID: l.ID, ETag: l.ETag}); {
	case errors.Is(err, ErrChanged):
		return s.afterConflict(ctx, l)
	case err != nil && !errors.Is(err, feed.ErrNotFound):
		return fail(err)
	}
	for _, p := range parts {
		_, err := s.documents.Write(ctx, Write{Method: Delete, PK: l.Group, ID: p.ID, ETag: p.ETag})
		if err != nil && !errors.Is(err, feed.ErrNotFound) && !errors.Is(err, ErrChanged) {
			return fail(err)
		}
	}
	return nil
}

// afterConflict returns the conflict of a delete, or nil if the letter has been deleted since.
func (s *store) afterConflict(ctx context.Context, l Letter) error {
	err := s.conflict(ctx, l)
	if errors.Is(err, feed.ErrNotFound) {
		return nil
	}
	return err
}

var (
	_ Store           = (*store)(nil)
	_ feed.Identifier = identified{}
)

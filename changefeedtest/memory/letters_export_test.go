package memory

import (
	"context"

	"github.com/changefeed-go/changefeed/letters"
)

// LetterDocuments returns how many documents the container holds.
func LetterDocuments(m *Letters) int { return len(letterDocuments{m}.all()) }

// RemoveLetterDocument deletes a document past the store.
func RemoveLetterDocument(ctx context.Context, m *Letters, pk, id string) error {
	_, err := letterDocuments{m}.Write(ctx, letters.Write{Method: letters.Delete, PK: pk, ID: id})
	return err
}

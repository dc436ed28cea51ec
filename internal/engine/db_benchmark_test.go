package engine

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// benchmarkDocuments is the number of documents that benchmarkItems writes.
const benchmarkDocuments = 20_000

// benchmarkItems returns a store in memory and its container, which has
// benchmarkDocuments documents of 1 KB. Each document has its own partition key.
func benchmarkItems(b *testing.B, partitions int) (*DB, *Container) {
	b.Helper()
	db, err := OpenMemory(Options{Memory: 128 << 20})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := db.CreateDatabase(b.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
		b.Fatal(err)
	}
	c, err := db.CreateContainer(b.Context(), "db", storetype.ContainerProperties{ID: "c", KeyPaths: []string{"/id"}, Partitions: partitions})
	if err != nil {
		b.Fatal(err)
	}
	text := strings.Repeat("x", 750)
	var wg sync.WaitGroup
	const writers = 32
	for w := range writers {
		wg.Go(func() {
			for n := w; n < benchmarkDocuments; n += writers {
				doc := fmt.Appendf(nil, `{"id":"i%06d","n":%d,"text":%q}`, n, n, text)
				if _, err := c.Upsert(b.Context(), nil, doc, storetype.WriteOptions{}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return db, c
}

// mustComponents returns the components of a partition key. It fails the test if the key
// is not valid.
func mustComponents(t *testing.T, key ...any) []epk.Component {
	t.Helper()
	components, err := layout.KeyComponents(feed.PartitionKey(key))
	if err != nil {
		t.Fatal(err)
	}
	return components
}

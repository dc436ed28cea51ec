package engine

import (
	"math"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestGivenKeyMustMatchTheDocument(t *testing.T) {
	paths, err := layout.ParseKeyPaths([]string{"/a", "/b"})
	if err != nil {
		t.Fatal(err)
	}
	c := &Container{paths: paths, hash: epk.MultiHash}
	d, err := layout.ParseDocument([]byte(`{"id":"x","a":"A","b":0}`), c.paths, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, good := range []feed.PartitionKey{nil, {"A", 0}, {"A", math.Copysign(0, -1)}} {
		if err := c.matchKey(good, &d); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	for _, bad := range []feed.PartitionKey{{}, {"A"}, {"A", 1}, {"A", feed.Undefined}, {"A", "0"}, {"A", 0, 0}} {
		if err := c.matchKey(bad, &d); kindOf(err) != storetype.KeyMismatch {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// The other tests of limits use the constants themselves, so they would not notice a
// changed constant. This test compares the constants with the documented limits.
func TestLimitsAreTheDocumentedOnes(t *testing.T) {
	for name, limit := range map[string][2]int{
		"operations of a batch":   {MaxBatchOperations, 100},
		"bytes of a document":     {storetype.MaxDocumentSize, 2 * 1024 * 1024},
		"bytes of an id":          {layout.MaxIDSize, 1023},
		"bytes of a key":          {layout.MaxKeySize, 2 * 1024},
		"partition key paths":     {layout.MaxKeyPaths, 3},
		"bytes of a page":         {maxPageBytes + 1024, 4 * 1024 * 1024}, // with the text around the documents
		"items of a page, if any": {defaultMaxItems, 100},
	} {
		if limit[0] != limit[1] {
			t.Errorf("%s: %d, but %d is documented", name, limit[0], limit[1])
		}
	}
}

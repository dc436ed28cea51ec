package memory

import (
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
)

// A handler gets a document in the same form from this source and from Azure.
func TestDocumentsAreCanonical(t *testing.T) {
	s := NewSource(Options{})
	key := feed.PartitionKey{"p"}
	if err := s.Upsert(key, ` { "id" : "1", "one" : 1.0, "huge":[1e19, 18446744073709551615], "s" : "a\ud800 b" } `); err != nil {
		t.Fatal(err)
	}
	if err := s.Upsert(key, `{"id":"2","e":1e400}`); err == nil || !strings.Contains(err.Error(), "1e400 is beyond") {
		t.Errorf("a number beyond float64: %v", err)
	}
	parts, err := s.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.Read(t.Context(), feed.Request{Partition: parts[0], From: feed.Beginning()})
	if err != nil || len(page.Changes) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	const want = `{"id":"1","one":1,"huge":[1e+019,18446744073709551615],"s":"a` + "\uFFFD" + ` b","_rid":"`
	if got := string(page.Changes[0].Current); !strings.HasPrefix(got, want) {
		t.Errorf("the change has %s, want %s", got, want)
	}
}

package cosmos

import (
	"fmt"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
)

// A Source must forget the session tokens of partitions that were split. Otherwise a
// long-lived Source would keep the tokens of all partitions that ever existed.
func TestSessionTokensOfRetiredPartitionsAreForgotten(t *testing.T) {
	s := (&Account{}).Source("db", "items", SourceOptions{})
	for n := range 1000 {
		parent, child := fmt.Sprint(n), fmt.Sprint(n+1)
		s.remember(parent + ":-1#1")
		s.remember(child + ":-1#1")
		s.keep([]feed.Partition{{ID: child, Range: feed.Full(), Parents: []string{parent}}})
		if s.sessions[child] == "" || s.sessions[parent] == "" {
			t.Fatalf("the tokens of partition %s, which is live, or of its parent are deleted: %v", child, s.sessions)
		}
		if len(s.sessions) > 2 {
			t.Fatalf("after %d splits %d session tokens are kept; want the tokens of the live partition and its parent", n+1, len(s.sessions))
		}
	}
}

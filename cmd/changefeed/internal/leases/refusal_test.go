package leases

import (
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/lease"
)

// Anybody who may write to the lease container chooses the name of an owner. It must not be
// able to begin a line of its own in a message.
func TestAnOwnersLineBreaksAreEscaped(t *testing.T) {
	i := Item{Lease: lease.Lease{Token: "0", Owner: "own\ner"}}
	for _, err := range []error{
		&LiveError{Items: []Item{i}, Now: time.Now(), Verb: "reset"},
		&ForeignOwnerError{Token: "0", Owner: i.Owner},
	} {
		if text := err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, `own\ner`) {
			t.Errorf("%q", text)
		}
	}
}

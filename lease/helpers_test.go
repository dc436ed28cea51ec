package lease

import (
	"testing"

	"github.com/changefeed-go/changefeed/feed"
)

// at returns l with the position c.
func at(l Lease, c feed.Continuation) Lease {
	l.Continuation = c
	return l
}

var testKey = Key{Processor: "p", Identity: feed.Identity{
	AccountHost: "Host.example.com", Database: "shop", DatabaseRID: "AAAA==", Container: "orders", ContainerRID: "AAAAAAA=",
}}

func codecIn(t testing.TB, d Dialect, mode feed.Mode) Codec {
	t.Helper()
	k := testKey
	k.Mode = mode
	c, err := NewCodec(d, k, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

package lease

import (
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

var (
	me    = NewOwner("me", 0x11111111)
	other = NewOwner("other", 0x22222222)
	third = NewOwner("third", 0x33333333)
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	times = Terms{Expiration: 60 * time.Second, Acquire: 17 * time.Second}
)

func partition(id, from, to string, parents ...string) feed.Partition {
	return feed.Partition{ID: id, Range: feed.Range{Min: from, Max: to}, Parents: parents}
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

package lease

import (
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

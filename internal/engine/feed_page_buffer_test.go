package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

// FeedInto reads many pages into one PageBuffer. Each page must equal the page that Feed
// returns, with nothing left of the previous page. This must also hold when the buffer
// grows, and in all versions and deletes mode, which sets more fields.
func TestPagesInABufferEqualPagesWithoutOne(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{Partitions: 2, Retention: time.Hour})
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 300 {
		key := feed.PartitionKey{fmt.Sprint("p", i%5)}
		size := r.IntN(40 + 3000*(i%9/8))
		if i%25 == 0 {
			size = r.IntN(3 * pieceSize)
		}
		body := fmt.Sprintf(`{"id":"%d","pk":"p%d","x":"%s"}`, i%90, i%5, strings.Repeat("x", size))
		if _, err := c.Upsert(t.Context(), key, []byte(body), storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if i%7 == 0 {
			if _, err := c.Delete(t.Context(), key, fmt.Sprint(i%90), storetype.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var buffer PageBuffer
	ends := c.db.current.states[c.slot].ends
	for range 200 {
		request := feed.Request{
			From: feed.After(position{lsn: r.Int64N(min(ends[0], ends[1]) + 1)}.continuation()), MaxItems: 1 + r.IntN(120), Mode: feed.Mode(r.IntN(2)),
		}
		want, err := c.Feed(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if r.IntN(3) == 0 {
			buffer = PageBuffer{} // a new buffer begins with the size of an average page and may have to grow
		}
		got, err := c.FeedInto(t.Context(), request, &buffer)
		if err != nil {
			t.Fatal(err)
		}
		got.Diagnostics, want.Diagnostics = feed.Diagnostics{}, feed.Diagnostics{}
		if len(got.Changes) == 0 && len(want.Changes) == 0 {
			got.Changes, want.Changes = nil, nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v: in a buffer %+v, without one %+v", request, got, want)
		}
		if request.Mode != feed.LatestVersion {
			continue
		}
		var documents [][]byte
		for _, change := range want.Changes {
			documents = append(documents, change.Current)
		}
		if text := bytes.Join(documents, []byte(",")); !bytes.Equal(buffer.Text(), text) {
			t.Fatalf("%+v: the text is %s, want %s", request, buffer.Text(), text)
		}
	}
	if buffer.Size() < len(buffer.Text()) {
		t.Errorf("a buffer of %d bytes holds a text of %d", buffer.Size(), len(buffer.Text()))
	}
}

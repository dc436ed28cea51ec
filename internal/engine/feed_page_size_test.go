package engine

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestPageEndsBeforeItsMaximumSize(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{})
	text := make([]byte, 1<<20)
	for i := range text {
		text[i] = 'x'
	}
	for i := range 6 {
		if _, err := c.Upsert(t.Context(), nil, fmt.Appendf(nil, `{"id":"%d","pk":"p","s":"%s"}`, i, text), storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p := readPage(t, c, feed.Request{From: feed.Beginning()})
	if len(p.Changes) != 3 {
		t.Errorf("a page holds %d documents of more than 1 MiB", len(p.Changes))
	}
	if p = readPage(t, c, feed.Request{From: feed.After(p.Continuation)}); len(p.Changes) != 3 {
		t.Errorf("the next page holds %d", len(p.Changes))
	}
}

// A transaction that does not fit on a page is on the next one as a whole. Only the first
// transaction of a page may exceed the size of a page.
func TestPageEndsBeforeTheTransactionThatDoesNotFit(t *testing.T) {
	for _, into := range []*PageBuffer{nil, {}} {
		c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{Retention: time.Hour})
		start := readPage(t, c, feed.Request{From: feed.Now(), Mode: feed.AllVersionsAndDeletes}).Continuation
		body := func(id string, size int) []byte {
			return fmt.Appendf(nil, `{"id":"%s","pk":"p","s":"%s"}`, id, strings.Repeat("x", size))
		}
		write := func(op storetype.OpKind, size int, ids ...string) {
			var ops []storetype.Operation
			for _, id := range ids {
				ops = append(ops, storetype.Operation{Kind: op, ID: id, Body: body(id, size)})
			}
			if _, err := c.Batch(t.Context(), feed.PartitionKey{"p"}, ops); err != nil {
				t.Fatal(err)
			}
		}
		const large = 1_048_400
		write(storetype.OpUpsert, large, "a", "b")
		write(storetype.OpUpsert, large, "c")
		write(storetype.OpUpsert, large, "d", "e") // three fit, and one of these two would
		write(storetype.OpReplace, large, "a", "b")
		for _, test := range []struct {
			mode feed.Mode
			from feed.Start
			want string
		}{
			{feed.LatestVersion, feed.Beginning(), "c d e, a b"},
			{feed.AllVersionsAndDeletes, feed.After(start), "a b c, d e, a b"}, // the last page is too large, and has one transaction
		} {
			var pages []string
			for from := test.from; ; {
				page, err := c.FeedInto(t.Context(), feed.Request{From: from, Mode: test.mode}, into)
				if err != nil {
					t.Fatal(err)
				}
				if len(page.Changes) == 0 {
					break
				}
				var ids []string
				size := 0
				for _, ch := range page.Changes {
					size += len(ch.Current) + len(ch.Previous)
					ids = append(ids, fmt.Sprint(field(t, ch.Current, "id")))
				}
				if page.Bytes != size {
					t.Errorf("Bytes of a page of %d bytes is %d", size, page.Bytes)
				}
				if into != nil && test.mode == feed.LatestVersion && !json.Valid(fmt.Appendf(nil, "[%s]", into.Text())) {
					t.Error("the text of the page is not a list of its documents")
				}
				pages = append(pages, strings.Join(ids, " "))
				from = feed.After(page.Continuation)
			}
			if got := strings.Join(pages, ", "); got != test.want {
				t.Errorf("mode %v: pages %q, want %q", test.mode, got, test.want)
			}
		}
	}
}

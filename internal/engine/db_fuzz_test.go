package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// FuzzContinuation checks that the store accepts a continuation only in the form in which
// the store writes it. For example, it refuses an LSN with a leading zero.
func FuzzContinuation(f *testing.F) {
	for _, s := range []string{`"0"`, `"42"`, `"042"`, `"-1"`, `"9223372036854775808"`, `""`, "42", "", `"7;3F:12"`, `"7;3F:12;7F:7"`, `"7;3F:7"`, `"7;3F:8;3F:9"`, `"7;FF:8"`, `"7;:8"`, `"7;3F"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parseContinuation(feed.Continuation(s))
		if err == nil && (p.lsn < 0 || p.continuation() != feed.Continuation(s)) {
			t.Errorf("%q was read as %v, whose continuation is %s", s, p, p.continuation())
		}
	})
}

// FuzzEntry checks that decoding and encoding an index entry returns the same bytes.
// Input of any other length than layout.EntrySize must be refused.
func FuzzEntry(f *testing.F) {
	e := layout.Entry{Stamp: layout.Stamp{Number: 7, LSN: 42, Ordinal: 3, TS: 1_790_000_000}, Segment: 2, Point: 16, Size: 1032, TTL: -1}
	b := e.Encode()
	f.Add(b[:])
	f.Add(b[1:])
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := layout.DecodeEntry(b)
		if (err == nil) != (len(b) == layout.EntrySize) {
			t.Fatalf("%x: %v", b, err)
		}
		if again := e.Encode(); err == nil && string(again[:]) != string(b) {
			t.Errorf("%x became %x", b, again)
		}
	})
}

// FuzzVersion checks the decoded entry of a versions log. The images must be all bytes
// after the header, and the current image must not be longer than that.
func FuzzVersion(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01{{"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := decodeVersion(b)
		if err == nil && (len(v.images) != len(b)-versionHeaderSize || v.current < 0 || v.current > len(v.images)) {
			t.Errorf("%x was read as %+v", b, v)
		}
	})
}

// FuzzContainerRecord checks that if the store accepts a container record, the partition
// of any key can be found in it without a panic.
func FuzzContainerRecord(f *testing.F) {
	f.Add([]byte(`{"database":1,"id":"c","keyPaths":["/pk"],"hash":2,"next":2,"partitions":[{"number":0,"min":"","max":"1F","segments":[0]},{"number":1,"min":"1F","max":"FF","segments":[1]}],"segments":{"0":{"from":0},"1":{"from":0}}}`))
	f.Add([]byte(`{"partitions":[{"min":"x"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r containerRecord
		if json.Unmarshal(b, &r) != nil {
			return
		}
		m, err := r.load(1)
		if err != nil {
			return
		}
		for _, key := range []string{"", "\x1f", "\xff"} {
			if i := m.find([]byte(key)); i < 0 || i > len(m.partitions) {
				t.Errorf("key %x is in partition %d of %d", key, i, len(m.partitions))
			}
		}
	})
}

// FuzzItemsContinuation checks that Items either refuses a continuation or resumes at its
// position. After the continuation of an item, it must return exactly the selected items
// that follow, in order. After any other one, it must end and return no item twice.
func FuzzItemsContinuation(f *testing.F) {
	db, err := OpenMemory(Options{PurgeInterval: -1})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = db.Close() })
	if _, err := db.CreateDatabase(f.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
		f.Fatal(err)
	}
	c, err := db.CreateContainer(f.Context(), "db", storetype.ContainerProperties{ID: "c", KeyPaths: []string{"/pk"}, Partitions: 2})
	if err != nil {
		f.Fatal(err)
	}
	for n := range 20 {
		if _, err := c.Upsert(f.Context(), nil, body(fmt.Sprint(n), fmt.Sprint(n%4), n), storetype.WriteOptions{}); err != nil {
			f.Fatal(err)
		}
	}
	var all []storetype.Item
	var positions []string
	for r, more := (ItemsRequest{}), true; more; more = r.Continuation != "" {
		page, err := c.VisitItems(f.Context(), r, func(v *VisitedItem) (bool, error) {
			all, positions = append(all, v.Item()), append(positions, v.Continuation())
			return true, nil
		})
		if err != nil {
			f.Fatal(err)
		}
		r.Continuation = page.Continuation
	}
	if len(all) != 20 {
		f.Fatal(len(all))
	}
	for _, p := range positions {
		f.Add(p, "3", "1")
	}
	f.Add("", "", "")
	f.Add("_____w", "1", "")
	f.Fuzz(func(t *testing.T, continuation, pk, prefix string) {
		var key feed.PartitionKey
		if pk != "" {
			key = feed.PartitionKey{pk}
		}
		var got []string
		r := ItemsRequest{ItemsRequest: storetype.ItemsRequest{Continuation: continuation, Key: key, IDPrefix: prefix, MaxItems: 3}}
		for pages := 0; pages == 0 || r.Continuation != ""; pages++ {
			page, err := c.Items(t.Context(), r)
			if err != nil && pages == 0 {
				if !errors.As(err, new(*storetype.BadRequestError)) && !errors.As(err, new(*storetype.TooLargeError)) {
					t.Fatal(err)
				}
				return
			}
			if err != nil || pages > 2*len(all) {
				t.Fatalf("after %q: page %d at %q: %v", continuation, pages, r.Continuation, err)
			}
			for _, item := range page.Items {
				got = append(got, string(item.Body))
			}
			r.Continuation = page.Continuation
		}
		known := slices.Index(positions, continuation)
		var want []string
		for i, item := range all {
			id, _ := field(t, item.Body, "id").(string)
			if !strings.HasPrefix(id, prefix) || pk != "" && field(t, item.Body, "pk") != pk {
				continue
			}
			if i > known && (known >= 0 || continuation == "") || known < 0 && slices.Contains(got, string(item.Body)) {
				want = append(want, string(item.Body))
			}
		}
		if known < 0 && continuation != "" {
			slices.Sort(want)
			slices.Sort(got)
		}
		if !slices.Equal(got, want) {
			t.Errorf("after %q of %q with prefix %q: got %q, want %q", continuation, pk, prefix, got, want)
		}
	})
}

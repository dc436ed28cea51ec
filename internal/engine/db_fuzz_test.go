package engine

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
)

// FuzzContinuation checks that the store accepts a continuation only in the form in which
// the store writes it. For example, it refuses an LSN with a leading zero.
func FuzzContinuation(f *testing.F) {
	for _, s := range []string{`"0"`, `"42"`, `"042"`, `"-1"`, `"9223372036854775808"`, `""`, "42", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		lsn, err := parseContinuation(feed.Continuation(s))
		if err == nil && (lsn < 0 || continuation(lsn) != feed.Continuation(s)) {
			t.Errorf("%q was read as %d, whose continuation is %s", s, lsn, continuation(lsn))
		}
	})
}

// FuzzEntry checks that decoding and encoding an index entry returns the same bytes.
// Input of any other length than entrySize must be refused.
func FuzzEntry(f *testing.F) {
	e := entry{stamp: stamp{number: 7, lsn: 42, ordinal: 3, ts: 1_790_000_000}, segment: 2, point: 16, size: 1032, ttl: -1}
	b := e.encode()
	f.Add(b[:])
	f.Add(b[1:])
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodeEntry(b)
		if (err == nil) != (len(b) == entrySize) {
			t.Fatalf("%x: %v", b, err)
		}
		if again := e.encode(); err == nil && string(again[:]) != string(b) {
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
// position. It must then return exactly the selected items after that position, in order.
func FuzzItemsContinuation(f *testing.F) {
	db, err := OpenMemory(Options{PurgeInterval: -1})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = db.Close() })
	if _, err := db.CreateDatabase(f.Context(), DatabaseProperties{ID: "db"}); err != nil {
		f.Fatal(err)
	}
	c, err := db.CreateContainer(f.Context(), "db", ContainerProperties{ID: "c", KeyPaths: []string{"/pk"}, Partitions: 2})
	if err != nil {
		f.Fatal(err)
	}
	for n := range 20 {
		if _, err := c.Upsert(f.Context(), nil, body(fmt.Sprint(n), fmt.Sprint(n%4), n), WriteOptions{}); err != nil {
			f.Fatal(err)
		}
	}
	var all []Item
	var positions []string
	_, err = c.VisitItems(f.Context(), ItemsRequest{}, func(v *VisitedItem) (bool, error) {
		all, positions = append(all, v.Item()), append(positions, v.Continuation())
		return true, nil
	})
	if err != nil || len(all) != 20 {
		f.Fatal(len(all), err)
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
		after, bad := base64.RawURLEncoding.DecodeString(continuation)
		page, err := c.Items(t.Context(), ItemsRequest{Continuation: continuation, Key: key, IDPrefix: prefix})
		if err != nil {
			if !errors.As(err, new(*BadRequestError)) && !errors.As(err, new(*TooLargeError)) {
				t.Fatal(err)
			}
			return
		}
		var want []string
		for i, item := range all {
			at, _ := base64.RawURLEncoding.DecodeString(positions[i])
			id, _ := field(t, item.Body, "id").(string)
			if bytes.Compare(at, after) > 0 && strings.HasPrefix(id, prefix) && (pk == "" || field(t, item.Body, "pk") == pk) {
				want = append(want, string(item.Body))
			}
		}
		var got []string
		for _, item := range page.Items {
			got = append(got, string(item.Body))
		}
		if bad != nil || !slices.Equal(got, want) || page.Continuation != "" {
			t.Errorf("after %q of %q with prefix %q: got %q, want %q", continuation, pk, prefix, got, want)
		}
	})
}

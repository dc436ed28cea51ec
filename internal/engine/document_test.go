package engine

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/canonical"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestStoredBytesCarryTheSystemProperties(t *testing.T) {
	tail := newTailFormat(0x1A2B3C01, 1)
	d, err := parseDocument([]byte(`{"id":"a","v":1}`), nil, false)
	if err != nil {
		t.Fatal(err)
	}
	s := stamp{number: 3, lsn: 0x123456789ABC, ordinal: 2, ts: 1_760_000_000}
	stored := tail.appendStored(nil, d.body, s)
	if len(stored) != tail.storedSize(d.body, s) {
		t.Errorf("storedSize returned %d for %d stored bytes", tail.storedSize(d.body, s), len(stored))
	}
	var got struct {
		ID          string `json:"id"`
		RID         string `json:"_rid"`
		Self        string `json:"_self"`
		ETag        string `json:"_etag"`
		Attachments string `json:"_attachments"`
		TS          int64  `json:"_ts"`
		LSN         *int64 `json:"_lsn"`
	}
	if err := json.Unmarshal(stored, &got); err != nil {
		t.Fatalf("%v: %s", err, stored)
	}
	rid := ridOf(0x1A2B3C01, 1, 3)
	if got.ID != "a" || got.RID != rid || got.Attachments != "attachments/" || got.TS != s.ts || *got.LSN != s.lsn {
		t.Errorf("stored %s", stored)
	}
	if want := "dbs/" + databaseRID(0x1A2B3C01) + "/colls/" + containerRID(0x1A2B3C01, 1) + "/docs/" + rid + "/"; got.Self != want {
		t.Errorf("_self %q, want %q", got.Self, want)
	}
	if got.ETag != `"00001234-5678-9abc-0002-000000000001"` || got.ETag != tail.etag(s) {
		t.Errorf("_etag is %s, but etag returned %s", got.ETag, tail.etag(s))
	}
	if ts, lsn, err := storedTimes(stored); err != nil || ts != s.ts || lsn != s.lsn {
		t.Errorf("storedTimes %d, %d, %v", ts, lsn, err)
	}
	public, err := appendPublic([]byte("x"), stored)
	if err != nil || !strings.HasSuffix(string(public), `"_ts":1760000000}`) || public[0] != 'x' {
		t.Errorf("public %s, %v", public, err)
	}
	got.LSN = nil
	if err := json.Unmarshal(public[1:], &got); err != nil || got.LSN != nil {
		t.Errorf("the public document shows _lsn: %s", public)
	}
}

func TestTailFitsItsReserve(t *testing.T) {
	tail := newTailFormat(math.MaxUint32, maxContainerNumber)
	s := stamp{number: maxDocumentNumber, lsn: 999_999_999_999_999_999, ordinal: math.MaxUint16, ts: 999_999_999_999}
	if n := tail.storedSize(nil, s); n > maxTailSize {
		t.Errorf("a tail has up to %d bytes, more than %d", n, maxTailSize)
	}
	dst := make([]byte, 0, 100+maxTailSize)
	body := make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() { tail.appendStored(dst, body, s) }); n > 0 {
		t.Errorf("appendStored allocates %v times", n)
	}
	stored := tail.appendStored(nil, body, s)
	if n := testing.AllocsPerRun(100, func() {
		if _, got, err := tail.parseStored(stored); err != nil || got != s {
			t.Fatalf("%+v, %v", got, err)
		}
	}); n > 0 {
		t.Errorf("parseStored allocates %v times", n)
	}
}

func TestDamagedTailsAreNoticed(t *testing.T) {
	tail := newTailFormat(5, 6)
	stored := tail.appendStored(nil, []byte(`{"id":"a"`), stamp{number: 9, lsn: 77, ordinal: 1, ts: 1_760_000_000})
	first := len(`{"id":"a"`)
	for i := first; i < len(stored); i++ {
		for _, c := range []byte{0, 'A', '0', '}', '"', 0xFF} {
			bad := slices.Clone(stored)
			if bad[i] == c {
				continue
			}
			bad[i] = c
			// A changed digit may make another valid stamp. But the damaged document must
			// not have the original stamp.
			if _, s, err := tail.parseStored(bad); err == nil && s.number == 9 && s.lsn == 77 && s.ts == 1_760_000_000 && s.ordinal == 1 {
				t.Fatalf("damage of byte %d was not noticed: %s", i, bad)
			}
		}
	}
	for i := range stored {
		if _, _, err := tail.parseStored(stored[:i]); err == nil {
			t.Fatalf("a cut at %d was not noticed", i)
		}
		_, _ = appendPublic(nil, stored[:i])
	}
	if _, _, err := newTailFormat(5, 7).parseStored(stored); err == nil {
		t.Error("the tail of another container was accepted")
	}
}

func FuzzStored(f *testing.F) {
	tail := newTailFormat(5, 6)
	f.Add(tail.appendStored(nil, []byte(`{"id":"a"`), stamp{number: 9, lsn: 77, ordinal: 1, ts: 1_760_000_000}))
	f.Add([]byte(`,"_ts":1,"_lsn":00000000000000000000000002}`))
	f.Fuzz(func(t *testing.T, stored []byte) {
		_, _ = appendPublic(nil, stored)
		body, s, err := tail.parseStored(stored)
		if err == nil && string(tail.appendStored(nil, body, s)) != string(stored) {
			t.Fatalf("accepted bytes that appendStored does not write: %q", stored)
		}
	})
}

func TestRIDsHaveTheStructureThatSDKsParse(t *testing.T) {
	if got := containerRID(0x1A2B3C01, 1); got != "Gis8AYAAAAE=" {
		t.Errorf("container rid %s", got)
	}
	if got := databaseRID(0x1A2B3C01); got != "Gis8AQ==" {
		t.Errorf("database rid %s", got)
	}
	if got := ridOf(0x1A2B3C01, 1, 3); got != "Gis8AYAAAAEAAAADAwAAAA==" {
		t.Errorf("document rid %s", got)
	}
	for _, n := range []uint32{1, 2, 255, 256, 65536, maxDocumentNumber} {
		s := ridOf(0xFFFFFFFF, maxContainerNumber, n)
		b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(s, "-", "/"))
		if err != nil || len(b) != 16 || b[4]&0x80 == 0 || b[15]&0xF0 != 0 || strings.Contains(s, "/") {
			t.Errorf("document %d: %s", n, s)
		}
		if r, ok := parseRID(s); !ok || r != (rid{0xFFFFFFFF, maxContainerNumber, n}) {
			t.Errorf("document %d was read back as %+v, %v", n, r, ok)
		}
	}
	if r, ok := parseRID(databaseRID(77)); !ok || r != (rid{database: 77}) {
		t.Errorf("database: %+v, %v", r, ok)
	}
	if r, ok := parseRID(containerRID(77, 88)); !ok || r != (rid{database: 77, container: 88}) {
		t.Errorf("container: %+v, %v", r, ok)
	}
	for _, s := range []string{"", "shop", "orders", "Gis8AQ", "Gis8AQAAAAE=", "Gis8AYAAAAEAAAADBAAAAA==", "Gis8AYAAAAECAAAAAAAAUA==", "Gis8\nAQ==", "Gis8AQ==\n\n\n\n", "Gis8AR=="} {
		if r, ok := parseRID(s); ok {
			t.Errorf("%q was parsed as the rid %+v", s, r)
		}
	}
}

// Some SDKs compare the last eight bytes of resource ids (_rid) as little-endian numbers,
// and others as big-endian numbers. Both orders must agree with the order in which
// documents were created. Otherwise the SDKs would drop rows of a query.
func TestRIDsSortAlikeInBothByteOrders(t *testing.T) {
	var little, big uint64
	for n := uint32(1); n < maxDocumentNumber-70_000; n += 65_537 {
		b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(ridOf(1, 1, n), "-", "/"))
		if err != nil {
			t.Fatal(err)
		}
		l, g := binary.LittleEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[8:])
		if l <= little || g <= big || g > math.MaxInt64 {
			t.Fatalf("document %d sorts before an earlier one", n)
		}
		little, big = l, g
	}
}

func FuzzParseRID(f *testing.F) {
	f.Add(ridOf(1, 2, 3))
	f.Add("Gis8AYAAAAE=")
	f.Fuzz(func(t *testing.T, s string) {
		r, ok := parseRID(s)
		if !ok {
			return
		}
		back := databaseRID(r.database)
		switch len(s) {
		case 12:
			back = containerRID(r.database, r.container)
		case ridSize:
			back = ridOf(r.database, r.container, r.document)
		}
		if back != s {
			t.Fatalf("%q was parsed as %+v, which is formatted as %q", s, r, back)
		}
	})
}

func TestKeyPathsAreParsedOrRefused(t *testing.T) {
	for _, c := range []struct {
		paths []string
		want  keyPaths
	}{
		{[]string{"/a"}, keyPaths{{"a"}}},
		{[]string{"/a/b", "/a/c", "/d"}, keyPaths{{"a", "b"}, {"a", "c"}, {"d"}}},
		{[]string{`/"quoted name"/x`}, keyPaths{{"quoted name", "x"}}},
		{[]string{`/"a\"/b"`}, keyPaths{{`a"/b`}}},
		{[]string{"/_partitionKey"}, keyPaths{{"_partitionKey"}}},
		{[]string{"/a/_ts"}, keyPaths{{"a", "_ts"}}},
	} {
		got, err := parseKeyPaths(c.paths)
		if err != nil || !slices.EqualFunc(got, c.want, slices.Equal[[]string]) {
			t.Errorf("%q: %q, %v", c.paths, got, err)
		}
	}
	for _, paths := range [][]string{
		nil,
		{"/a", "/b", "/c", "/d"},
		{""},
		{"a"},
		{"/"},
		{"/a/"},
		{"//a"},
		{`/"a`},
		{`/"a"b`},
		{"/_ts"},
		{"/a", "/a"},
		{"/a", "/a/b"},
		{"/a/b", "/a"},
		{"/\xff"},
		{strings.Repeat("/a", MaxDepth)},
	} {
		if got, err := parseKeyPaths(paths); badKind(err) != storetype.BadProperties {
			t.Errorf("%q: %q, %v", paths, got, err)
		}
	}
}

func FuzzKeyPath(f *testing.F) {
	f.Add("/a/b")
	f.Add(`/"quoted name"/x`)
	f.Fuzz(func(t *testing.T, path string) {
		names, err := parsePath("partition key path", path)
		if err != nil {
			return
		}
		quoted := ""
		for _, n := range names {
			b, err := json.Marshal(n)
			if err != nil {
				t.Fatal(err)
			}
			quoted += "/" + string(b)
		}
		if again, err := parsePath("partition key path", quoted); err != nil || !slices.Equal(again, names) {
			t.Fatalf("%q: %q, quoted %q: %q, %v", path, names, quoted, again, err)
		}
	})
}

func TestKeysOfEveryGoTypeBecomeComponents(t *testing.T) {
	one := epk.OfNumber(1)
	for _, v := range []any{1, int8(1), int16(1), int32(1), int64(1), uint(1), uint8(1), uint16(1), uint32(1), uint64(1), float32(1), 1.0, json.Number("1")} {
		if got, err := keyComponents(feed.PartitionKey{v}); err != nil || got[0] != one {
			t.Errorf("%T: %+v, %v", v, got, err)
		}
	}
	key := feed.PartitionKey{"x", true, false, nil, feed.Undefined, 2.5}
	components, err := keyComponents(key)
	if err != nil || !slices.Equal(partitionKey(components), key) {
		t.Errorf("%v became %+v, %v", key, components, err)
	}
	for _, v := range []any{[]byte("a"), map[string]any{}, []any{1}, struct{}{}, math.NaN(), math.Inf(1), json.Number("1e999"), json.Number("x"), "\xff"} {
		if got, err := keyComponents(feed.PartitionKey{v}); badKind(err) != storetype.BadKey {
			t.Errorf("%T %v: %+v, %v", v, v, got, err)
		} else if _, beyond := errors.AsType[*canonical.RangeError](err); beyond != (v == json.Number("1e999")) {
			t.Errorf("%T %v: %v is caused by its range: %t", v, v, err, beyond)
		}
	}
}

func TestExpiryOfItemsAndContainers(t *testing.T) {
	for _, c := range []struct {
		container, item int32
		at              int64
		expires         bool
	}{
		{ttlOff, 0, 0, false},
		{ttlOff, 10, 0, false},
		{ttlNever, 0, 0, false},
		{ttlNever, 10, 110, true},
		{60, 0, 160, true},
		{60, 10, 110, true},
		{60, ttlNever, 0, false},
		{math.MaxInt32, 0, 100 + math.MaxInt32, true},
	} {
		at, ok := expiry(100, c.container, c.item)
		if at != c.at || ok != c.expires {
			t.Errorf("container %d, item %d: %d, %v", c.container, c.item, at, ok)
		}
		if ok && (expired(100, c.container, c.item, at-1) || !expired(100, c.container, c.item, at)) {
			t.Errorf("container %d, item %d does not expire exactly at %d", c.container, c.item, at)
		}
	}
	for _, good := range []int64{0, -1, 1, math.MaxInt32} {
		if err := checkTTL(good); err != nil {
			t.Errorf("%d: %v", good, err)
		}
	}
	for _, bad := range []int64{-2, math.MaxInt32 + 1} {
		if err := checkTTL(bad); badKind(err) != storetype.BadTTL {
			t.Errorf("%d: %v", bad, err)
		}
	}
}

// ridOf returns the resource id (_rid) of document number n of a container. n is
// from 1 to maxDocumentNumber.
func ridOf(database, container, n uint32) string {
	return string(appendDocumentRID(nil, database, container, n))
}

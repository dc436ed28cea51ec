package layout

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
	tail := NewTailFormat(0x1A2B3C01, 1)
	d, err := ParseDocument([]byte(`{"id":"a","v":1}`), nil, false)
	if err != nil {
		t.Fatal(err)
	}
	s := Stamp{Number: 3, LSN: 0x123456789ABC, Ordinal: 2, TS: 1_760_000_000}
	stored := tail.AppendStored(nil, d.Body, s)
	if len(stored) != tail.StoredSize(d.Body, s) {
		t.Errorf("storedSize returned %d for %d stored bytes", tail.StoredSize(d.Body, s), len(stored))
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
	if got.ID != "a" || got.RID != rid || got.Attachments != "attachments/" || got.TS != s.TS || *got.LSN != s.LSN {
		t.Errorf("stored %s", stored)
	}
	if want := "dbs/" + DatabaseRID(0x1A2B3C01) + "/colls/" + ContainerRID(0x1A2B3C01, 1) + "/docs/" + rid + "/"; got.Self != want {
		t.Errorf("_self %q, want %q", got.Self, want)
	}
	if got.ETag != `"00001234-5678-9abc-0002-000000000001"` || got.ETag != tail.ETag(s) {
		t.Errorf("_etag is %s, but etag returned %s", got.ETag, tail.ETag(s))
	}
	if ts, lsn, err := storedTimes(stored); err != nil || ts != s.TS || lsn != s.LSN {
		t.Errorf("storedTimes %d, %d, %v", ts, lsn, err)
	}
	public, err := AppendPublic([]byte("x"), stored)
	if err != nil || !strings.HasSuffix(string(public), `"_ts":1760000000}`) || public[0] != 'x' {
		t.Errorf("public %s, %v", public, err)
	}
	got.LSN = nil
	if err := json.Unmarshal(public[1:], &got); err != nil || got.LSN != nil {
		t.Errorf("the public document shows _lsn: %s", public)
	}
}

func TestTailFitsItsReserve(t *testing.T) {
	tail := NewTailFormat(math.MaxUint32, MaxContainerNumber)
	s := Stamp{Number: MaxDocumentNumber, LSN: 999_999_999_999_999_999, Ordinal: math.MaxUint16, TS: 999_999_999_999}
	if n := tail.StoredSize(nil, s); n > MaxTailSize {
		t.Errorf("a tail has up to %d bytes, more than %d", n, MaxTailSize)
	}
	dst := make([]byte, 0, 100+MaxTailSize)
	body := make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() { tail.AppendStored(dst, body, s) }); n > 0 {
		t.Errorf("appendStored allocates %v times", n)
	}
	stored := tail.AppendStored(nil, body, s)
	if n := testing.AllocsPerRun(100, func() {
		if _, got, err := tail.ParseStored(stored); err != nil || got != s {
			t.Fatalf("%+v, %v", got, err)
		}
	}); n > 0 {
		t.Errorf("parseStored allocates %v times", n)
	}
}

func TestDamagedTailsAreNoticed(t *testing.T) {
	tail := NewTailFormat(5, 6)
	stored := tail.AppendStored(nil, []byte(`{"id":"a"`), Stamp{Number: 9, LSN: 77, Ordinal: 1, TS: 1_760_000_000})
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
			if _, s, err := tail.ParseStored(bad); err == nil && s.Number == 9 && s.LSN == 77 && s.TS == 1_760_000_000 && s.Ordinal == 1 {
				t.Fatalf("damage of byte %d was not noticed: %s", i, bad)
			}
		}
	}
	for i := range stored {
		if _, _, err := tail.ParseStored(stored[:i]); err == nil {
			t.Fatalf("a cut at %d was not noticed", i)
		}
		_, _ = AppendPublic(nil, stored[:i])
	}
	if _, _, err := NewTailFormat(5, 7).ParseStored(stored); err == nil {
		t.Error("the tail of another container was accepted")
	}
}

func FuzzStored(f *testing.F) {
	tail := NewTailFormat(5, 6)
	f.Add(tail.AppendStored(nil, []byte(`{"id":"a"`), Stamp{Number: 9, LSN: 77, Ordinal: 1, TS: 1_760_000_000}))
	f.Add([]byte(`,"_ts":1,"_lsn":00000000000000000000000002}`))
	f.Fuzz(func(t *testing.T, stored []byte) {
		_, _ = AppendPublic(nil, stored)
		body, s, err := tail.ParseStored(stored)
		if err == nil && string(tail.AppendStored(nil, body, s)) != string(stored) {
			t.Fatalf("accepted bytes that appendStored does not write: %q", stored)
		}
	})
}

func TestRIDsHaveTheStructureThatSDKsParse(t *testing.T) {
	if got := ContainerRID(0x1A2B3C01, 1); got != "Gis8AYAAAAE=" {
		t.Errorf("container rid %s", got)
	}
	if got := DatabaseRID(0x1A2B3C01); got != "Gis8AQ==" {
		t.Errorf("database rid %s", got)
	}
	if got := ridOf(0x1A2B3C01, 1, 3); got != "Gis8AYAAAAEAAAADAwAAAA==" {
		t.Errorf("document rid %s", got)
	}
	for _, n := range []uint32{1, 2, 255, 256, 65536, MaxDocumentNumber} {
		s := ridOf(0xFFFFFFFF, MaxContainerNumber, n)
		b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(s, "-", "/"))
		if err != nil || len(b) != 16 || b[4]&0x80 == 0 || b[15]&0xF0 != 0 || strings.Contains(s, "/") {
			t.Errorf("document %d: %s", n, s)
		}
		if r, ok := ParseRID(s); !ok || r != (RID{0xFFFFFFFF, MaxContainerNumber, n}) {
			t.Errorf("document %d was read back as %+v, %v", n, r, ok)
		}
	}
	if r, ok := ParseRID(DatabaseRID(77)); !ok || r != (RID{Database: 77}) {
		t.Errorf("database: %+v, %v", r, ok)
	}
	if r, ok := ParseRID(ContainerRID(77, 88)); !ok || r != (RID{Database: 77, Container: 88}) {
		t.Errorf("container: %+v, %v", r, ok)
	}
	for _, s := range []string{"", "shop", "orders", "Gis8AQ", "Gis8AQAAAAE=", "Gis8AYAAAAEAAAADBAAAAA==", "Gis8AYAAAAECAAAAAAAAUA==", "Gis8\nAQ==", "Gis8AQ==\n\n\n\n", "Gis8AR=="} {
		if r, ok := ParseRID(s); ok {
			t.Errorf("%q was parsed as the rid %+v", s, r)
		}
	}
}

// Some SDKs compare the last eight bytes of resource ids (_rid) as little-endian numbers,
// and others as big-endian numbers. Both orders must agree with the order in which
// documents were created. Otherwise the SDKs would drop rows of a query.
func TestRIDsSortAlikeInBothByteOrders(t *testing.T) {
	var little, big uint64
	for n := uint32(1); n < MaxDocumentNumber-70_000; n += 65_537 {
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
		r, ok := ParseRID(s)
		if !ok {
			return
		}
		back := DatabaseRID(r.Database)
		switch len(s) {
		case 12:
			back = ContainerRID(r.Database, r.Container)
		case ridSize:
			back = ridOf(r.Database, r.Container, r.Document)
		}
		if back != s {
			t.Fatalf("%q was parsed as %+v, which is formatted as %q", s, r, back)
		}
	})
}

func TestKeyPathsAreParsedOrRefused(t *testing.T) {
	for _, c := range []struct {
		paths []string
		want  KeyPaths
	}{
		{[]string{"/a"}, KeyPaths{{"a"}}},
		{[]string{"/a/b", "/a/c", "/d"}, KeyPaths{{"a", "b"}, {"a", "c"}, {"d"}}},
		{[]string{`/"quoted name"/x`}, KeyPaths{{"quoted name", "x"}}},
		{[]string{`/"a\"/b"`}, KeyPaths{{`a"/b`}}},
		{[]string{"/_partitionKey"}, KeyPaths{{"_partitionKey"}}},
		{[]string{"/a/_ts"}, KeyPaths{{"a", "_ts"}}},
	} {
		got, err := ParseKeyPaths(c.paths)
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
		if got, err := ParseKeyPaths(paths); badKind(err) != storetype.BadProperties {
			t.Errorf("%q: %q, %v", paths, got, err)
		}
	}
}

func FuzzKeyPath(f *testing.F) {
	f.Add("/a/b")
	f.Add(`/"quoted name"/x`)
	f.Fuzz(func(t *testing.T, path string) {
		names, err := ParsePath("partition key path", path)
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
		if again, err := ParsePath("partition key path", quoted); err != nil || !slices.Equal(again, names) {
			t.Fatalf("%q: %q, quoted %q: %q, %v", path, names, quoted, again, err)
		}
	})
}

func TestKeysOfEveryGoTypeBecomeComponents(t *testing.T) {
	one := epk.OfNumber(1)
	for _, v := range []any{1, int8(1), int16(1), int32(1), int64(1), uint(1), uint8(1), uint16(1), uint32(1), uint64(1), float32(1), 1.0, json.Number("1")} {
		if got, err := KeyComponents(feed.PartitionKey{v}); err != nil || got[0] != one {
			t.Errorf("%T: %+v, %v", v, got, err)
		}
	}
	key := feed.PartitionKey{"x", true, false, nil, feed.Undefined, 2.5}
	components, err := KeyComponents(key)
	if err != nil || !slices.Equal(PartitionKey(components), key) {
		t.Errorf("%v became %+v, %v", key, components, err)
	}
	for _, v := range []any{[]byte("a"), map[string]any{}, []any{1}, struct{}{}, math.NaN(), math.Inf(1), json.Number("1e999"), json.Number("x"), "\xff"} {
		if got, err := KeyComponents(feed.PartitionKey{v}); badKind(err) != storetype.BadKey {
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
		{TTLOff, 0, 0, false},
		{TTLOff, 10, 0, false},
		{TTLNever, 0, 0, false},
		{TTLNever, 10, 110, true},
		{60, 0, 160, true},
		{60, 10, 110, true},
		{60, TTLNever, 0, false},
		{math.MaxInt32, 0, 100 + math.MaxInt32, true},
	} {
		at, ok := expiry(100, c.container, c.item)
		if at != c.at || ok != c.expires {
			t.Errorf("container %d, item %d: %d, %v", c.container, c.item, at, ok)
		}
		if ok && (Expired(100, c.container, c.item, at-1) || !Expired(100, c.container, c.item, at)) {
			t.Errorf("container %d, item %d does not expire exactly at %d", c.container, c.item, at)
		}
	}
	for _, good := range []int64{0, -1, 1, math.MaxInt32} {
		if err := CheckTTL(good); err != nil {
			t.Errorf("%d: %v", good, err)
		}
	}
	for _, bad := range []int64{-2, math.MaxInt32 + 1} {
		if err := CheckTTL(bad); badKind(err) != storetype.BadTTL {
			t.Errorf("%d: %v", bad, err)
		}
	}
}

// ridOf returns the resource id (_rid) of document number n of a container. n is
// from 1 to MaxDocumentNumber.
func ridOf(database, container, n uint32) string {
	return string(AppendDocumentRID(nil, database, container, n))
}

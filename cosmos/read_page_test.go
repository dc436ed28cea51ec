package cosmos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/feed"
)

// latestPage is a page of latest version mode. Its documents have members of every JSON
// type before and after _lsn and _ts.
const latestPage = ` {"_rid":"Gis8AYAAAAE=","Documents":[
	{"id":"a","pk":"x","nested":{"_lsn":99,"_ts":98,"deep":[[{"_lsn":97}]]},"_rid":"r","_ts":1700000000,"_lsn":12},
	{"id":"\u00fc\ud83d\ude00","_lsn":7,"n":[1,-2.5e10,true,false,null,""],"_etag":"\"0\"","_ts":1,"_ts":1700000001 , "_lsn":13} ],"_count":2} `

func splitLatest(body string) ([]feed.Change, error) {
	var s pageScanner
	err := s.page([]byte(body))
	return s.changes, err
}

func TestPageIsSplitIntoSlicesOfItself(t *testing.T) {
	body := []byte(latestPage)
	var s pageScanner
	if err := s.page(body); err != nil {
		t.Fatal(err)
	}
	if s.rid != "Gis8AYAAAAE=" || len(s.changes) != 2 {
		t.Fatalf("rid %q, %d changes", s.rid, len(s.changes))
	}
	for i, want := range []feed.Change{{LSN: 12, Time: time.Unix(1700000000, 0).UTC()}, {LSN: 13, Time: time.Unix(1700000001, 0).UTC()}} {
		c := s.changes[i]
		if c.LSN != want.LSN || !c.Time.Equal(want.Time) || c.Op != feed.Upsert || !json.Valid(c.Current) {
			t.Errorf("change %d: %+v", i, c)
		}
		at := bytes.Index(body, c.Current)
		if at < 0 || &body[at] != &c.Current[0] || cap(c.Current) != len(c.Current) {
			t.Errorf("change %d is not a slice of the page, or has spare capacity in it", i)
		}
	}
	if id, err := s.changes[1].ID(); err != nil || id != "ü😀" {
		t.Errorf("id %q, %v", id, err)
	}
}

// The pageScanner must refuse every truncated page. If it returned a shorter page instead,
// the missing changes would never be read.
func TestTruncatedPageIsNotAShorterPage(t *testing.T) {
	for name, page := range map[string]string{"latest": latestPage, "versions": versionsPage} {
		whole := strings.TrimSpace(page)
		for i := range whole {
			s := pageScanner{versions: name == "versions", keyPaths: keyPathsOf("/pk")}
			if err := s.page([]byte(whole[:i])); err == nil {
				t.Fatalf("%s: the first %d of %d bytes are accepted as a page of %d changes", name, i, len(whole), len(s.changes))
			}
		}
	}
}

// readBody must refuse a body that is shorter than its declared length. Its buffer is not
// zeroed, so the rest of it would contain arbitrary bytes.
func TestResponseShorterThanItsLengthIsRefused(t *testing.T) {
	for _, size := range []int{0, 1, 7, 8, 100, 4 << 10, 1 << 20} {
		text := bytes.Repeat([]byte("x"), size)
		for _, come := range []int{0, size / 2, size - 1, size} {
			if come < 0 {
				continue
			}
			r := &http.Response{ContentLength: int64(size), Body: io.NopCloser(bytes.NewReader(text[:come]))}
			err := readBody(r)
			read, whole := r.Body.(bodyRead)
			if whole != (come == size) || whole != (err == nil) || whole && (!bytes.Equal(read.text, text) || cap(read.text) != size) {
				t.Errorf("%d bytes of %d: %v, read: %t", come, size, err, whole)
			}
		}
	}
}

func TestInvalidPageIsRefused(t *testing.T) {
	for _, body := range []string{
		``, `[]`, `null`, `{}`, `{"Documents":null}`, `{"Documents":{}}`, `{"Documents":[1]}`, `{"Documents":[null]}`, latestPage + `{}`,
		`{"Documents":[{"id":"a","_ts":1}]}`, `{"Documents":[{"id":"a","_lsn":1}]}`, `{"Documents":[{"_lsn":0,"_ts":1}]}`, `{"Documents":[{"_lsn":-1,"_ts":1}]}`,
		`{"Documents":[{"_lsn":"1","_ts":1}]}`, `{"Documents":[{"_lsn":1.5,"_ts":1}]}`, `{"Documents":[{"_lsn":1,"_ts":null}]}`, `{"Documents":[],"Documents":[]}`,
		`{"Documents":[{"_lsn":1,"_ts":1,"deep":` + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + `}]}`,
	} {
		if changes, err := splitLatest(body); err == nil {
			t.Errorf("%.60q is accepted as a page of %d changes", body, len(changes))
		}
	}
	if changes, err := splitLatest(`{"Documents":[],"_count":0}`); err != nil || len(changes) != 0 {
		t.Errorf("an empty page: %v, %v", changes, err)
	}
}

const versionsPage = `{"_rid":"r","Documents":[
	{"current":{"id":"1","pk":"a","_lsn":374},"metadata":{"operationType":"create","lsn":374,"crts":1722455970,"previousImageLSN":0,"timeToLiveExpired":false}},
	{"current":{"id":"1","pk":"a","n":2},"previous":{"id":"1","pk":"a"},"metadata":{"operationType":"replace","lsn":375,"crts":1722455971,"previousImageLSN":374}},
	{"current":{},"metadata":{"operationType":"delete","lsn":376,"crts":1722455972,"timeToLiveExpired":true,"id":"1","partitionKey":{"pk":"a"}},"previous":{ }},
	{"metadata":{"operationType":"delete","lsn":377,"crts":1722455973,"id":null,"partitionKey":null},"previous":{"id":"2","pk":"b"}},
	{"current":{"id":"3"},"metadata":{"operationType":"delete","lsn":378,"crts":1722455974,"id":"3","partitionKey":{}}}
],"_count":5}`

func TestVersionsHaveImagesAndDeletedNames(t *testing.T) {
	s := pageScanner{versions: true, keyPaths: keyPathsOf("/pk")}
	if err := s.page([]byte(versionsPage)); err != nil {
		t.Fatal(err)
	}
	at := func(n int64) time.Time { return time.Unix(n, 0).UTC() }
	want := []feed.Change{
		{Op: feed.Create, LSN: 374, Time: at(1722455970), Current: []byte(`{"id":"1","pk":"a","_lsn":374}`)},
		{Op: feed.Replace, LSN: 375, Time: at(1722455971), Current: []byte(`{"id":"1","pk":"a","n":2}`), Previous: []byte(`{"id":"1","pk":"a"}`)},
		{Op: feed.Delete, LSN: 376, Time: at(1722455972), Expired: true, DeletedID: "1", DeletedKey: feed.PartitionKey{"a"}},
		{Op: feed.Delete, LSN: 377, Time: at(1722455973), Previous: []byte(`{"id":"2","pk":"b"}`)},
		{Op: feed.Delete, LSN: 378, Time: at(1722455974), DeletedID: "3", DeletedKey: feed.PartitionKey{feed.Undefined}},
	}
	if !reflect.DeepEqual(s.changes, want) {
		t.Errorf("read %+v\nwant %+v", s.changes, want)
	}
	if id, err := s.changes[3].ID(); err != nil || id != "2" {
		t.Errorf("the id of a delete from its previous image: %q, %v", id, err)
	}
}

func TestIncompleteVersionIsRefused(t *testing.T) {
	for _, version := range []string{
		`{}`, `{"current":{"id":"1"}}`, `{"current":{"id":"1"},"metadata":{"operationType":"create","lsn":1}}`,
		`{"current":{"id":"1"},"metadata":{"operationType":"create","crts":1}}`, `{"current":{},"metadata":{"operationType":"create","lsn":1,"crts":1}}`,
		`{"current":{"id":"1"},"metadata":{"operationType":"truncate","lsn":1,"crts":1}}`, `{"current":{"id":"1"},"metadata":{"lsn":1,"crts":1}}`,
		`{"current":"x","metadata":{"operationType":"create","lsn":1,"crts":1}}`, `{"current":{"id":"1"},"metadata":[]}`,
	} {
		s := pageScanner{versions: true}
		if err := s.page([]byte(`{"Documents":[` + version + `]}`)); err == nil {
			t.Errorf("%s is accepted as a version: %+v", version, s.changes)
		}
	}
}

func TestKeysOfDeletesAreInTheOrderOfThePaths(t *testing.T) {
	for _, c := range []struct {
		object string
		paths  []string
		want   string
	}{
		{`{"user":"u","tenant":"t"}`, []string{"/tenant", "/user"}, `["t","u"]`},
		{`{"user":null}`, []string{"/tenant", "/user"}, `[{},null]`},
		{`{"a/b":7}`, []string{"/a/b"}, `[7]`},
		{`{"a":{"b":true}}`, []string{"/a/b"}, `[true]`},
		{`{"a":{"b":{}}}`, []string{"/a/b"}, `[{}]`},
		{`{"a b":"x"}`, []string{`/"a b"`}, `["x"]`},
		{`{"q\"/":"x"}`, []string{`/"q\"/"`}, `["x"]`},
		{`{"other":1}`, []string{"/pk"}, `[{}]`},
	} {
		key, err := deletedKey([]byte(c.object), keyPathsOf(c.paths...))
		if err != nil || key.String() != c.want {
			t.Errorf("%s at %v is %s, %v; want %s", c.object, c.paths, key, err, c.want)
		}
	}
}

// FuzzPage checks texts that the pageScanner accepts as a page. They must be JSON, and the
// changes must be the documents that encoding/json finds.
func FuzzPage(f *testing.F) {
	f.Add([]byte(latestPage), false)
	f.Add([]byte(versionsPage), true)
	f.Add([]byte(`{"Documents":[{"_lsn":1,"_ts":1}],"_count":1}`), false)
	f.Add([]byte(`{"Documents":[{"current":{"a":1},"metadata":{"operationType":"create","lsn":1,"crts":1}}]}`), true)
	f.Fuzz(func(t *testing.T, body []byte, versions bool) {
		s := pageScanner{versions: versions, keyPaths: keyPathsOf("/pk", `/a/"b c"`)}
		if s.page(body) != nil {
			return
		}
		if !json.Valid(body) {
			t.Fatalf("%q is not JSON", body)
		}
		for _, c := range s.changes {
			for _, image := range [][]byte{c.Current, c.Previous} {
				if image != nil && (!json.Valid(image) || image[0] != '{') {
					t.Fatalf("%q is not a document", image)
				}
			}
			if c.LSN <= 0 || c.Time.IsZero() || !versions && c.Current == nil {
				t.Fatalf("%+v is not a change", c)
			}
		}
		if bytes.Count(body, []byte("ocuments")) > 1 || bytes.Contains(body, []byte(`\u`)) {
			return // encoding/json accepts names in any case and uses the last duplicate, so results may differ
		}
		var page struct{ Documents []json.RawMessage }
		if err := json.Unmarshal(body, &page); err != nil || len(page.Documents) != len(s.changes) {
			t.Fatalf("%q has %d documents (%v); the pageScanner returned %d", body, len(page.Documents), err, len(s.changes))
		}
		for i, d := range page.Documents {
			if !versions && !bytes.Equal(d, s.changes[i].Current) {
				t.Fatalf("document %d is %q; the pageScanner returned %q", i, d, s.changes[i].Current)
			}
		}
	})
}

// benchmarkPage returns a page of 1,000 documents of about 1 KB.
func benchmarkPage() []byte {
	var b bytes.Buffer
	b.WriteString(`{"_rid":"Gis8AYAAAAE=","Documents":[`)
	for i := range 1000 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"item-%d","pk":"key-%d","name":"%s","values":[1,2,3.5,true],"nested":{"a":"%s","b":{"c":null}},"text":"%s",`+
			`"_rid":"Gis8AYAAAAEBAAAAAAAAAA==","_self":"dbs/Gis8AQ==/colls/Gis8AYAAAAE=/docs/Gis8AYAAAAEBAAAAAAAAAA==/",`+
			`"_etag":"\"0000d826-0000-0700-0000-65f000000000\"","_attachments":"attachments/","_ts":1760000000,"_lsn":%d}`,
			i, i%16, strings.Repeat("n", 40), strings.Repeat("v", 30), strings.Repeat("lorem ipsum ", 48), i+1)
	}
	b.WriteString(`],"_count":1000}`)
	return b.Bytes()
}

// jsontextPositions returns the number of documents with a position in a page. It parses
// the page with package jsontext, for comparison.
func jsontextPositions(body []byte) (n int, err error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true))
	for range 5 { // {, "_rid", its value, "Documents", [
		if _, err := d.ReadToken(); err != nil {
			return n, err
		}
	}
	for d.PeekKind() == '{' {
		if _, err := d.ReadToken(); err != nil {
			return n, err
		}
		for d.PeekKind() == '"' {
			name, err := d.ReadToken()
			if err != nil {
				return n, err
			}
			lsn := name.String() == "_lsn"
			value, err := d.ReadValue()
			if err != nil {
				return n, err
			}
			if _, err := strconv.ParseInt(string(value), 10, 64); lsn && err == nil {
				n++
			}
		}
		if _, err := d.ReadToken(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// BenchmarkPage compares the pageScanner with two other ways to parse a page.
func BenchmarkPage(b *testing.B) {
	body := benchmarkPage()
	b.Run("pageScanner", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			s := pageScanner{changes: make([]feed.Change, 0, 1000)}
			if err := s.page(body); err != nil || len(s.changes) != 1000 {
				b.Fatal(err)
			}
		}
	})
	// jsontext decodes token by token. It validates the page, as the pageScanner does.
	b.Run("jsontext", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if n, err := jsontextPositions(body); err != nil || n != 1000 {
				b.Fatal(n, err)
			}
		}
	})
	// azcosmos 1.5.0 decodes a page into raw messages. Its caller decodes _lsn and _ts of
	// each.
	b.Run("azcosmos", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			var page struct {
				ResourceID string            `json:"_rid"`
				Documents  []json.RawMessage `json:"Documents"`
				Count      int               `json:"_count"`
			}
			if err := json.Unmarshal(body, &page); err != nil || len(page.Documents) != 1000 {
				b.Fatal(err)
			}
		}
	})
	b.Run("azcosmos with positions", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			var page struct{ Documents []json.RawMessage }
			if err := json.Unmarshal(body, &page); err != nil {
				b.Fatal(err)
			}
			for _, d := range page.Documents {
				var position struct {
					LSN int64 `json:"_lsn"`
					TS  int64 `json:"_ts"`
				}
				if err := json.Unmarshal(d, &position); err != nil || position.LSN == 0 {
					b.Fatal(err)
				}
			}
		}
	})
}

func keyPathsOf(paths ...string) []keyPath {
	parsed, err := parseKeyPaths(paths)
	if err != nil {
		panic(err)
	}
	return parsed
}

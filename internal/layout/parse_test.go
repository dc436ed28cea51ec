package layout

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/internal/canonical"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/storetype"
)

func mustPaths(t testing.TB, paths ...string) KeyPaths {
	t.Helper()
	p, err := ParseKeyPaths(paths)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func badKind(err error) storetype.BadRequestKind {
	var bad *storetype.BadRequestError
	if errors.As(err, &bad) {
		return bad.Kind
	}
	return 0
}

func nested(open, inner, shut string, n int) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(shut, n)
}

func TestScannerRefusesInvalidDocuments(t *testing.T) {
	paths := mustPaths(t, "/k/l", "/m")
	for _, c := range []struct {
		name, body string
		want       storetype.BadRequestKind
	}{
		{"nothing", ``, storetype.BadBody},
		{"array at the top", `[{"id":"a"}]`, storetype.BadBody},
		{"string at the top", `"id"`, storetype.BadBody},
		{"trailing garbage", `{"id":"a"} x`, storetype.BadBody},
		{"two documents", `{"id":"a"}{"id":"b"}`, storetype.BadBody},
		{"not closed", `{"id":"a"`, storetype.BadBody},
		{"string not closed", `{"id":"a`, storetype.BadBody},
		{"trailing comma", `{"id":"a",}`, storetype.BadBody},
		{"trailing comma in an array", `{"id":"a","x":[1,]}`, storetype.BadBody},
		{"missing colon", `{"id" "a"}`, storetype.BadBody},
		{"missing comma", `{"id":"a" "b":1}`, storetype.BadBody},
		{"name without quotes", `{id:"a"}`, storetype.BadBody},
		{"single quotes", `{'id':"a"}`, storetype.BadBody},
		{"leading zero", `{"id":"a","x":01}`, storetype.BadBody},
		{"number ends in a point", `{"id":"a","x":1.}`, storetype.BadBody},
		{"number without exponent", `{"id":"a","x":1e}`, storetype.BadBody},
		{"plus sign", `{"id":"a","x":+1}`, storetype.BadBody},
		{"NaN", `{"id":"a","x":NaN}`, storetype.BadBody},
		{"half a literal", `{"id":"a","x":tru}`, storetype.BadBody},
		{"unknown escape", `{"id":"a","x":"\q"}`, storetype.BadBody},
		{"short unicode escape", `{"id":"a","x":"\u12"}`, storetype.BadBody},
		{"control character", "{\"id\":\"a\",\"x\":\"a\nb\"}", storetype.BadBody},
		{"control character in a name", "{\"id\":\"a\",\"x\ty\":1}", storetype.BadBody},
		{"invalid UTF-8", "{\"id\":\"a\",\"x\":\"12345678\xff\"}", storetype.BadBody},
		{"surrogate in UTF-8", "{\"id\":\"a\",\"x\":\"\xed\xa0\x80\"}", storetype.BadBody},
		{"overlong UTF-8", "{\"id\":\"a\",\"x\":\"\xc0\xaf\"}", storetype.BadBody},
		{"byte order mark", "\xef\xbb\xbf{\"id\":\"a\"}", storetype.BadBody},
		{"id twice", `{"id":"a","x":1,"id":"a"}`, storetype.BadBody},
		{"id twice, once escaped", `{"id":"a","\u0069d":"b"}`, storetype.BadBody},
		{"key twice", `{"id":"a","m":1,"m":1}`, storetype.BadBody},
		{"key twice, once escaped", `{"id":"a","m":1,"\u006d":1}`, storetype.BadBody},
		{"nested key twice", `{"id":"a","k":{"l":1,"l":2}}`, storetype.BadBody},
		{"parent of a key twice", `{"id":"a","k":{"l":1},"k":{}}`, storetype.BadBody},
		{"ttl twice", `{"id":"a","ttl":1,"ttl":1}`, storetype.BadBody},
		{"system property twice", `{"id":"a","_ts":1,"_ts":1}`, storetype.BadBody},
		{"system property twice, once escaped", `{"id":"a","_rid":1,"\u005frid":1}`, storetype.BadBody},
		{"too deep", `{"id":"a","x":` + nested("[", "", "]", MaxDepth) + `}`, storetype.BadBody},
		{"too deep in objects", `{"id":"a","x":` + nested(`{"x":`, "1", "}", MaxDepth) + `}`, storetype.BadBody},
		{"too deep on the way to a key", `{"id":"a","k":` + nested(`{"l":[`, "", "]}", MaxDepth) + `}`, storetype.BadKey},
		{"no id", `{"m":1}`, storetype.BadID},
		{"empty object", `{}`, storetype.BadID},
		{"only system properties", `{"_ts":1}`, storetype.BadID},
		{"id is a number", `{"id":1}`, storetype.BadID},
		{"id is empty", `{"id":""}`, storetype.BadID},
		{"id too long", `{"id":"` + strings.Repeat("x", MaxIDSize+1) + `"}`, storetype.BadID},
		{"id with a slash", `{"id":"a/b"}`, storetype.BadID},
		{"id with an escaped slash", `{"id":"a\u002fb"}`, storetype.BadID},
		{"id with a backslash", `{"id":"a\\b"}`, storetype.BadID},
		{"id with a question mark", `{"id":"a?"}`, storetype.BadID},
		{"id with a hash", `{"id":"#a"}`, storetype.BadID},
		{"key is an object", `{"id":"a","m":{}}`, storetype.BadKey},
		{"key is an array", `{"id":"a","m":[1]}`, storetype.BadKey},
		{"number beyond a double", `{"id":"a","x":[-1e400]}`, storetype.BadBody},
		{"integer beyond a double", `{"id":"a","x":1` + strings.Repeat("0", 309) + `}`, storetype.BadBody},
		{"half of a surrogate pair that ends too early", `{"id":"a","x":"\ud80"}`, storetype.BadBody},
		{"key beyond a double", `{"id":"a","m":1e999}`, storetype.BadKey},
		{"ttl of zero", `{"id":"a","ttl":0}`, storetype.BadTTL},
		{"ttl below never", `{"id":"a","ttl":-2}`, storetype.BadTTL},
		{"ttl with a fraction", `{"id":"a","ttl":1.5}`, storetype.BadTTL},
		{"ttl too large", `{"id":"a","ttl":2147483648}`, storetype.BadTTL},
		{"ttl as text", `{"id":"a","ttl":"5"}`, storetype.BadTTL},
		{"ttl of null", `{"id":"a","ttl":null}`, storetype.BadTTL},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseDocument([]byte(c.body), paths, true)
			if got := badKind(err); got != c.want {
				t.Errorf("%.60s: %v, want kind %q", c.body, err, c.want)
			}
			if _, is := errors.AsType[*canonical.RangeError](err); is != strings.Contains(c.name, "beyond a double") {
				t.Errorf("%.60s: %v is caused by the range of a number: %t", c.body, err, is)
			}
		})
	}
}

func TestScannerFindsIDKeyAndTTL(t *testing.T) {
	str, num := epk.OfString, epk.OfNumber
	type key = [MaxKeyPaths]epk.Component
	for _, c := range []struct {
		name  string
		paths []string
		body  string
		id    string
		key   key
		ttl   int32
	}{
		{"plain", []string{"/pk"}, `{"id":"a","pk":"p"}`, "a", key{str("p")}, 0},
		{"missing key is undefined", []string{"/pk"}, `{"id":"a"}`, "a", key{}, 0},
		{"id is the key", []string{"/id"}, `{"id":"a"}`, "a", key{str("a")}, 0},
		{"ttl is the key", []string{"/ttl"}, `{"id":"a","ttl":7}`, "a", key{num(7)}, 7},
		{"escapes", []string{"/pk"}, `{"\u0069d":"\u00e9\n\ud83d\ude00","p\u006b":"\"\\\/\b\f\n\r\t"}`, "é\n😀", key{str("\"\\/\b\f\n\r\t")}, 0},
		{"literals", []string{"/a", "/b", "/c"}, `{"id":"a","a":true,"b":false,"c":null}`, "a", key{{Kind: epk.True}, {Kind: epk.False}, {Kind: epk.Null}}, 0},
		{"numbers", []string{"/a", "/b", "/c"}, `{"id":"a","a":-0,"b":1e2,"c":9007199254740993}`, "a", key{num(0), num(100), num(9007199254740992)}, 0},
		{"nested", []string{"/a/b", "/a/c", "/d"}, `{"id":"a","a":{"x":{"b":1},"c":"c","b":"b"},"d":1}`, "a", key{str("b"), str("c"), num(1)}, 0},
		{"nested key without a parent object", []string{"/a/b"}, `{"id":"a","a":[{"b":1}]}`, "a", key{}, 0},
		{"id elsewhere", []string{"/a/id"}, `{"a":{"id":"x"},"id":"y","b":[{"id":"z"}]}`, "y", key{str("x")}, 0},
		{"quoted names", []string{`/"a/b"/x`, `/"\u0063"`}, `{"id":"a","a/b":{"x":1},"c":2}`, "a", key{num(1), num(2)}, 0},
		{"white space", []string{"/pk"}, " \n\t{ \"id\" : \"a\" ,\r\"pk\":\t1 } \n", "a", key{num(1)}, 0},
		{"ttl never", []string{"/pk"}, `{"id":"a","ttl":-1}`, "a", key{}, TTLNever},
		{"ttl with an exponent", []string{"/pk"}, `{"id":"a","ttl":1e2}`, "a", key{}, 100},
		{"ttl at its limit", []string{"/pk"}, `{"id":"a","ttl":2147483647}`, "a", key{}, 2147483647},
		{"longest id", []string{"/pk"}, `{"id":"` + strings.Repeat("x", MaxIDSize) + `"}`, strings.Repeat("x", MaxIDSize), key{}, 0},
		{"as deep as possible", []string{"/pk"}, `{"id":"a","x":` + nested("[", "", "]", MaxDepth-1) + `}`, "a", key{}, 0},
		{"unknown underscore names stay", []string{"/_partitionKey"}, `{"id":"a","_partitionKey":"p","_lsnx":1}`, "a", key{str("p")}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := ParseDocument([]byte(c.body), mustPaths(t, c.paths...), true)
			if err != nil {
				t.Fatal(err)
			}
			if d.ID != c.id || d.key != c.key || d.keys != len(c.paths) || d.TTL != c.ttl {
				t.Errorf("the document has id %q, key %+v, ttl %d", d.ID, d.key, d.TTL)
			}
		})
	}
}

// The scanner compares eight bytes of a string at a time. It must notice an invalid byte
// at any position in them.
func TestScannerSeesEveryByteOfAString(t *testing.T) {
	for pad := range 40 {
		for _, bad := range []string{"\x00", "\x1f", "\xff", "\\q", "\xc3"} {
			body := fmt.Sprintf(`{"id":"a","x":"%s%s%s"}`, strings.Repeat("x", pad), bad, strings.Repeat("y", 20))
			if _, err := ParseDocument([]byte(body), nil, false); badKind(err) != storetype.BadBody {
				t.Fatalf("%q after %d bytes: %v", bad, pad, err)
			}
		}
		for _, good := range []string{"\x7f", " ", "é", "😀", `\"`, `\\`, "!", "#", "[", "]", "~"} {
			body := fmt.Sprintf(`{"id":"a","x":"%s%s%s"}`, strings.Repeat("x", pad), good, strings.Repeat("y", 20))
			if _, err := ParseDocument([]byte(body), nil, false); err != nil {
				t.Fatalf("%q after %d bytes: %v", good, pad, err)
			}
		}
	}
}

func TestIncomingSystemPropertiesAreDropped(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"_rid":"x","id":"a"}`, `{"id":"a"`},
		{`{"id":"a","_rid":"x"}`, `{"id":"a"`},
		{`{ "id":"a" , "_ts" : 5 , "b":1 }`, `{"id":"a","b":1`},
		{`{"_rid":1,"_self":[1,2],"id":"a","_etag":{"_ts":1},"_attachments":"","b":{"_ts":1},"_ts":1}`, `{"id":"a","b":{"_ts":1}`},
		{`{"_rid":1,"_lsn":"mine","id":"a","_ts":1,"b":1}`, `{"_lsn":"mine","id":"a","b":1`},
		{`{"_t\u0073":1,"id":"a","c":[",",1]}`, `{"id":"a","c":[",",1]`},
	} {
		d, err := ParseDocument([]byte(c.in), nil, false)
		if err != nil || string(d.Body) != c.want {
			t.Errorf("%s became %s, %v, want %s", c.in, d.Body, err, c.want)
		}
	}
}

// The wanted texts are those that the service returned for the same documents, except the
// last ones, which it has not been asked for.
func TestDocumentsAreStoredInCanonicalForm(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{
			`{"id":"nums","pk":"t","i64":9007199254740993,"u64":18446744073709551615,"i64min":-9223372036854775808,"ovr":18446744073709551616,"huge":123456789012345678901234567890,"dec":0.1000000000000000055511151231257827,"one":1.0,"negzero":-0.0,"big":1.7976931348623157e308,"tiny":5e-324,"under":1e-400,"frac":12345678901234567890.123}`,
			`{"id":"nums","pk":"t","i64":9007199254740993,"u64":18446744073709551615,"i64min":-9223372036854775808,"ovr":1.8446744073709552e+019,"huge":1.2345678901234568e+029,"dec":0.1,"one":1,"negzero":0,"big":1.7976931348623157e+308,"tiny":4.94065645841247e-324,"under":0,"frac":1.2345678901234567e+019`,
		},
		{`{"id":"e2","pk":"t","s":"a\u0000b"}`, `{"id":"e2","pk":"t","s":"a\u0000b"`},
		{`{"id":"e5","pk":"t","s":"a\ud800b"}`, `{"id":"e5","pk":"t","s":"a` + "\uFFFD" + `b"`},
		{`{"id":"ty1","pk":"t","i":42,"f":1.5,"s":"héllo","obj":{"a":{"b":1}},"ea":[],"eo":{}}`, `{"id":"ty1","pk":"t","i":42,"f":1.5,"s":"héllo","obj":{"a":{"b":1}},"ea":[],"eo":{}`},
		{" { \"id\" : \"a\" ,\r\n\t\"b\" : [ 1 , -1.50 , { } ] , \"a b\" : \" c \\\" \" }\n", `{"id":"a","b":[1,-1.5,{}],"a b":" c \" "`},
		{`{"id":"a", "_ts":1e400,"z":1e2, "_rid" : "x" ,"a":-0,"z":[]}`, `{"id":"a","z":100,"a":0,"z":[]`},
	} {
		d, err := ParseDocument([]byte(c.in), nil, false)
		if err != nil || string(d.Body) != c.want {
			t.Errorf("%s is stored as\n%s, %v, want\n%s", c.in, d.Body, err, c.want)
		}
	}
}

// A number can be longer in canonical form, and the limit holds for both forms.
func TestCanonicalFormCountsForTheLimit(t *testing.T) {
	body := func(n int) []byte {
		return []byte(`{"id":"a","x":[5e-324` + strings.Repeat(`,5e-324`, n-1) + `]}`)
	}
	const most = (storetype.MaxDocumentSize - len(`{"id":"a","x":[]`) + 1) / len(`,4.94065645841247e-324`)
	if _, err := ParseDocument(body(most), nil, false); err != nil {
		t.Error(err)
	}
	var large *storetype.TooLargeError
	if _, err := ParseDocument(body(most+1), nil, false); !errors.As(err, &large) || large.Size <= storetype.MaxDocumentSize {
		t.Errorf("one number more: %v", err)
	}
}

func TestTTLIsIgnoredWhereTheContainerHasNone(t *testing.T) {
	for body, want := range map[string]int32{`{"id":"a","ttl":0}`: 0, `{"id":"a","ttl":"x"}`: 0, `{"id":"a","ttl":{}}`: 0, `{"id":"a","ttl":9}`: 9} {
		if d, err := ParseDocument([]byte(body), nil, false); err != nil || d.TTL != want {
			t.Errorf("%s: ttl %d, %v, want %d", body, d.TTL, err, want)
		}
	}
}

func TestDocumentLimits(t *testing.T) {
	fill := func(n int) []byte {
		const frame = `{"id":"a","x":""}`
		return []byte(`{"id":"a","x":"` + strings.Repeat("x", n-len(frame)) + `"}`)
	}
	if _, err := ParseDocument(fill(storetype.MaxDocumentSize), nil, false); err != nil {
		t.Errorf("a document of exactly 2 MB: %v", err)
	}
	var large *storetype.TooLargeError
	if _, err := ParseDocument(fill(storetype.MaxDocumentSize+1), nil, false); !errors.As(err, &large) || large.Size != storetype.MaxDocumentSize+1 {
		t.Errorf("a document of more than 2 MB: %v", err)
	}
	paths := mustPaths(t, "/a", "/b")
	body := func(n int) []byte {
		return []byte(`{"id":"a","a":1,"b":"` + strings.Repeat("x", n-8) + `"}`)
	}
	if _, err := ParseDocument(body(MaxKeySize), paths, false); err != nil {
		t.Errorf("a key of exactly 2 KB: %v", err)
	}
	if _, err := ParseDocument(body(MaxKeySize+1), paths, false); !errors.As(err, &large) || large.What != "partition key" {
		t.Errorf("a key of more than 2 KB: %v", err)
	}
}

func TestParseDocumentAllocatesForIDAndKeyOnly(t *testing.T) {
	body, paths := benchmarkBody(), mustPaths(t, "/origin")
	if n := testing.AllocsPerRun(100, func() {
		if _, err := ParseDocument(body, paths, true); err != nil {
			t.Fatal(err)
		}
	}); n > 2 {
		t.Errorf("%v allocations, want at most 2", n)
	}
}

// jsontextAccepts reports whether jsontext, which is a strict decoder, accepts body as
// one object. Duplicate names and halves of surrogate pairs are allowed, and the depth is
// at most MaxDepth.
func jsontextAccepts(body []byte) bool {
	if !utf8.Valid(body) {
		return false
	}
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) // the halves
	if d.PeekKind() != '{' {
		return false
	}
	for {
		tok, err := d.ReadToken()
		if err != nil || d.StackDepth() > MaxDepth {
			return false
		}
		if d.StackDepth() == 0 {
			_, err := d.ReadToken()
			return tok.Kind() == '}' && errors.Is(err, io.EOF)
		}
	}
}

// FuzzScanner checks that the store accepts the same documents as jsontext, with three
// exceptions. The store refuses a second property with a name that it reads, and a number
// beyond the range of a float64. It also has rules for the values of id, key and ttl. An
// accepted document must be the same after it was stored and read, and its stored text
// must be canonical.
func FuzzScanner(f *testing.F) {
	f.Add([]byte(`{"id":"a","k":{"l":1},"m":"x","ttl":5,"_ts":[1,{"a":null}],"s":"\u00e9\ud83d\ude00é"}`))
	f.Add([]byte(` { "id" : "b" , "x" : [ -1.5e+10 , true , false , { } , [ ] ] } `))
	f.Add([]byte(`{"id":"a","x":"\ud800"}`))
	f.Add([]byte(`{"_rid":1,"id":"a",}`))
	f.Add([]byte(`{"id":"\udfff","_ts":1e400, "n":[18446744073709551616,1.0,-0,1e-7,5e-324,12.50,-0.0001]}`))
	f.Add(benchmarkBody())
	paths, err := ParseKeyPaths([]string{"/k/l", "/m", `/"a b"`})
	if err != nil {
		f.Fatal(err)
	}
	tail := NewTailFormat(7, 9)
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := ParseDocument(body, paths, true)
		good := jsontextAccepts(body)
		switch {
		case err == nil && !good:
			t.Fatalf("accepted an invalid document: %q", body)
		case badKind(err) == storetype.BadBody && good && !strings.Contains(err.Error(), "occurs twice") && !strings.Contains(err.Error(), "beyond the range"):
			t.Fatalf("refused (%v) a valid document: %q", err, body)
		}
		if err != nil {
			return
		}
		s := Stamp{Number: 3, LSN: 12, Ordinal: 1, TS: 1_700_000_000}
		stored := tail.AppendStored(nil, d.Body, s)
		if !jsontextAccepts(stored) {
			t.Fatalf("the stored bytes are not a document: %q", stored)
		}
		public, err := AppendPublic(nil, stored)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseDocument(public, paths, true)
		if err != nil {
			t.Fatalf("read back: %v: %q", err, public)
		}
		if again.ID != d.ID || again.key != d.key || again.TTL != d.TTL || !bytes.Equal(again.Body, d.Body) {
			t.Fatalf("read back as %+v, was %+v", again, d)
		}
		if text, err := canonical.Append(nil, d.Body); err != nil || !bytes.Equal(text, d.Body) {
			t.Fatalf("stored %q, whose canonical form is %q (%v)", d.Body, text, err)
		}
		if b, got, err := tail.ParseStored(stored); err != nil || got != s || !bytes.Equal(b, d.Body) {
			t.Fatalf("the stored bytes were parsed as %+v, %v", got, err)
		}
	})
}

func benchmarkBody() []byte {
	return []byte(`{"id":"flight-000001","origin":"LHR","destination":"JFK","distance":3451,"delay":-4,"carrier":"British Airways","remarks":"` +
		strings.Repeat("a long remark ", 40) + `","legs":[1,2,3.5,-400],"tags":{"a":true,"b":null}}`)
}

func BenchmarkParseDocument(b *testing.B) {
	paths := mustPaths(b, "/origin")
	dense := []byte(`{"id":"d"`)
	for i := range 60 {
		dense = fmt.Appendf(dense, `,"field%02d":%d`, i, i*i)
	}
	dense = append(dense, '}')
	indented := bytes.ReplaceAll(dense, []byte(","), []byte(",\n  "))
	for name, body := range map[string][]byte{"prose": benchmarkBody(), "dense": dense, "indented": indented} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseDocument(body, paths, true); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

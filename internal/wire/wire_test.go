package wire_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire"
)

const vectorKey = "dGhpcy1pcy1hLW1hZGUtdXAta2V5LWZvci12ZWN0b3Jz"

// The signatures in this test were made by the JavaScript SDK. Key.Sign must return the
// same ones.
func TestSignaturesEqualThoseOfTheSDKs(t *testing.T) {
	key, err := wire.ParseKey(vectorKey)
	if err != nil {
		t.Fatal(err)
	}
	const date = "Thu, 15 Jan 2026 09:30:00 GMT"
	verifier := wire.NewVerifier(key)
	for _, c := range []struct{ verb, path, want string }{
		{"get", "/", "/Suoex7aHNtcx5UtRC1AvMGB3q38LbyrEIJ74M4Rsog="},
		{"post", "/dbs", "qjM2uhblysZybIcW2rWpYeKZ3GIDGVzVwYS0Ymrp1tU="},
		{"get", "/dbs/shop/colls/orders/docs", "mNAiu2GV8tck8MwaThqIUZebS0t/G6/T1tBb607cIYg="},
		{"put", "/dbs/Shop/colls/orders/docs/o%201+%25%C3%A9", "ZJCWvQzCFIiLVHWtgYQxLLC5M8MbX4vK9Dac7uELzHo="},
		{"get", "/dbs/Gis8AQ==/colls/Gis8AYAAAAE=/pkranges", "Y2khdWR4jYqm9yv1KDWvWxvdx8L9LrJpKj1TipseAJg="},
		{"post", "/offers", "rmXP3qcKeYAhwTEbY9jjPl51aTL4vLb8gFnRZkqqZmE="},
	} {
		p, err := wire.ParsePath(c.path)
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		found := false
		for _, link := range p.Links() {
			payload := wire.Payload(c.verb, p.Type(), link, date, "ignored")
			sig := key.Sign(payload)
			found = found || base64.StdEncoding.EncodeToString(sig) == c.want
			for range 2 { // the second time with the states that the first one left
				if !verifier.Verify([]byte(payload), sig) || verifier.Verify([]byte(payload+" "), sig) || verifier.Verify([]byte(payload), sig[1:]) {
					t.Errorf("%s %s: the signature of %q is not verified", c.verb, c.path, payload)
				}
			}
		}
		if !found {
			t.Errorf("%s %s: none of the links %q is signed as %s", c.verb, c.path, p.Links(), c.want)
		}
	}
}

func TestAuthorizationIsParsedInEveryFormOfTheSDKs(t *testing.T) {
	const want = "a+b/c=="
	for _, header := range []string{
		"type%3Dmaster%26ver%3D1.0%26sig%3Da%2Bb%2Fc%3D%3D",
		"type%3dmaster%26ver%3d1.0%26sig%3da%2bb%2fc%3d%3d",
		"type%3Dmaster%26ver%3D1.0%26sig%3Da+b%2Fc%3D%3D",
		"type=master&ver=1.0&sig=a+b/c==",
	} {
		token, err := wire.ParseAuthorization(header)
		if err != nil || token != (wire.Token{Type: "master", Version: "1.0", Signature: want}) {
			t.Errorf("%s is read as %+v, %v", header, token, err)
		}
	}
	for _, header := range []string{"", "Bearer x", "type%3Dmaster", "%zz", strings.Repeat("x", 17<<10)} {
		if token, err := wire.ParseAuthorization(header); err == nil {
			t.Errorf("%.40q is read as %+v", header, token)
		}
	}
}

func TestTimesAreParsedWithGMTAndWithUTCInAnyCase(t *testing.T) {
	want := time.Date(2026, 11, 20, 18, 45, 41, 0, time.UTC)
	for _, s := range []string{"Fri, 20 Nov 2026 18:45:41 GMT", "Fri, 20 Nov 2026 18:45:41 UTC", "fri, 20 nov 2026 18:45:41 gmt", "fri, 20 nov 2026 18:45:41 utc"} {
		if got, err := wire.ParseTime(s); err != nil || !got.Equal(want) {
			t.Errorf("%q is read as %s, %v", s, got, err)
		}
	}
	if _, err := wire.ParseTime("yesterday"); err == nil {
		t.Error(`"yesterday" was taken for a time`)
	}
}

func TestSessionLSNIsFoundInEveryForm(t *testing.T) {
	for _, c := range []struct {
		token string
		lsn   int64
		ok    bool
	}{
		{wire.SessionToken("0", 42), 42, true},
		{"0:0#42#0=-1", 42, true},
		{"1:-1#7,0:-1#42", 42, true},
		{"0:42", 42, true},
		{"1:-1#7", 0, false},
		{"nonsense", 0, false},
	} {
		if lsn, ok := wire.SessionLSN(c.token, "0"); lsn != c.lsn || ok != c.ok {
			t.Errorf("%q: LSN %d, %v; want %d, %v", c.token, lsn, ok, c.lsn, c.ok)
		}
	}
}

func TestPathsAreDecoded(t *testing.T) {
	p, err := wire.ParsePath("/dbs/shop/colls/a%2Fb/docs/o%201+%25%C3%A9/")
	if err != nil || p.Shape() != "/dbs/*/colls/*/docs/*" || p.IDs[1] != "a/b" || p.IDs[2] != "o 1+%é" {
		t.Errorf("the path is read as %+v, %v", p, err)
	}
	p, err = wire.ParsePath("/dbs/shop/colls/a%2Fb/operations/partitionkeydelete")
	if err != nil || p.Type() != "operations" || p.SignedType() != "colls" || !slices.Equal(p.Links(), []string{"dbs/shop/colls/a/b", "dbs/shop/colls/a%2Fb"}) {
		t.Errorf("the path is read as %+v, %v, and signed as %s, %q", p, err, p.SignedType(), p.Links())
	}
	for _, bad := range []string{"/dbs//colls", "/nothing", "/dbs/%zz"} {
		if p, err := wire.ParsePath(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, p)
		}
	}
}

// A path by resource IDs is signed by its last ID alone. A path by names must be signed
// as a whole. Otherwise the signature for one container would be valid for containers of
// the same name in other databases.
func TestOnlyResourceIDsAreSignedWithoutTheirPath(t *testing.T) {
	const database, container, document = "Gis8AQ==", "Gis8AYAAAAE=", "Gis8AYAAAAEBAAAAAQAAAA=="
	for path, want := range map[string]string{
		"/dbs/" + database: "gis8aq==",
		"/dbs/" + database + "/colls/" + container + "/pkranges":         "gis8ayaaaae=",
		"/dbs/" + database + "/colls/" + container + "/docs/" + document: "gis8ayaaaaebaaaaaqaaaa==",
		"/offers/ZyXw":                                         "zyxw",
		"/dbs/shop":                                            "",
		"/dbs/shop/colls/orders/docs/1":                        "",
		"/dbs/shop/colls/" + container:                         "",
		"/dbs/shop/colls/orders/docs/" + document:              "",
		"/dbs/" + database + "/colls/orders":                   "",
		"/dbs/AAAAAQ==/colls/" + container:                     "",
		"/dbs/" + database + "/colls/" + container + "/docs/1": "",
		"/dbs/" + database + "/colls/" + container + "/docs/AAAAAAAAAAAAAAAAAAAAAA==": "",
	} {
		p, err := wire.ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		links := p.Links()[1:]
		if want == "" && len(links) != 0 || want != "" && !slices.Equal(links, []string{want}) {
			t.Errorf("%s can be signed by %q besides its path, want %q", path, links, want)
		}
	}
}

func FuzzPath(f *testing.F) {
	f.Add("/dbs/shop/colls/orders/docs/o%201+%25%C3%A9")
	f.Add("/")
	f.Fuzz(func(t *testing.T, escaped string) {
		p, err := wire.ParsePath(escaped)
		if err != nil {
			return
		}
		if n := len(p.Types) - len(p.IDs); n != 0 && n != 1 {
			t.Errorf("%q has %d types and %d ids", escaped, len(p.Types), len(p.IDs))
		}
		if len(p.Links()) == 0 || p.Shape() == "" {
			t.Errorf("%q has no link or no shape", escaped)
		}
	})
}

// The server reads headers from the map by these names. So each must be in the canonical
// form of net/http.
func TestHeaderNamesAreCanonical(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "header.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || !strings.HasPrefix(spec.Names[0].Name, "Header") {
			return true
		}
		name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil || name != http.CanonicalHeaderKey(name) {
			t.Errorf("%s is %q (%v)", spec.Names[0].Name, name, err)
		}
		names++
		return true
	})
	if names < 40 {
		t.Errorf("header.go has %d names", names)
	}
}

func FuzzAuthorization(f *testing.F) {
	f.Add("type%3Dmaster%26ver%3D1.0%26sig%3Da%2Bb%2Fc%3D%3D")
	f.Add("type=aad&ver=1.0&sig=a.b.c")
	f.Fuzz(func(t *testing.T, header string) {
		token, err := wire.ParseAuthorization(header)
		if err == nil && (token.Type == "" || token.Signature == "") {
			t.Errorf("%q is read as %+v", header, token)
		}
	})
}

// A header may have no character that is not printable ASCII, and its text must keep its
// meaning.
func TestJSONInAHeaderIsPrintableASCII(t *testing.T) {
	for in, want := range map[string]string{
		`["ada"]`:          `["ada"]`,
		`["größe, 量"]`:     `["gr\u00f6\u00dfe, \u91cf"]`,
		"[\"\x7f\"]":       `["\u007f"]`,
		"[\"\U0001f642\"]": `["\ud83d\ude42"]`,
	} {
		var before, after any
		got := wire.ASCII(in)
		if err := errors.Join(json.Unmarshal([]byte(in), &before), json.Unmarshal([]byte(got), &after)); got != want || err != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
}

// A path without escapes has one link, so that a request with a wrong signature costs one
// computation. The link ends before the type of a feed and before an operation.
func TestLinksOfAPath(t *testing.T) {
	for path, want := range map[string][]string{
		"/dbs/shop/":                                   {"dbs/shop"},
		"/dbs/shop/colls/orders/docs":                  {"dbs/shop/colls/orders"},
		"/DBS/shop/colls/orders":                       {"dbs/shop/colls/orders", "DBS/shop/colls/orders"},
		"/dbs/shop/colls/a%20b/docs/c":                 {"dbs/shop/colls/a b/docs/c", "dbs/shop/colls/a%20b/docs/c"},
		"/dbs/a%2Fb/colls":                             {"dbs/a/b", "dbs/a%2Fb"},
		"/dbs/d/colls/c/operations/partitionkeydelete": {"dbs/d/colls/c"},
		"/offers/Abc":                                  {"offers/Abc", "abc"},
	} {
		p, err := wire.ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Links(); !slices.Equal(got, want) {
			t.Errorf("%s: the links are %q, want %q", path, got, want)
		}
	}
}

// The conversion to lower case is that of strings.ToLower, also for what no SDK sends.
func TestPayloadIsInLowerCase(t *testing.T) {
	for _, date := range []string{"Thu, 15 Jan 2026 09:30:00 GMT", "ÄB", "AÄ", "@[`{Z", ""} {
		got, want := wire.Payload("PÖST", "Docs", "dbs/Shop", date, "Fri"), "pöst\ndocs\ndbs/Shop\n"+strings.ToLower(date)+"\n\n"
		if date == "" {
			want = "pöst\ndocs\ndbs/Shop\n\nfri\n"
		}
		if got != want {
			t.Errorf("the payload for %q is %q, want %q", date, got, want)
		}
	}
}

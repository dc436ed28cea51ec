package server

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// FuzzSignature sends a random method, path, date and Authorization. The answer must not
// be a 5xx. An operation may run only if the Authorization has the signature of a link
// that the path can mean. The test derives those links itself, from the description of
// the protocol.
func FuzzSignature(f *testing.F) {
	r := newRecorded(f)
	now := wire.FormatTime(r.db.Now())
	for _, c := range []call{
		{method: "GET", path: "/dbs/a/colls/b/docs/c"}, {method: "POST", path: "/dbs/"}, {method: "GET", path: "/"}, {method: "PUT", path: "/offers/AbC="},
	} {
		good := r.request(c.method, c.path, c.h, "")
		f.Add(c.method, c.path, now, "", good.Header.Get("Authorization"))
		f.Add(c.method, c.path, "", now, good.Header.Get("Authorization"))
	}
	f.Add("GET", "/dbs/a%2Fb/colls/%20", now, now, "type=aad&ver=1.0&sig=e30.e30.eA")
	f.Add("", "/", "", now, r.request("", "/", nil, "").Header.Get("Authorization"))
	f.Add("GET", "/_changefeed/faults", now, "", "type=master&ver=1.0&sig=AAAA")
	f.Fuzz(func(t *testing.T, method, path, date, httpDate, authorization string) {
		target, err := url.ParseRequestURI(path)
		if err != nil || !strings.HasPrefix(path, "/") {
			return // no HTTP client can send this path
		}
		req := &http.Request{Method: method, URL: target, Header: http.Header{}, Body: http.NoBody, Host: "localhost"}
		req = req.WithContext(t.Context())
		req.Header.Set(wire.HeaderDate, date)
		req.Header.Set("Date", httpDate)
		req.Header.Set("Authorization", authorization)
		w := httptest.NewRecorder()
		r.reached = nil
		r.ServeHTTP(w, req)
		if w.Code >= 500 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if len(r.reached) > 0 && !signs(r.key, req, authorization) {
			t.Fatalf("%s %s is carried out: date %q, Date %q, Authorization %q", method, path, date, httpDate, authorization)
		}
	})
}

// signs reports whether text is an Authorization header with a signature of r that key k
// made. text may be percent-encoded.
func signs(k wire.Key, r *http.Request, text string) bool {
	plain, err := url.PathUnescape(text)
	if err != nil {
		plain = text
	}
	date, httpDate := r.Header.Get(wire.HeaderDate), r.Header.Get("Date")
	if date != "" {
		httpDate = ""
	}
	sent := strings.Trim(r.URL.EscapedPath(), "/")
	segments := strings.Split(sent, "/")
	decoded := make([]string, len(segments))
	for i, s := range segments {
		decoded[i], _ = url.PathUnescape(s)
	}
	kind, link, raw := "", "", ""
	switch n := len(segments); {
	case sent == "":
	case n%2 == 1:
		kind, link, raw = decoded[n-1], strings.Join(decoded[:n-1], "/"), strings.Join(segments[:n-1], "/")
	default:
		kind, link, raw = decoded[n-2], strings.Join(decoded, "/"), sent
	}
	types := strings.Split(link, "/")
	for i := 0; i < len(types); i += 2 {
		types[i] = strings.ToLower(types[i]) // types of resources are accepted in upper and lower case
	}
	last := link[strings.LastIndexByte(link, '/')+1:]
	if n := len(decoded) / 2 * 2; n > 0 {
		last = decoded[n-1]
	}
	for _, l := range []string{link, raw, strings.Join(types, "/"), strings.ToLower(last)} {
		payload := strings.ToLower(r.Method+"\n"+kind+"\n") + l + "\n" + strings.ToLower(date+"\n"+httpDate+"\n")
		for field := range strings.SplitSeq(text+"&"+plain, "&") {
			_, value, _ := strings.Cut(field, "=")
			// Signatures are compared as bytes, because several base64 texts decode to
			// the same bytes.
			if sig, err := base64.StdEncoding.DecodeString(value); err == nil && bytes.Equal(sig, k.Sign(payload)) {
				return true
			}
		}
	}
	return false
}

package cosmos_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// In the tests of this file a function acts as the service. It can violate the protocol,
// and it can use parts of the protocol that `changefeed serve` does not use.

// scripted is a transport that calls the function for every request. It answers requests
// for the account and for the container itself.
type scripted func(r *http.Request, w *httptest.ResponseRecorder)

func (f scripted) Do(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	switch r.URL.Path {
	case "/":
		_, _ = w.WriteString(`{"writableLocations":[{"name":"East","databaseAccountEndpoint":"https://a.b/"}],"readableLocations":[]}`)
	case "/dbs/shop/colls/orders":
		_, _ = w.WriteString(`{"_rid":"Gis8AYAAAAE=","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}`)
	default:
		f(r, w)
	}
	answer := w.Result()
	answer.Request = r
	return answer, nil
}

// scriptedSource returns a source on an account whose service is f.
func scriptedSource(t *testing.T, f scripted) *cosmos.Source {
	t.Helper()
	return scriptedAccount(t, f).Source("shop", "orders", cosmos.SourceOptions{})
}

// scriptedAccount returns an account whose service is f.
func scriptedAccount(t *testing.T, f scripted) *cosmos.Account {
	t.Helper()
	var o cosmos.Options
	o.Transport, o.Retry.MaxRetries = f, -1
	a, err := cosmos.WithKey("https://a.b/", wire.EmulatorKey, o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The service returns the list of partitions in several pages, and then increments that
// name the partitions they replace. Partitions must read all of them.
func TestPartitionListIsReadToItsEnd(t *testing.T) {
	var asked []string
	source := scriptedSource(t, func(r *http.Request, w *httptest.ResponseRecorder) {
		place := r.Header.Get("If-None-Match") + "|" + r.Header.Get(wire.HeaderContinuation)
		asked = append(asked, place)
		if r.Header.Get(wire.HeaderAIM) != wire.AIMIncremental || r.Header.Get(wire.HeaderMaxItemCount) != "-1" {
			t.Errorf("the list is requested with %v", r.Header)
		}
		ranges := ""
		switch place {
		case "|":
			w.Header().Set("Etag", `"1"`)
			w.Header().Set(wire.HeaderContinuation, "more")
			ranges = `{"id":"0","minInclusive":"","maxExclusive":"1FFF","parents":null}`
		case "|more":
			w.Header().Set("Etag", `"1"`)
			ranges = `{"id":"1","minInclusive":"1FFF","maxExclusive":"FF","parents":[]}`
		case `"1"|`: // partition 1 was split, and then its second half
			w.Header().Set("Etag", `"2"`)
			ranges = `{"id":"5","minInclusive":"3abc","maxExclusive":"FF","parents":["1","3"]},{"id":"3","minInclusive":"2FFF","maxExclusive":"FF","parents":["1"]},` +
				`{"id":"2","minInclusive":"1FFF","maxExclusive":"2FFF","parents":["1"]},{"id":"4","minInclusive":"2FFF","maxExclusive":"3abc","parents":["1","3"]}`
		default:
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = fmt.Fprintf(w, `{"_rid":"Gis8AYAAAAE=","PartitionKeyRanges":[%s]}`, ranges)
	})
	live, err := source.Partitions(t.Context())
	want := `[{0 -1FFF []} {2 1FFF-2FFF [1]} {4 2FFF-3ABC [1 3]} {5 3ABC-FF [1 3]}]`
	if got := fmt.Sprint(live); err != nil || got != want {
		t.Errorf("the list is %s, %v; want %s", got, err, want)
	}
	if got := strings.Join(asked, " "); got != `| |more "1"| "2"|` {
		t.Errorf("the list was requested at %s", got)
	}
}

func TestInvalidPartitionListIsRefused(t *testing.T) {
	hole := `{"id":"0","minInclusive":"","maxExclusive":"10"},{"id":"1","minInclusive":"20","maxExclusive":"FF"}`
	for name, c := range map[string]struct {
		ranges, rid, want string
		etags             bool
	}{
		"a hole":               {ranges: hole, want: "do not cover all keys"},
		"an overlap":           {ranges: strings.ReplaceAll(hole, `"20"`, `"08"`), want: "do not cover all keys"},
		"nothing":              {want: "do not cover all keys"},
		"an end too early":     {ranges: `{"id":"0","minInclusive":"","maxExclusive":"F0"}`, want: "do not cover all keys"},
		"no id":                {ranges: `{"minInclusive":"","maxExclusive":"FF"}`, want: "no id"},
		"not JSON":             {ranges: `{`, want: "unexpected end"},
		"an etag that moves":   {ranges: `{"id":"0","minInclusive":"","maxExclusive":"FF"}`, etags: true, want: "no end"},
		"of another container": {ranges: `{"id":"0","minInclusive":"","maxExclusive":"FF"}`, rid: "Gis8AYAAAAI=", want: "recreated"},
	} {
		rounds := 0
		source := scriptedSource(t, func(_ *http.Request, w *httptest.ResponseRecorder) {
			rounds++
			if c.etags {
				w.Header().Set("Etag", fmt.Sprintf(`"%d"`, rounds))
			}
			if c.rid == "" {
				c.rid = "Gis8AYAAAAE="
			}
			body := fmt.Sprintf(`{"_rid":%q,"PartitionKeyRanges":[%s]}`, c.rid, c.ranges)
			_, _ = w.WriteString(strings.TrimSuffix(body, strings.Repeat("]}", strings.Count(name, "not JSON"))))
		})
		if _, err := source.Partitions(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) || rounds > 100 {
			t.Errorf("%s, %d requests: %v; want %q", name, rounds, err, c.want)
		}
	}
}

// During a split the service may briefly list neither the parent nor one of its children.
// Partitions must read such a list again.
func TestPartitionListWithAGapIsReadAgain(t *testing.T) {
	rounds := 0
	source := scriptedSource(t, func(_ *http.Request, w *httptest.ResponseRecorder) {
		if rounds++; rounds == 1 {
			_, _ = w.WriteString(`{"PartitionKeyRanges":[{"id":"1","minInclusive":"","maxExclusive":"10","parents":["0"]},{"id":"0","minInclusive":"","maxExclusive":"FF"}]}`)
			return
		}
		_, _ = w.WriteString(`{"PartitionKeyRanges":[{"id":"1","minInclusive":"","maxExclusive":"10"},{"id":"2","minInclusive":"10","maxExclusive":"FF"}]}`)
	})
	if live, err := source.Partitions(t.Context()); err != nil || len(live) != 2 {
		t.Errorf("%v, %v", live, err)
	}
}

// A source must return an error for a response without a position or with an incomplete
// page. Otherwise a reader would start over, or resume after changes that it did not
// read.
func TestAnswersThatLackAPartAreErrors(t *testing.T) {
	const whole = `{"_rid":"Gis8AYAAAAE=","Documents":[{"id":"1","_ts":1,"_lsn":1}],"_count":1}`
	for name, c := range map[string]struct {
		status     int
		etag, body string
		want       string
	}{
		"a page without position":     {200, "", whole, "no etag"},
		"nothing, without position":   {304, "", "", "no etag"},
		"an invalid page":             {200, `"1"`, `<html>`, "malformed"},
		"a truncated page":            {200, `"1"`, whole[:60], "ends in the middle"},
		"a page of another container": {200, `"1"`, strings.Replace(whole, "AAE=", "AAI=", 1), "of container Gis8AYAAAAI="},
		"an unknown error":            {418, "", "I'm a teapot", "418"},
		"an error without a body":     {500, "", "", "500"},
	} {
		source := scriptedSource(t, func(_ *http.Request, w *httptest.ResponseRecorder) {
			if c.etag != "" {
				w.Header().Set("Etag", c.etag)
			}
			w.WriteHeader(c.status)
			_, _ = w.WriteString(c.body)
		})
		page, err := source.Read(t.Context(), feed.Request{Partition: feed.Partition{ID: "0"}, From: feed.Beginning()})
		if err == nil || !strings.Contains(err.Error(), c.want) || len(page.Changes) != 0 {
			t.Errorf("%s: %d changes, %v; want %q", name, len(page.Changes), err, c.want)
		}
	}
}

// Two attempts fail and the third succeeds. The service charges all of them, so the
// page's Charge must be their sum.
func TestAPagesChargeIsTheSumOfItsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		var o cosmos.Options
		o.Transport = scripted(func(r *http.Request, w *httptest.ResponseRecorder) {
			w.Header().Set("Etag", `"1"`)
			w.Header().Set(wire.HeaderRequestCharge, "2.5")
			if attempts++; attempts < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.WriteHeader(http.StatusNotModified)
		})
		a, err := cosmos.WithKey("https://a.b/", wire.EmulatorKey, o)
		if err != nil {
			t.Fatal(err)
		}
		page, err := a.Source("shop", "orders", cosmos.SourceOptions{}).Read(t.Context(), feed.Request{Partition: feed.Partition{ID: "0"}})
		if err != nil || page.Charge != 7.5 {
			t.Errorf("three attempts at 2.5 RU cost %v, %v", page.Charge, err)
		}
	})
}

// endless is the body of a response that never ends. read is the number of bytes read.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.read.Add(int64(len(p)))
	return len(p), nil
}

func (e *endless) Close() error { return nil }

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }

// A source must refuse a response that is larger than its limit. The declared length may
// show that, or only the number of bytes that arrive.
func TestResponsesAreLimited(t *testing.T) {
	for _, length := range []int64{1 << 40, -1} {
		body := &endless{}
		var o cosmos.Options
		o.Transport = transportFunc(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: length, Body: body, Request: r}, nil
		})
		a, err := cosmos.WithKey("https://a.b/", wire.EmulatorKey, o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Source("shop", "orders", cosmos.SourceOptions{}).Identity(t.Context())
		if err == nil || !strings.Contains(err.Error(), "larger than 128 MiB") || body.read.Load() > 300<<20 {
			t.Errorf("a response of %d bytes: %v, after %d bytes", length, err, body.read.Load())
		}
	}
}

func TestAReadEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o cosmos.Options
		o.Transport = transportFunc(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		a, err := cosmos.WithKey("https://a.b/", wire.EmulatorKey, o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		_, err = a.Source("shop", "orders", cosmos.SourceOptions{}).Read(ctx, feed.Request{})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 3*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// countingListener is a listener that counts the connections that it accepts.
type countingListener struct {
	net.Listener
	made *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.made.Add(1)
	}
	return c, err
}

func TestUntrustedCertificateIsReportedAtOnce(t *testing.T) {
	var connections atomic.Int64
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Listener = countingListener{s.Listener, &connections}
	s.StartTLS()
	defer s.Close()
	a, err := cosmos.WithKey(s.URL, wire.EmulatorKey, cosmos.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Source("shop", "orders", cosmos.SourceOptions{}).Identity(t.Context())
	if err == nil || !strings.Contains(err.Error(), "Options.Transport") || connections.Load() != 1 {
		t.Errorf("%v, after %d connections; want the remedy, after one", err, connections.Load())
	}
}

// A partition has split, so a bulk operation gets a 410. Bulk must list the partitions
// again and send the operation to the partition that now holds its key.
func TestBulkAsksForThePartitionsAfterAnOperationOfAGonePartition(t *testing.T) {
	var sent []string
	lists := 0
	bulk := scriptedAccount(t, func(r *http.Request, w *httptest.ResponseRecorder) {
		if strings.HasSuffix(r.URL.Path, "/pkranges") {
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			lists++
			w.Header().Set("Etag", `"1"`)
			_, _ = fmt.Fprintf(w, `{"_rid":"Gis8AYAAAAE=","PartitionKeyRanges":[{"id":"%d","minInclusive":"","maxExclusive":"FF"}]}`, lists)
			return
		}
		partition := r.Header.Get(wire.HeaderPartitionID)
		sent = append(sent, partition)
		if partition == "1" {
			_, _ = w.WriteString(`[{"statusCode":410,"subStatusCode":1002}]`)
			return
		}
		_, _ = w.WriteString(`[{"statusCode":201}]`)
	}).Bulk("shop", "orders", cosmos.BulkOptions{})
	results, err := bulk.Do(t.Context(), []cosmos.BulkOperation{{Key: feed.PartitionKey{"ada"}, Body: []byte(`{"id":"1","pk":"ada"}`)}})
	if err != nil || !results[0].Done() {
		t.Fatalf("%+v, %v", results, err)
	}
	if got := strings.Join(sent, " "); got != "1 2" {
		t.Errorf("sent to the partitions %s; want to 1, which is gone, and to 2, which replaced it", got)
	}
}

// ContainerID must contain the name that the service gives to the account, because that
// name is the same at each of its endpoints.
func TestAnAccountIsKnownByTheNameThatTheServiceGivesIt(t *testing.T) {
	at := func(endpoint, body string) feed.Source {
		var o cosmos.Options
		o.Transport = accountNamed{body}
		a, err := cosmos.WithKey(endpoint, wire.EmulatorKey, o)
		if err != nil {
			t.Fatal(err)
		}
		return a.Source("shop", "orders", cosmos.SourceOptions{})
	}
	mine := `"id":"mine","_rid":"mine.documents.azure.com",`
	for _, c := range []struct {
		name   string
		a, b   string
		an, bn string
		same   bool
	}{
		{"a region of an account", "https://mine.documents.azure.com/", "https://mine-westeurope.documents.azure.com/", mine, mine, true},
		{"another account", "https://mine.documents.azure.com/", "https://other.documents.azure.com/", mine, strings.ReplaceAll(mine, "mine", "other"), false},
		{"by the id alone", "https://localhost:8081/", "https://127.0.0.1:8081/", `"id":"localhost",`, `"id":"localhost",`, true},
		{"nameless", "https://a.test/", "https://a.test/", "", "", true},
		{"nameless elsewhere", "https://a.test/", "https://b.test/", "", "", false},
	} {
		if same, err := protocol.SameContainer(t.Context(), at(c.a, c.an).(feed.Identifier), at(c.b, c.bn).(feed.Identifier)); err != nil || same != c.same {
			t.Errorf("%s: one container: %t, %v; want %t", c.name, same, err, c.same)
		}
	}
}

// accountNamed is the service of an account with one container. names is the part of the
// account's JSON that contains its names.
type accountNamed struct{ names string }

func (a accountNamed) Do(r *http.Request) (*http.Response, error) {
	if r.URL.Path != "/" {
		return scripted(nil).Do(r)
	}
	w := httptest.NewRecorder()
	_, _ = w.WriteString(`{` + a.names + `"writableLocations":[{"name":"East","databaseAccountEndpoint":"https://` + r.URL.Host + `/"}]}`)
	answer := w.Result()
	answer.Request = r
	return answer, nil
}

// A proxy may send a 429 with the standard header Retry-After, in seconds. The
// ThrottledError must contain that time.
func TestRetryAfterInSecondsIsObeyed(t *testing.T) {
	source := scriptedSource(t, func(_ *http.Request, w *httptest.ResponseRecorder) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	_, err := source.Read(t.Context(), feed.Request{Partition: feed.Partition{ID: "0"}})
	if throttled, ok := errors.AsType[*feed.ThrottledError](err); !ok || throttled.RetryAfter != 7*time.Second {
		t.Errorf("%v; want it throttled for 7 s", err)
	}
}

// A user who mistypes a host or a port reaches some other web server. The error must say so,
// instead of naming the first character that isn't JSON.
func TestAnotherWebServerIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		header string
		body   string
		named  bool
	}{
		"a page":                  {200, "Content-Type", "<!DOCTYPE html>\n<html>", true},
		"another page not found":  {404, "Content-Type", "404 page not found", true},
		"nothing":                 {200, "Content-Type", "", true},
		"a proxy in trouble":      {502, "Content-Type", "<html>bad gateway</html>", false},
		"an account that refuses": {401, "x-ms-gatewayversion", "no JSON", false},
		"another JSON":            {200, "Content-Type", `{"hello":"world"}`, false},
	} {
		var o cosmos.Options
		o.Retry.MaxRetries = -1
		o.Transport = transportFunc(func(r *http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: c.status, Header: http.Header{http.CanonicalHeaderKey(c.header): {"x"}}, ContentLength: int64(len(c.body)),
				Body: io.NopCloser(strings.NewReader(c.body)), Request: r,
			}, nil
		})
		a, err := cosmos.WithKey("https://a.b:8443/", wire.EmulatorKey, o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Source("shop", "orders", cosmos.SourceOptions{}).Identity(t.Context())
		if named := err != nil && strings.Contains(err.Error(), "https://a.b:8443/ is not an Azure Cosmos DB endpoint"); named != c.named || err == nil {
			t.Errorf("%s: %v; want the server named: %t", name, err, c.named)
		}
	}
}

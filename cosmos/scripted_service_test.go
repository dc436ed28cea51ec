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
	"github.com/changefeed-go/changefeed/internal/wire"
)

// Services that don't keep to the protocol, and parts of it that `changefeed serve` has no use for: here a function is the service.

// scripted is a transport that a function answers, for everything but account and container.
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

// scriptedSource reads from a function.
func scriptedSource(t *testing.T, f scripted) *cosmos.Source {
	t.Helper()
	return scriptedAccount(t, f).Source("shop", "orders", cosmos.SourceOptions{})
}

// scriptedAccount is an account whose service is a function.
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

// The list comes in pages, and in increments that name whom they replace.
func TestTheListOfPartitionsIsReadToItsEnd(t *testing.T) {
	var asked []string
	source := scriptedSource(t, func(r *http.Request, w *httptest.ResponseRecorder) {
		place := r.Header.Get("If-None-Match") + "|" + r.Header.Get(wire.HeaderContinuation)
		asked = append(asked, place)
		if r.Header.Get(wire.HeaderAIM) != wire.AIMIncremental || r.Header.Get(wire.HeaderMaxItemCount) != "-1" {
			t.Errorf("the list is asked for by %v", r.Header)
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
		case `"1"|`: // meanwhile 1 was split, and its second half again
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
		t.Errorf("it was asked for at %s", got)
	}
}

func TestAListOfPartitionsThatIsNoneIsRefused(t *testing.T) {
	hole := `{"id":"0","minInclusive":"","maxExclusive":"10"},{"id":"1","minInclusive":"20","maxExclusive":"FF"}`
	for name, c := range map[string]struct {
		ranges, rid, want string
		etags             bool
	}{
		"a hole":               {ranges: hole, want: "don't cover all keys"},
		"an overlap":           {ranges: strings.ReplaceAll(hole, `"20"`, `"08"`), want: "don't cover all keys"},
		"nothing":              {want: "don't cover all keys"},
		"an end too early":     {ranges: `{"id":"0","minInclusive":"","maxExclusive":"F0"}`, want: "don't cover all keys"},
		"no id":                {ranges: `{"minInclusive":"","maxExclusive":"FF"}`, want: "no id"},
		"no JSON":              {ranges: `{`, want: "unexpected end"},
		"an etag that moves":   {ranges: `{"id":"0","minInclusive":"","maxExclusive":"FF"}`, etags: true, want: "no end"},
		"of another container": {ranges: `{"id":"0","minInclusive":"","maxExclusive":"FF"}`, rid: "Gis8AYAAAAI=", want: "made anew"},
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
			_, _ = w.WriteString(strings.TrimSuffix(body, strings.Repeat("]}", strings.Count(name, "no JSON"))))
		})
		if _, err := source.Partitions(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) || rounds > 100 {
			t.Errorf("%s, %d times asked: %v; want %q", name, rounds, err, c.want)
		}
	}
}

// A split shows the parent no more, and one of its children not yet: that passes.
func TestAListOfPartitionsWithAHoleIsReadAgain(t *testing.T) {
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

// Without a position a reader would begin anew, and without a whole page it would go on behind what it didn't read.
func TestAnswersThatLackAPartAreErrors(t *testing.T) {
	const whole = `{"_rid":"Gis8AYAAAAE=","Documents":[{"id":"1","_ts":1,"_lsn":1}],"_count":1}`
	for name, c := range map[string]struct {
		status     int
		etag, body string
		want       string
	}{
		"a page without position":       {200, "", whole, "no etag"},
		"nothing, without position":     {304, "", "", "no etag"},
		"a page that is none":           {200, `"1"`, `<html>`, "malformed"},
		"a page that is cut off":        {200, `"1"`, whole[:60], "ends in the middle"},
		"a page of another container":   {200, `"1"`, strings.Replace(whole, "AAE=", "AAI=", 1), "of container Gis8AYAAAAI="},
		"an error that is none of ours": {418, "", "I'm a teapot", "418"},
		"an error without a body":       {500, "", "", "500"},
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

// What was tried again has been paid, too, and is on the bill of the page.
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

// endless is a body without an end.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.read.Add(int64(len(p)))
	return len(p), nil
}

func (e *endless) Close() error { return nil }

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }

// What a server claims, or sends, bounds nothing here.
func TestAnswersAreBounded(t *testing.T) {
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
			t.Errorf("an answer of %d bytes: %v, after %d bytes", length, err, body.read.Load())
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

// countingListener counts the connections that are made.
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

func TestACertificateThatNobodyTrustsIsToldAtOnce(t *testing.T) {
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
		t.Errorf("%v, after %d connections; want what helps, after one", err, connections.Load())
	}
}

// An operation that is answered with 410 goes to the partition that has its key now. The list
// of partitions is read again before it is sent again.
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
		t.Errorf("sent to the partitions %s; want to 1, which is gone, and to 2, which took over", got)
	}
}

// The service returns the same name of an account at each of its endpoints.
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
		if same, err := feed.SameContainer(t.Context(), at(c.a, c.an), at(c.b, c.bn)); err != nil || same != c.same {
			t.Errorf("%s: one container: %t, %v; want %t", c.name, same, err, c.same)
		}
	}
}

// accountNamed answers for an account with a container; names are the members of the account's body that name it.
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

// Proxies and gateways on the way use the header of HTTP, which is in seconds.
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

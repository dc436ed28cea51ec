package server

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// feedOf reads a page of the change feed of orders, with additional headers h.
func (ts *testServer) feedOf(h headers) response {
	ts.t.Helper()
	return ts.do("GET", orders+"/docs", h.with(wire.HeaderAIM, wire.AIMIncremental), "")
}

// dropped serves a request and reports whether the server closed the connection without
// an answer.
func (ts *testServer) dropped(r *http.Request) (dropped bool) {
	defer func() {
		if p := recover(); p != nil {
			err, ok := p.(error)
			dropped = ok && errors.Is(err, http.ErrAbortHandler)
			if !dropped {
				panic(p)
			}
		}
	}()
	ts.ServeHTTP(httptest.NewRecorder(), r)
	return false
}

func (ts *testServer) addFault(f Fault) string {
	ts.t.Helper()
	id, err := ts.Faults().Add(f)
	if err != nil {
		ts.t.Fatal(err)
	}
	return id
}

func TestFaultAnswersCountRequests(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withPartitions(1)
	ts.addFault(Fault{
		Operation: "read change feed", Skip: 1, Count: 2,
		Status: 429, SubStatus: 3200, RetryAfter: 50 * time.Millisecond, Message: "slow down",
	})
	ts.feedOf(nil).want(http.StatusNotModified)
	for range 2 {
		ts.feedOf(nil).want(429, 3200).wantHeader(wire.HeaderRetryAfter, "50").wantBody("slow down")
		ts.do("GET", orders+"/pkranges", nil, "").want(http.StatusOK)
	}
	ts.feedOf(nil).want(http.StatusNotModified)
	if l := ts.Faults().List(); len(l) != 1 || l[0].Hits != 2 {
		t.Errorf("faults are %+v", l)
	}
}

func TestFaultChoosesByContainerRangePartitionAndKey(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.withPartitions(2)
	parts, err := c.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ada, err := c.KeyRange(feed.PartitionKey{"ada"})
	if err != nil {
		t.Fatal(err)
	}
	home, away := "0", "1"
	if !parts[0].Range.Overlaps(ada) {
		home, away = away, home
	}
	inHome, inAway := headers{wire.HeaderPartitionID: home}, headers{wire.HeaderPartitionID: away}
	key := pk(`["ada"]`)
	for _, f := range []struct {
		what   string
		fault  Fault
		fails  []headers
		passes []headers
	}{
		{"everything", Fault{}, []headers{nil, inHome, inAway, key}, nil},
		{"the container", Fault{Database: "shop", Container: "orders"}, []headers{nil, inHome, key}, nil},
		{"the container's rid", Fault{Database: c.Identity().DatabaseRID, Container: c.Identity().ContainerRID}, []headers{nil, key}, nil},
		{"another container", Fault{Database: "shop", Container: "order"}, nil, []headers{nil, inHome, key}},
		{"another database", Fault{Database: "shops"}, nil, []headers{nil, inHome, key}},
		{"a partition", Fault{Database: "shop", Container: "orders", Partition: home}, []headers{nil, inHome, key}, []headers{inAway}},
		{"the other partition", Fault{Database: "shop", Container: "orders", Partition: away}, []headers{nil, inAway}, []headers{inHome, key}},
		{"no partition", Fault{Database: "shop", Container: "orders", Partition: "7"}, nil, []headers{nil, inAway, inHome, key}},
		{"a range", Fault{Range: ada}, []headers{nil, inHome, key}, []headers{inAway, pk(`["bob"]`)}},
		{"a key", Fault{Key: feed.PartitionKey{"ada"}}, []headers{key}, []headers{nil, inHome, pk(`["bob"]`)}},
		{
			"whatever one likes",
			Fault{Match: func(r *http.Request) bool { return r.Header.Get(wire.HeaderPartitionID) == home }},
			[]headers{inHome},
			[]headers{nil, inAway, key},
		},
	} {
		f.fault.Status = 503
		id := ts.addFault(f.fault)
		for _, h := range f.fails {
			if a := ts.feedOf(h); a.status != 503 {
				t.Errorf("%s: %v is answered with %d", f.what, h, a.status)
			}
		}
		for _, h := range f.passes {
			if a := ts.feedOf(h); a.status != http.StatusOK && a.status != http.StatusNotModified {
				t.Errorf("%s: %v is answered with %d %s", f.what, h, a.status, a.body)
			}
		}
		if !ts.Faults().Remove(id) || ts.Faults().Remove(id) {
			t.Errorf("%s: a fault can be removed once", f.what)
		}
	}
}

func TestFaultWithAProbabilityDrawsTheSameSequenceFromTheSameSeed(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withPartitions(1)
	var first string
	for round := range 3 {
		ts.Faults().Clear()
		ts.addFault(Fault{Status: 503, Probability: 0.5, Seed: uint64(min(round, 1))})
		var drawn strings.Builder
		for range 64 {
			drawn.WriteByte('.' + byte(ts.feedOf(nil).status/503))
		}
		failed := strings.Count(drawn.String(), "/")
		if failed < 15 || failed > 49 {
			t.Errorf("%d of 64 fail", failed)
		}
		switch {
		case round == 0:
		case round == 1:
			if first == drawn.String() {
				t.Error("two seeds draw the same")
			}
		case first != drawn.String():
			t.Error("one seed draws twice in two ways")
		}
		first = drawn.String()
	}
}

func TestFaultAfterTheOperationHidesThatItTookEffect(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.must("POST", "/dbs", nil, `{"id":"shop"}`)
	for _, f := range []Fault{{Status: 503, After: true}, {Drop: true, After: true}, {Status: 503}, {Drop: true}} {
		ts.Faults().Clear()
		f.Operation = "create container"
		ts.addFault(f)
		r := ts.request("POST", "/dbs/shop/colls", nil, `{"id":"orders","partitionKey":{"paths":["/pk"]}}`)
		if f.Drop {
			if !ts.dropped(r) {
				t.Errorf("%+v: the connection is not dropped", f)
			}
		} else {
			w := httptest.NewRecorder()
			ts.ServeHTTP(w, r)
			if w.Code != 503 || w.Header().Get("Etag") != "" || strings.Contains(w.Body.String(), "orders") {
				t.Errorf("%+v: answered with %d %v %s", f, w.Code, w.Header(), w.Body)
			}
		}
		got := ts.do("GET", orders, nil, "").status
		if want := map[bool]int{true: 200, false: 404}[f.After]; got != want {
			t.Errorf("%+v: the container is read with %d, want %d", f, got, want)
		}
		if f.After {
			ts.must("DELETE", orders, nil, "")
		}
	}
}

func TestFaultDelaysUntilItsTimeOrTheClientsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{})
		ts.withPartitions(1)
		ts.addFault(Fault{Operation: "read change feed", Delay: time.Minute})
		began := time.Now()
		ts.feedOf(nil).want(http.StatusNotModified)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it took %s", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		r := ts.request("GET", orders+"/docs", headers{wire.HeaderAIM: wire.AIMIncremental}, "").WithContext(ctx)
		w := httptest.NewRecorder()
		ts.ServeHTTP(w, r)
		if w.Code != statusClientClosed {
			t.Errorf("a client that left is answered with %d", w.Code)
		}
		time.AfterFunc(time.Second, ts.Drain)
		ts.feedOf(nil).want(http.StatusServiceUnavailable)
	})
}

func TestInvalidFaultsAreRefusedByName(t *testing.T) {
	ts := newTestServer(t, Options{})
	for body, want := range map[string]string{
		`{}`:                                            "no effect",
		`{"status":200}`:                                "400 to 599",
		`{"status":503,"drop":true}`:                    "no status",
		`{"subStatus":3200,"drop":true}`:                "needs a status",
		`{"delayMs":5,"after":true}`:                    "delay alone",
		`{"status":503,"operation":"create"}`:           "upsert document, create document, read document",
		`{"status":503,"probability":1.5}`:              "up to 1",
		`{"status":503,"count":-1}`:                     "negative",
		`{"status":503,"container":"orders"}`:           "needs its database",
		`{"status":503,"database":"d","partition":"0"}`: "needs its container",
		`{"status":503,"min":"2","max":"1"}`:            "no key",
		`{"status":503,"min":"0G"}`:                     "hexadecimal",
		`{"status":503,"max":"3f z"}`:                   "hexadecimal",
		`{"status":503,"min":"3f","max":"3F"}`:          "no key",
		`{"status":503,"min":"ff"}`:                     "no key",
		`{"status":503,"min":"FF01","max":"FF02"}`:      "no key",
		`{"status":503,"key":"ada"}`:                    "JSON array",
		`{"status":503,"key":[]}`:                       "no components",
		`{"status":503,"key":null}`:                     "JSON array",
		`{"status":503,"probability":0}`:                "above 0",
		`{"status":503,"percentage":1}`:                 `: there is no member \"percentage\"`,
		`{"status":"x"}`:                                ": the member status cannot be string",
		`{"status":503,"count":"x"}`:                    ": the member count cannot be string",
		`{"status":503,"delayMs":"x"}`:                  ": the member delayMs cannot be string",
		`{"status":503,"id":"1"}`:                       "the server sets id and hits",
		`{"delayMs":99999999999999}`:                    "at most",
		`[1]`:                                           "cannot read the body",
	} {
		ts.plainAdmin("POST", "faults", body).want(http.StatusBadRequest).wantBody(want)
	}
	ts.plainAdmin("GET", "faults", "").want(http.StatusOK).wantBody(`{"faults":[]}`)
}

func TestFaultRangeIsAcceptedInEitherCase(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withPartitions(1)
	var set adminFault
	ts.plainAdmin("POST", "faults", `{"status":503,"min":"1a","max":"1b"}`).want(http.StatusCreated).decode(&set)
	if set.Min != "1A" || set.Max != "1B" {
		t.Errorf("it is shown as %+v", set)
	}
	ts.feedOf(headers{wire.HeaderStartEPK: "1A80", wire.HeaderEndEPK: "1A90"}).want(503)
	ts.feedOf(headers{wire.HeaderStartEPK: "1B", wire.HeaderEndEPK: "1C"}).want(http.StatusNotModified)
	ts.Faults().Clear()
	ts.addFault(Fault{Status: 503, Range: feed.Range{Min: "1a", Max: "1b"}})
	ts.feedOf(headers{wire.HeaderStartEPK: "1A80", wire.HeaderEndEPK: "1A90"}).want(503)
}

func TestFaultKeyIsComparedByValue(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withPartitions(1)
	for _, c := range []struct {
		key   feed.PartitionKey
		sent  string
		fails bool
	}{
		{feed.PartitionKey{0}, `[-0.0]`, true},
		{feed.PartitionKey{math.Copysign(0, -1)}, `[0]`, true},
		{feed.PartitionKey{int64(1)}, `[1.0]`, true},
		{feed.PartitionKey{float32(100)}, ` [ 1e2 ] `, true},
		{feed.PartitionKey{"a<b"}, `["a<b"]`, true},
		{feed.PartitionKey{feed.Undefined}, `[]`, true},
		{feed.PartitionKey{nil}, `[null]`, true},
		{feed.PartitionKey{nil}, `[{}]`, false},
		{feed.PartitionKey{1}, `["1"]`, false},
		{feed.PartitionKey{1}, `[true]`, false},
	} {
		ts.Faults().Clear()
		ts.addFault(Fault{Status: 503, Key: c.key})
		if got := ts.feedOf(pk(c.sent)).status; got == 503 != c.fails {
			t.Errorf("%s, of a fault of %s, is answered with %d", c.sent, c.key, got)
		}
	}
	for _, key := range []feed.PartitionKey{{}, {math.NaN()}, {[]int{1}}} {
		if _, err := ts.Faults().Add(Fault{Status: 503, Key: key}); err == nil {
			t.Errorf("a fault of the key %v is accepted", key)
		}
	}
	if _, err := ts.Faults().Add(Fault{Status: 503, Probability: math.NaN()}); err == nil {
		t.Error("a probability of NaN is accepted")
	}
}

func TestFaultKeyIsThatOfTheHeader(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.withPartitions(1)
	ada, err := c.KeyRange(feed.PartitionKey{"ada"})
	if err != nil {
		t.Fatal(err)
	}
	id := ts.addFault(Fault{Status: 503, Key: feed.PartitionKey{"ada"}})
	ts.do("POST", orders+"/docs", pk(`["ada"]`), `{"id":"1","pk":"ada"}`).want(503)
	ts.do("POST", orders+"/docs", pk(""), `{"id":"1","pk":"ada"}`).want(400, 1001)
	ts.Faults().Remove(id)
	ts.addFault(Fault{Status: 503, Range: feed.Range{Min: ada.Min, Max: ada.Max}})
	ts.do("POST", orders+"/docs", nil, `{"id":"2","pk":"ada"}`).want(503)
}

func TestInjectedStatusHasItsOwnCode(t *testing.T) {
	ts := newTestServer(t, Options{})
	for status, code := range map[int]string{
		400: "BadRequest", 404: "NotFound", 410: "Gone", 413: "RequestEntityTooLarge", 424: "FailedDependency", 429: "TooManyRequests",
		449: "RetryWith", 499: "BadRequest", 500: "InternalServerError", 502: "BadGateway", 503: "ServiceUnavailable", 599: "InternalServerError",
	} {
		ts.Faults().Clear()
		ts.addFault(Fault{Status: status})
		ts.do("GET", "/dbs", nil, "").want(status).wantBody(`"code":"` + code + `"`)
	}
}

func TestFaultsOfTheAdminAPIAreThoseOfTheServer(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withPartitions(1)
	const fault = `{"operation":"read change feed","key":["a/b",1,null],"count":1,"status":429,"retryAfterMs":7}`
	var set adminFault
	ts.plainAdmin("POST", "faults", fault).want(http.StatusCreated).decode(&set)
	if set.ID == "" || string(set.Key) != `["a/b",1,null]` || set.Status != 429 || set.RetryAfterMS != 7 || set.Hits != 0 {
		t.Errorf("set is %+v", set)
	}
	ts.plainAdmin("POST", "faults", `{"status":503,"operation":"read change feed"}`).want(http.StatusCreated)
	ts.feedOf(nil).want(http.StatusServiceUnavailable)
	ts.plainAdmin("GET", "faults", "").want(http.StatusOK).wantBody(`"hits":1`)
	ts.plainAdmin("DELETE", "faults/"+set.ID, "").want(http.StatusNoContent)
	ts.plainAdmin("DELETE", "faults/"+set.ID, "").want(http.StatusNotFound)
	ts.plainAdmin("DELETE", "faults", "").want(http.StatusNoContent)
	ts.feedOf(nil).want(http.StatusNotModified)
}

func TestServerHoldsABoundedNumberOfFaults(t *testing.T) {
	ts := newTestServer(t, Options{})
	for range maxFaults {
		ts.addFault(Fault{Status: 503})
	}
	if _, err := ts.Faults().Add(Fault{Status: 503}); err == nil {
		t.Error("one more is accepted")
	}
}

func TestDroppedConnectionIsAnErrorForTheClient(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withPartitions(1)
	ts.addFault(Fault{Operation: "read partition key ranges", Count: 1, Drop: true})
	web := httptest.NewUnstartedServer(ts)
	web.Config.ErrorLog = nil
	web.Start()
	defer web.Close()
	get := func() error {
		r := ts.request("GET", orders+"/pkranges", nil, "")
		out, err := http.NewRequestWithContext(t.Context(), r.Method, web.URL+r.URL.Path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		out.Header = r.Header
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // without this, the transport itself would repeat the request
		a, err := client.Do(out)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, a.Body)
		return errors.Join(err, a.Body.Close())
	}
	if err := get(); err == nil {
		t.Error("the first request is answered")
	}
	if err := get(); err != nil {
		t.Errorf("the second: %v", err)
	}
}

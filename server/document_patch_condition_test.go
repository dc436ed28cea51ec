package server

import (
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire"
)

const (
	// conditionalPatch increments v if v is below 1000.
	conditionalPatch = `{"operations":[{"op":"incr","path":"/v","value":1}],"condition":"from c where c.v < 1000"}`
	// conditionalOperation is a batch of one operation: conditionalPatch of item 1.
	conditionalOperation = `[{"operationType":"Patch","id":"1","partitionKey":"[\"p\"]","resourceBody":` + conditionalPatch + `}]`
)

// patches holds the three ways to send conditionalPatch for item 1. Each function returns
// the status of the patch.
var patches = map[string]func(ts *testServer) int{
	"patch": func(ts *testServer) int {
		return ts.do("PATCH", orders+"/docs/1", pk(`["p"]`), conditionalPatch).status
	},
	"bulk":        func(ts *testServer) int { return ts.batchStatus(inBulk) },
	"transaction": func(ts *testServer) int { return ts.batchStatus(transaction) },
}

// batchStatus sends conditionalOperation with the headers h and returns the status of the
// patch.
func (ts *testServer) batchStatus(h headers) int {
	var ends []struct{ StatusCode int }
	ts.do("POST", orders+"/docs", h, conditionalOperation).decode(&ends)
	return ends[0].StatusCode
}

// A patch has a condition that takes long. Meanwhile, all other writes must complete. If
// the condition ran in the sequencer, it would block them.
func TestNoOtherWriteWaitsForTheConditionOfAPatch(t *testing.T) {
	for name, patch := range patches {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := newTestServer(t, Options{})
				ts.withItem()
				entered, release := make(chan struct{}), make(chan struct{})
				ts.onCondition = func() {
					entered <- struct{}{}
					<-release
				}
				status := make(chan int, 1)
				go func() { status <- patch(ts) }()
				<-entered
				written := make(chan struct{})
				go func() {
					defer close(written)
					ts.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"2","pk":"p"}`)
					ts.must("POST", "/dbs", nil, `{"id":"other"}`)
					ts.must("POST", "/dbs/other/colls", nil, `{"id":"c","partitionKey":{"paths":["/pk"]}}`)
					ts.must("POST", "/dbs/other/colls/c/docs", pk(`["p"]`), `{"id":"1","pk":"p"}`)
				}()
				select {
				case <-written:
				case <-time.After(time.Hour): // fake time advances only if every goroutine is blocked
					t.Error("other writes wait for the condition")
				}
				close(release)
				<-written
				if got := <-status; got != 200 {
					t.Errorf("the patch is answered %d", got)
				}
				ts.do("GET", orders+"/docs/1", pk(`["p"]`), "").want(200).wantBody(`"v":4`)
			})
		})
	}
}

// Other requests write while the condition of a patch is evaluated. A write to another
// item must cause no second evaluation. Each write to the same item must cause one, and
// after the third such write the answer must be 449.
func TestAConditionIsEvaluatedAgainOnlyIfTheItemHasChanged(t *testing.T) {
	for name, patch := range patches {
		t.Run(name, func(t *testing.T) {
			ts := newTestServer(t, Options{})
			ts.withItem()
			evaluations, writes := 0, 0
			ts.onCondition = func() {
				if evaluations++; evaluations <= writes {
					ts.must("POST", orders+"/docs", pk(`["p"]`).with(wire.HeaderUpsert, "true"), fmt.Sprintf(`{"id":"1","pk":"p","v":%d}`, 10*evaluations))
				}
				ts.must("POST", orders+"/docs", pk(`["p"]`), fmt.Sprintf(`{"id":"other%d-%d","pk":"p"}`, writes, evaluations))
			}
			for _, test := range []struct {
				writes, status, evaluations int
				v                           string
			}{{0, 200, 1, `"v":4`}, {1, 200, 2, `"v":11`}, {2, 200, 3, `"v":21`}, {3, 449, 3, `"v":30`}} {
				evaluations, writes = 0, test.writes
				if got := patch(ts); got != test.status || evaluations != test.evaluations {
					t.Errorf("%d writes meanwhile: %d after %d evaluations, want %d after %d", writes, got, evaluations, test.status, test.evaluations)
				}
				ts.do("GET", orders+"/docs/1", pk(`["p"]`), "").want(200).wantBody(test.v)
			}
		})
	}
}

// Another request changes the item while the condition of a patch is evaluated. The
// answer must follow from the condition's result for the changed item.
func TestAConditionHoldsAtTheCommit(t *testing.T) {
	for name, patch := range patches {
		t.Run(name, func(t *testing.T) {
			ts := newTestServer(t, Options{})
			ts.withItem()
			var then []func()
			ts.onCondition = func() {
				if len(then) > 0 {
					do := then[0]
					then = then[1:]
					do()
				}
			}
			for _, test := range []struct {
				body   string // the document that the other request writes; if empty, it deletes the item
				status int
			}{{`{"id":"1","pk":"p","v":2000}`, 412}, {`{"id":"1","pk":"p","v":5}`, 200}, {"", 404}} {
				then = []func(){func() {
					if test.body == "" {
						ts.must("DELETE", orders+"/docs/1", pk(`["p"]`), "")
					} else {
						ts.must("PUT", orders+"/docs/1", pk(`["p"]`), test.body)
					}
				}}
				if test.status == 200 {
					ts.must("PUT", orders+"/docs/1", pk(`["p"]`), `{"id":"1","pk":"p","v":1}`)
				}
				if got := patch(ts); got != test.status {
					t.Errorf("%q meanwhile: %d, want %d", test.body, got, test.status)
				}
			}
		})
	}
}

// A transaction changes an item and then patches it under a condition. The condition must
// see the earlier change.
func TestConditionsOfATransactionSeeTheOperationsBeforeThem(t *testing.T) {
	patchOf := func(id, op, condition string) string {
		return fmt.Sprintf(`{"operationType":"Patch","id":%q,"resourceBody":{"operations":[%s],"condition":"from c where %s"}}`, id, op, condition)
	}
	const incr = `{"op":"incr","path":"/v","value":1}`
	for _, test := range []struct{ ops, statuses, v string }{
		{patchOf("1", incr, "c.v = 3") + `,` + patchOf("1", incr, "c.v = 4") + `,` + patchOf("1", incr, "c.v = 5"), "200 200 200", `"v":6`},
		{patchOf("1", incr, "c.v = 3") + `,` + patchOf("1", incr, "c.v = 3"), "424 412", `"v":3`},
		{`{"operationType":"Patch","id":"1","resourceBody":[` + incr + `]},` + patchOf("1", incr, "c.v = 4"), "200 200", `"v":5`},
		{`{"operationType":"Upsert","resourceBody":{"id":"1","pk":"p","v":70}},` + patchOf("1", incr, "c.v = 70"), "200 200", `"v":71`},
		{`{"operationType":"Replace","id":"1","resourceBody":{"id":"1","pk":"p","v":70}},` + patchOf("1", incr, "c.v = 3"), "424 412", `"v":3`},
		{`{"operationType":"Create","resourceBody":{"id":"2","pk":"p","v":1}},` + patchOf("2", incr, "c.v = 1") + `,` + patchOf("1", incr, "c.v = 3"), "201 200 200", `"v":4`},
		{`{"operationType":"Delete","id":"1"},` + patchOf("1", incr, "c.v = 3"), "424 404", `"v":3`},
		{`{"operationType":"Delete","id":"1"},{"operationType":"Create","resourceBody":{"id":"1","pk":"p","v":8}},` + patchOf("1", incr, "c.v = 8"), "204 201 200", `"v":9`},
		{patchOf("none", incr, "c.v = 3"), "404", `"v":3`},
		{patchOf("1", incr, "c.v = 3") + `,` + patchOf("1", `{"op":"remove","path":"/none"}`, "c.v = 4"), "424 400", `"v":3`},
		{`{"operationType":"Create","resourceBody":{"id":"1","pk":"p"}},` + patchOf("1", incr, "c.v = 3"), "409 424", `"v":3`},
	} {
		ts := newTestServer(t, Options{})
		ts.withItem()
		status := 200
		if strings.Contains(" "+test.statuses, " 4") {
			status = 207
		}
		ts.batch(transaction, "["+test.ops+"]", status, test.statuses)
		ts.do("GET", orders+"/docs/1", pk(`["p"]`), "").want(200).wantBody(test.v)
	}
}

// A patch of a large document takes tens of milliseconds and would delay all other writes
// in the sequencer. So it must be prepared outside, alone and in a batch, with the same
// results.
func TestALargePatchIsPreparedOutsideTheSequencer(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withItem()
	long := strings.Repeat("x", maxInlinePatch)
	const incr = `[{"op":"incr","path":"/v","value":1}]`
	p, err := parsePatch([]byte(incr), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.inline([]byte(`{"v":1,"x":"` + long + `"}`)); err == nil {
		t.Error("a large document is patched in the sequencer")
	}
	ts.must("PUT", orders+"/docs/1", pk(`["p"]`), `{"id":"1","pk":"p","v":3,"x":"`+long+`"}`)
	ts.do("PATCH", orders+"/docs/1", pk(`["p"]`), incr).want(200).wantBody(`"v":4`)
	ts.batch(inBulk, `[{"operationType":"Patch","id":"1","partitionKey":"[\"p\"]","resourceBody":`+incr+`}]`, 200, "200")
	operation := `{"operationType":"Patch","id":"1","resourceBody":` + incr + `}`
	ts.batch(transaction, `[`+operation+`,`+operation+`]`, 200, "200 200")
	ts.do("GET", orders+"/docs/1", pk(`["p"]`), "").want(200).wantBody(`"v":7`)
	ts.do("PATCH", orders+"/docs/1", pk(`["p"]`).with("If-Match", `"other"`), incr).want(412)
	ts.do("PATCH", orders+"/docs/1", pk(`["p"]`).with("If-None-Match", `*`), incr).want(412)
}

func TestTheConditionsOfOneRequestHaveALimitedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{})
		ts.withItem()
		ts.onCondition = func() { time.Sleep(maxRequestConditions / 2) }
		operation := strings.Trim(conditionalOperation, "[]")
		ts.batch(inBulk, `[`+operation+`,`+operation+`,`+operation+`]`, 207, "200 200 429")
		ts.batch(transaction, `[`+operation+`,`+operation+`,`+operation+`]`, 207, "424 424 429")
	})
}

// A resource token sends patches with slow conditions until it has used up its time. It
// must then get 429, while other tokens and the account key are still served. After the
// time in x-ms-retry-after-ms, its patches must be accepted again.
func TestTheConditionsOfOneSignerHaveALimitedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{})
		ts.withItem()
		ts.must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
		token := func(permission, part string) headers {
			link := "dbs/shop/colls/orders" + part
			return pk(`["p"]`).with("Authorization", url.QueryEscape(ts.token(permission, "All", link, `["p"]`)))
		}
		slow, other := token("slow", "/docs/1"), token("other", "")
		ts.onCondition = func() { time.Sleep(maxCondition) }
		var refused response
		n := 0
		for ; n < 100; n++ {
			if refused = ts.do("PATCH", orders+"/docs/1", slow, conditionalPatch); refused.status != 200 {
				break
			}
		}
		refused.want(429)
		wait, err := time.ParseDuration(refused.header.Get(wire.HeaderRetryAfter) + "ms")
		if err != nil || wait <= 0 || n != 10 {
			t.Fatalf("after %d patches, retry after %q", n, refused.header.Get(wire.HeaderRetryAfter))
		}
		ts.onCondition = nil
		ts.do("PATCH", orders+"/docs/1", other, conditionalPatch).want(200)
		ts.do("PATCH", orders+"/docs/1", pk(`["p"]`), conditionalPatch).want(200)
		ts.do("PATCH", orders+"/docs/1", slow, conditionalPatch).want(429)
		time.Sleep(wait)
		ts.do("PATCH", orders+"/docs/1", slow, conditionalPatch).want(200)
	})
}

// Sixty patches with slow conditions arrive at once. At most half of the processors may
// evaluate conditions concurrently. Otherwise each condition would take longer, and the
// signer would be charged for that.
func TestConcurrentConditionsOfOneSignerDoNotLockItOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{})
		ts.withItem()
		under, most := 0, 0
		var mu sync.Mutex
		ts.onCondition = func() {
			mu.Lock()
			under++
			most = max(most, under)
			mu.Unlock()
			time.Sleep(maxCondition)
			mu.Lock()
			under--
			mu.Unlock()
		}
		var all sync.WaitGroup
		for range 60 {
			all.Go(func() { ts.do("PATCH", orders+"/docs/1", pk(`["p"]`), conditionalPatch) })
		}
		all.Wait()
		if places := max(runtime.GOMAXPROCS(0)/2, 1); most != places {
			t.Errorf("%d conditions were evaluated at a time, want %d", most, places)
		}
		if wait := ts.conditions.wait(signer{key: 1}); wait > time.Duration(runtime.GOMAXPROCS(0)+2)*2*maxCondition {
			t.Errorf("the key has to wait for %s", wait)
		}
	})
}

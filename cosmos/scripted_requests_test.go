package cosmos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// The tests of this file check which requests reach the service, how many, and with what.

// Two reads of a partition may run at the same time, so an older answer may arrive after a
// later one. If its session token replaced the later one, the next read could be answered by
// a replica that lacks changes which this source has already returned.
func TestLaterSessionTokenIsKept(t *testing.T) {
	answers, sent := []string{"0:-1#10", "0:-1#5", "0:-1#7"}, []string(nil)
	var o cosmos.Options
	o.Consistency = "Session"
	o.Transport = scripted(func(r *http.Request, w *httptest.ResponseRecorder) {
		w.Header().Set("Etag", `"1"`)
		w.Header().Set(wire.HeaderSessionToken, answers[len(sent)])
		sent = append(sent, r.Header.Get(wire.HeaderSessionToken))
		w.WriteHeader(http.StatusNotModified)
	})
	a, err := cosmos.WithKey("https://a.b/", wire.EmulatorKey, o)
	if err != nil {
		t.Fatal(err)
	}
	source := a.Source("shop", "orders", cosmos.SourceOptions{})
	for range answers {
		if _, err := source.Read(t.Context(), feed.Request{Partition: feed.Partition{ID: "0"}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(sent, " "); got != " 0:-1#10 0:-1#10" {
		t.Errorf("the reads sent the session tokens %q; want that of LSN 10 after the first read", got)
	}
}

// entraID is a credential that can fail. It counts how often it was asked.
type entraID struct {
	asked atomic.Int32
	down  atomic.Bool
}

func (c *entraID) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	c.asked.Add(1)
	if c.down.Load() {
		return azcore.AccessToken{}, errors.New("Entra ID is down")
	}
	return azcore.AccessToken{Token: "t", ExpiresOn: time.Now().Add(time.Hour)}, nil
}

// While Entra ID is down, the old token serves until it expires, and Entra ID is asked twice
// a minute. If every request asked it, each would wait for its failure, and an outage would
// be met with a flood.
func TestFailedTokenRenewalIsNotRepeatedByEveryRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o cosmos.Options
		o.Transport = scripted(func(_ *http.Request, w *httptest.ResponseRecorder) {
			w.Header().Set("Etag", `"1"`)
			w.WriteHeader(http.StatusNotModified)
		})
		credential := &entraID{}
		a, err := cosmos.WithCredential("https://a.b/", credential, o)
		if err != nil {
			t.Fatal(err)
		}
		source := a.Source("shop", "orders", cosmos.SourceOptions{})
		read := func() {
			t.Helper()
			if _, err := source.Read(t.Context(), feed.Request{Partition: feed.Partition{ID: "0"}}); err != nil {
				t.Fatal(err)
			}
		}
		read()
		time.Sleep(56 * time.Minute) // the token is due for renewal, but valid for four minutes more
		credential.down.Store(true)
		credential.asked.Store(0)
		for range 120 {
			read()
			time.Sleep(time.Second)
		}
		if n := credential.asked.Load(); n < 3 || n > 5 {
			t.Errorf("120 requests within two minutes asked Entra ID %d times; want about twice a minute", n)
		}
	})
}

// Requests whose answers are lost say nothing about the charge of the next one. If they
// lowered the expected charge, a service at its limit would be sent ever more reads.
func TestLostAnswersDoNotLowerTheExpectedCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int32
		var o cosmos.Options
		const rate = 10
		o.Budget, o.Retry.MaxRetries = cosmos.NewBudget(rate), -1
		o.Transport = lostAnswers{&sent}
		a, err := cosmos.WithKey("https://a.b/", wire.EmulatorKey, o)
		if err != nil {
			t.Fatal(err)
		}
		source := a.Source("shop", "orders", cosmos.SourceOptions{})
		read := func(patience time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if _, err := source.Read(ctx, feed.Request{Partition: feed.Partition{ID: "0"}}); err == nil {
				t.Error("the answer was not lost")
			}
		}
		for range 20 {
			read(time.Minute)
		}
		time.Sleep(time.Minute) // the budget holds one second's worth again
		sent.Store(0)
		for range 100 {
			go read(100 * time.Millisecond)
		}
		synctest.Wait()
		time.Sleep(time.Second)
		if n := sent.Load(); n > rate {
			t.Errorf("%d reads were sent at once with %d RU in the budget; want at most half as many, since a read costs 2 RU until an answer says otherwise", n, rate)
		}
	})
}

// lostAnswers is a service that executes reads, whose answers are then lost.
type lostAnswers struct{ sent *atomic.Int32 }

func (l lostAnswers) Do(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/" || r.URL.Path == "/dbs/shop/colls/orders" {
		return scripted(nil).Do(r)
	}
	l.sent.Add(1)
	<-time.After(200 * time.Millisecond)
	return nil, errors.New("connection reset by peer")
}

// bulkTo returns a Bulk whose requests are answered by f, and the operations for it: n
// documents of the given size.
func bulkTo(t *testing.T, n, size int, f func(operations int) (status int, body string)) (*cosmos.Bulk, []cosmos.BulkOperation) {
	bulk := scriptedAccount(t, func(r *http.Request, w *httptest.ResponseRecorder) {
		if strings.HasSuffix(r.URL.Path, "/pkranges") {
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			w.Header().Set("Etag", `"1"`)
			_, _ = w.WriteString(`{"_rid":"Gis8AYAAAAE=","PartitionKeyRanges":[{"id":"0","minInclusive":"","maxExclusive":"FF"}]}`)
			return
		}
		var operations []json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&operations); err != nil {
			t.Error(err)
		}
		status, body := f(len(operations))
		w.WriteHeader(status)
		_, _ = w.WriteString(body)
	}).Bulk("shop", "orders", cosmos.BulkOptions{Requests: 1})
	var all []cosmos.BulkOperation
	for i := range n {
		key := fmt.Sprint(i)
		body := fmt.Sprintf(`{"id":"1","pk":%q,"text":%q}`, key, strings.Repeat("x", size))
		all = append(all, cosmos.BulkOperation{Key: feed.PartitionKey{key}, Body: []byte(body)})
	}
	return bulk, all
}

// A request that was ended by its size must not make the following ones small.
func TestBulkRequestsAreFull(t *testing.T) {
	var requests []int
	bulk, operations := bulkTo(t, 200, 5000, func(operations int) (int, string) {
		requests = append(requests, operations)
		return 200, "[" + strings.TrimSuffix(strings.Repeat(`{"statusCode":201},`, operations), ",") + "]"
	})
	results, err := bulk.Do(t.Context(), operations)
	if err != nil || len(results) != len(operations) {
		t.Fatal(len(results), err)
	}
	if len(requests) != 5 {
		t.Errorf("200 operations of about 5 KB were sent in requests of %d; want 5 requests of about 215 KB", requests)
	}
}

// A 429 may name no time to wait. Without a pause of its own, Bulk would send the same
// request again at once, and give up within a moment.
func TestBulkPausesWhenTheServiceNamesNoTime(t *testing.T) {
	for name, answer := range map[string]struct {
		status int
		body   string
	}{
		"request":   {http.StatusTooManyRequests, ""},
		"operation": {http.StatusMultiStatus, `[{"statusCode":429}]`},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			sent := 0
			bulk, operations := bulkTo(t, 1, 10, func(int) (int, string) {
				if sent++; time.Since(began) < time.Second && sent < 1000 {
					return answer.status, answer.body
				}
				return 200, `[{"statusCode":201}]`
			})
			if _, err := bulk.Do(t.Context(), operations); err != nil || sent > 11 {
				t.Errorf("%s: sent %d times in a second, %v; want at most 11 times, and no error", name, sent, err)
			}
		})
	}
}

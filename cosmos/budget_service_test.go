package cosmos_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// overloaded is a service at its limit. It executes reads of the feed and charges them, but
// the answers are lost.
type overloaded struct {
	scripted
	reads atomic.Int32
}

func (s *overloaded) Do(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/dbs/shop/colls/orders/docs" {
		s.reads.Add(1)
		<-time.After(10 * time.Millisecond)
		return nil, errors.New("connection reset")
	}
	return s.scripted.Do(r)
}

// onePartition answers requests for the list of partitions.
func onePartition(r *http.Request, w *httptest.ResponseRecorder) {
	if r.Header.Get("If-None-Match") != "" {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Etag", `"1"`)
	_, _ = w.WriteString(`{"_rid":"Gis8AYAAAAE=","PartitionKeyRanges":[{"id":"0","minInclusive":"","maxExclusive":"FF"}]}`)
}

// A service at its limit loses answers. If those requests were free, a host would send more
// and more of them, just when the service needs rest.
func TestBudgetLimitsReadsWhoseAnswersAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, seconds, readers, assumed = 10, 60, 8, 2
		service := &overloaded{scripted: onePartition}
		o := cosmos.Options{Budget: cosmos.NewBudget(rate)}
		o.Transport, o.Retry.MaxRetries = service, -1
		a, err := cosmos.WithKey("https://a.b/", wire.EmulatorKey, o)
		if err != nil {
			t.Fatal(err)
		}
		source := a.Source("shop", "orders", cosmos.SourceOptions{})
		until := time.Now().Add(seconds * time.Second)
		var all sync.WaitGroup
		for range readers {
			all.Go(func() {
				for time.Now().Before(until) {
					if _, err := source.Read(t.Context(), feed.Request{Range: feed.Full(), From: feed.Beginning()}); err == nil {
						t.Error("a read without an answer has succeeded")
					}
				}
			})
		}
		all.Wait()
		if n := service.reads.Load(); n > rate*(seconds+1)/assumed+readers || n < rate*seconds/assumed/2 {
			t.Errorf("%d reads were sent in %d s at %d RU/s; want one for every %d RU", n, seconds, rate, assumed)
		}
	})
}

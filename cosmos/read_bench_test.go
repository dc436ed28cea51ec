package cosmos

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// stand starts a service for benchmarks and returns its URL. For every first read of the
// feed it returns the same page of 1,000 items, and 304 for a read after that page. It
// costs almost nothing, so the benchmark measures the client.
func stand(b *testing.B) string {
	b.Helper()
	page := benchmarkPage()
	const rid = "Gis8AYAAAAE="
	var url string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set(wire.HeaderRequestCharge, "1.5")
		h.Set(wire.HeaderSessionToken, "0:-1#1000")
		var body []byte
		switch path, _ := wire.ParsePath(r.URL.EscapedPath()); path.Shape() {
		case "/":
			body = fmt.Appendf(nil, `{"writableLocations":[{"name":"East","databaseAccountEndpoint":%q}],"readableLocations":[{"name":"East","databaseAccountEndpoint":%q}]}`, url, url)
		case "/dbs/*/colls/*":
			body = fmt.Appendf(nil, `{"id":"orders","_rid":%q,"partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}`, rid)
		case "/dbs/*/colls/*/pkranges":
			if h.Set("Etag", `"1"`); r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			body = fmt.Appendf(nil, `{"_rid":%q,"PartitionKeyRanges":[{"id":"0","_rid":%q,"minInclusive":"","maxExclusive":"FF"}],"_count":1}`, rid, rid)
		default:
			h.Set("Etag", `"1000"`)
			if r.Header.Get("If-None-Match") != "" {
				h.Set(wire.HeaderItemCount, "0")
				w.WriteHeader(http.StatusNotModified)
				return
			}
			h.Set(wire.HeaderItemCount, "1000")
			body = page
		}
		h.Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	}))
	url = s.URL + "/"
	b.Cleanup(s.Close)
	return url
}

// BenchmarkRead measures a read of a page and a poll without changes, with this package
// and with the official SDK.
func BenchmarkRead(b *testing.B) {
	url := stand(b)
	transport := &http.Transport{}
	b.Cleanup(transport.CloseIdleConnections)
	var o azcore.ClientOptions
	o.Transport = &http.Client{Transport: transport}
	account, err := WithKey(url, wire.EmulatorKey, Options{ClientOptions: o})
	if err != nil {
		b.Fatal(err)
	}
	source := account.Source("shop", "orders", SourceOptions{})
	for name, from := range map[string]feed.Start{"page": feed.Beginning(), "poll": feed.After(`"1000"`)} {
		b.Run(name+"/source", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				page, err := source.Read(b.Context(), feed.Request{Partition: feed.Partition{ID: "0"}, From: from, MaxItems: 1000})
				if err != nil || len(page.Changes)%1000 != 0 {
					b.Fatal(err)
				}
			}
		})
	}
	key, err := azcosmos.NewKeyCredential(wire.EmulatorKey)
	if err != nil {
		b.Fatal(err)
	}
	sdk, err := azcosmos.NewClientWithKey(url, key, &azcosmos.ClientOptions{ClientOptions: o})
	if err != nil {
		b.Fatal(err)
	}
	container, err := sdk.NewContainer("shop", "orders")
	if err != nil {
		b.Fatal(err)
	}
	all := azcosmos.FeedRange{MinInclusive: "", MaxExclusive: "FF"}
	read := &azcosmos.ChangeFeedOptions{MaxItemCount: 1000, FeedRange: &all}
	first, err := container.ReadChangeFeed(b.Context(), read)
	if err != nil {
		b.Fatal(err)
	}
	poll := &azcosmos.ChangeFeedOptions{MaxItemCount: 1000, Continuation: &first.ContinuationToken}
	for name, options := range map[string]*azcosmos.ChangeFeedOptions{"page": read, "poll": poll} {
		b.Run(name+"/azcosmos", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				page, err := container.ReadChangeFeed(b.Context(), options)
				if err != nil || len(page.Items)%1000 != 0 {
					b.Fatal(err)
				}
			}
		})
	}
}

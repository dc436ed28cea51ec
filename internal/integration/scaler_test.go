package integration

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire/wiretest"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/storetype"
)

// scaler sends the same requests as KEDA's azure-cosmosdb scaler, and computes a processor's
// lag in the same way. It follows KEDA's main branch after version 2.21, which also reads range
// leases and every page of leases. interop/keda runs the code of version 2.21 itself.
type scaler struct {
	t         *testing.T
	client    *wiretest.Client
	processor string
}

type scaledLease struct {
	LeaseToken        string
	ContinuationToken string
	Version           int `json:"version"`
	// FeedRange also decodes the member feedRange, which Java's hosts write.
	FeedRange struct {
		Range struct {
			Min, Max string
		}
	}
}

type scaledRange struct {
	ID           string
	MinInclusive string
	MaxExclusive string
}

const scalerVersion = "2018-12-31"

// do sends a request and decodes the body of the answer, if any, into result.
func (s *scaler) do(method, path, body string, result any, headers ...string) (http.Header, error) {
	s.t.Helper()
	header, text, err := s.client.Do(s.t.Context(), method, path, body, append(headers, "x-ms-version", scalerVersion)...)
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, result)
	}
	return header, err
}

// leases returns the documents whose ids begin with the processor's name and the
// account's short name. It omits documents without a lease token.
func (s *scaler) leases() []scaledLease {
	s.t.Helper()
	endpoint, err := url.Parse(s.client.Endpoint)
	if err != nil {
		s.t.Fatal(err)
	}
	account, _, _ := strings.Cut(endpoint.Hostname(), ".")
	query := fmt.Sprintf(`{"query":"SELECT * FROM c WHERE STARTSWITH(c.id, @prefix)","parameters":[{"name":"@prefix","value":%q}]}`, s.processor+account+".")
	var found []scaledLease
	for continuation := ""; ; {
		headers := []string{
			"Content-Type", "application/query+json", "x-ms-documentdb-isquery", "true", "x-ms-documentdb-query-enablecrosspartition", "true",
		}
		if continuation != "" {
			headers = append(headers, "x-ms-continuation", continuation)
		}
		var page struct{ Documents []scaledLease }
		header, err := s.do(http.MethodPost, "/dbs/shop/colls/leases/docs", query, &page, headers...)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, l := range page.Documents {
			if l.LeaseToken != "" {
				found = append(found, l)
			}
		}
		if continuation = header.Get("x-ms-continuation"); continuation == "" {
			return found
		}
	}
}

// position returns, for the headers of a request, the ETag or the start time at which
// reading of a lease resumes.
func (s *scaler) position(l scaledLease) (etag, since string) {
	s.t.Helper()
	if l.Version == 0 || l.ContinuationToken == "" || l.ContinuationToken[0] == '"' {
		return l.ContinuationToken, ""
	}
	text, err := base64.URLEncoding.DecodeString(l.ContinuationToken)
	if err != nil {
		s.t.Fatal(err)
	}
	var state struct {
		V            int
		Mode         string
		StartFrom    struct{ PointInTimeMs int64 }
		Continuation struct {
			V            int
			Continuation []struct {
				Token string
				Range struct{ Min, Max string }
			}
		}
	}
	if err := json.Unmarshal(text, &state); err != nil {
		s.t.Fatalf("%v: %s", err, text)
	}
	if state.V != 1 || state.Continuation.V != 1 || state.Mode != "INCREMENTAL" || len(state.Continuation.Continuation) != 1 {
		s.t.Fatalf("the scaler refuses the position %s", text)
	}
	one := state.Continuation.Continuation[0]
	if one.Token == "" || one.Range.Min > l.FeedRange.Range.Min || one.Range.Max < l.FeedRange.Range.Max {
		s.t.Fatalf("the scaler refuses the position %s", text)
	}
	if ms := state.StartFrom.PointInTimeMs; ms > 0 {
		since = time.UnixMilli(ms).UTC().Format(http.TimeFormat)
	}
	return one.Token, since
}

// lag returns the lag of a lease. gone reports whether its partition was split.
func (s *scaler) lag(l scaledLease, ranges []scaledRange) (lag int64, gone bool) {
	s.t.Helper()
	etag, since := s.position(l)
	headers := []string{"A-IM", "Incremental feed", "x-ms-max-item-count", "1"}
	if l.Version == 0 {
		headers = append(headers, "x-ms-documentdb-partitionkeyrangeid", l.LeaseToken)
	} else {
		over := slices.DeleteFunc(slices.Clone(ranges), func(p scaledRange) bool {
			return p.MaxExclusive <= l.FeedRange.Range.Min || p.MinInclusive >= l.FeedRange.Range.Max
		})
		if len(over) != 1 {
			return 0, true
		}
		headers = append(headers, "x-ms-documentdb-partitionkeyrangeid", over[0].ID)
		if over[0].MinInclusive != l.FeedRange.Range.Min || over[0].MaxExclusive != l.FeedRange.Range.Max {
			headers = append(headers, "x-ms-read-key-type", "EffectivePartitionKeyRange",
				"x-ms-start-epk", l.FeedRange.Range.Min, "x-ms-end-epk", l.FeedRange.Range.Max)
		}
	}
	if etag != "" {
		headers = append(headers, "If-None-Match", etag)
	}
	if since != "" {
		headers = append(headers, "If-Modified-Since", since)
	}
	var page struct {
		Documents []struct {
			LSN json.Number `json:"_lsn"`
		}
	}
	header, err := s.do(http.MethodGet, "/dbs/shop/colls/orders/docs", "", &page, headers...)
	if refused, ok := errors.AsType[*wiretest.StatusError](err); ok && refused.Status == http.StatusGone && header.Get("x-ms-substatus") == "1002" {
		return 0, true
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if len(page.Documents) == 0 {
		return 0, false
	}
	_, session, _ := strings.Cut(header.Get("x-ms-session-token"), ":")
	if parts := strings.Split(session, "#"); len(parts) > 1 {
		session = parts[1]
	}
	last, err := strconv.ParseInt(session, 10, 64)
	if err != nil {
		s.t.Fatalf("session token %q: %v", header.Get("x-ms-session-token"), err)
	}
	first, err := page.Documents[0].LSN.Int64()
	if err != nil {
		s.t.Fatalf("_lsn: %v", err)
	}
	return last - first + 1, false
}

// estimate returns the lag of each lease, by token. split contains the tokens of the
// leases whose partitions were split.
func (s *scaler) estimate() (lags map[string]int64, split []string) {
	s.t.Helper()
	var all struct{ PartitionKeyRanges []scaledRange }
	if _, err := s.do(http.MethodGet, "/dbs/shop/colls/orders/pkranges", "", &all); err != nil {
		s.t.Fatal(err)
	}
	lags = map[string]int64{}
	for _, l := range s.leases() {
		lag, gone := s.lag(l, all.PartitionKeyRanges)
		if gone {
			split = append(split, l.LeaseToken)
			continue
		}
		lags[l.LeaseToken] = lag
	}
	slices.Sort(split)
	return lags, split
}

// KEDA computes the correct lag from the leases of our hosts in each dialect, and so from
// those of any host that writes such leases.
func TestKEDAComputesTheLagFromOurLeases(t *testing.T) {
	for _, d := range []lease.Dialect{lease.DotNet, lease.JavaHandleChanges, lease.JavaLatestVersion} {
		for name, start := range map[string]feed.Start{"now": feed.Now(), "the beginning": feed.Beginning(), "a time": feed.At(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))} {
			t.Run(d.Name()+" from "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { scaled(t, d, start) })
			})
		}
	}
}

func scaled(t *testing.T, d lease.Dialect, start feed.Start) {
	server := changefeedtest.NewServer(t)
	orders := changefeedtest.NewContainer(t, server.DB, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/id"}})
	changefeedtest.NewContainer(t, server.DB, "shop", storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}, DefaultTTL: -1, Partitions: 2})
	client, err := wiretest.New(server.Endpoint, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	account, err := cosmos.WithKey(server.Endpoint, server.Key, cosmos.Options{ClientOptions: azcore.ClientOptions{Transport: server.Client()}})
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{t: t, db: server.DB, orders: orders, dialect: d, counts: map[string]int{}}
	run := func() (stop func() error) {
		p, err := changefeed.New(changefeed.Config{
			Processor: "p", Handler: c, Start: start,
			Source: account.Source("shop", "orders", cosmos.SourceOptions{Dialect: d}),
			Leases: account.Leases("shop", "leases", cosmos.LeaseOptions{Dialect: d}),
		})
		if err != nil {
			t.Fatal(err)
		}
		return runInBackground(t, p)
	}
	keda := &scaler{t: t, client: client, processor: "p"}
	wantTotal := func(when string, want int64) {
		t.Helper()
		lags, split := keda.estimate()
		total := int64(0)
		for _, lag := range lags {
			total += lag
		}
		if total != want || len(split) > 0 || len(lags) == 0 {
			t.Errorf("%s the lags are %v, split %v; want %d in total", when, lags, split, want)
		}
	}

	stop := run()
	pause(time.Minute)
	wantTotal("with nothing written", 0)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	c.write(7)
	wantTotal("before the first position", 7)
	stop = run()
	pause(time.Minute)
	wantTotal("when all is handled", 0)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	c.write(5)
	wantTotal("after five more", 5)

	c.split("0")
	if lags, split := keda.estimate(); len(split) != 1 || len(lags) != 0 {
		t.Errorf("after a split the lags are %v, split %v", lags, split)
	}
	stop = run()
	pause(time.Minute)
	wantTotal("when the split is done", 0)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if d == lease.JavaHandleChanges {
		return
	}
	partitions, err := orders.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(partitions, func(a, b feed.Partition) int { return cmp.Compare(a.Range.Min, b.Range.Min) })
	if _, err := orders.Merge(t.Context(), partitions[0].ID, partitions[1].ID); err != nil {
		t.Fatal(err)
	}
	stop = run()
	pause(time.Minute)
	wantTotal("when the merge is done", 0)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	// Two leases share one partition. The lag of each includes all later changes of the
	// partition.
	c.write(1)
	wantTotal("after one more", 1)
	run()
	pause(time.Minute)
	wantTotal("when that is handled", 0)
	c.wantOnce()
}

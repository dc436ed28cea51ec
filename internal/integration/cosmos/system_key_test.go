package cosmos_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// Two hosts in turn process a container without a partition key, with leases in another one.
// The second host continues where the first one stopped.
func TestProcessorWorksOnContainersWithoutAKey(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		c := changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{ID: "items", SystemKey: true})
		leases := changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{ID: "leases", SystemKey: true, DefaultTTL: -1})
		got := &delivered{counts: map[string]int{}}
		for n := range 2 {
			for i := range 5 {
				if _, err := c.Upsert(t.Context(), nil, fmt.Appendf(nil, `{"id":"%d-%d"}`, n, i), storetype.WriteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			a := account(t, s, cosmos.Options{})
			stop := host(t, changefeed.Config{
				Processor: "p", Instance: fmt.Sprint("host-", n), Handler: got, Start: feed.Beginning(),
				Source: a.Source("db", "items", cosmos.SourceOptions{}), Leases: a.Leases("db", "leases", cosmos.LeaseOptions{}),
			})
			time.Sleep(time.Minute)
			synctest.Wait()
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			got.wantOnce(t, fmt.Sprint("after host ", n), 5*(n+1))
		}
		// The embedded engine works on the same containers. Its leases have other ids, because
		// its account has another host.
		got = &delivered{counts: map[string]int{}}
		stop := host(t, changefeed.Config{
			Processor: "p", Instance: "embedded", Handler: got, Start: feed.Beginning(), Source: s.DB.Source(c), Leases: s.DB.Leases(leases),
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		got.wantOnce(t, "after the embedded host", 10)
	})
}

// Items without a key are read and written by the undefined key, and others by theirs.
func TestItemsWithoutAKeyAreReadAndWrittenByTheUndefinedKey(t *testing.T) {
	db, account := onServer()(t)
	changefeedtest.NewContainer(t, db, "db", storetype.ContainerProperties{ID: "items", SystemKey: true})
	none, x := feed.PartitionKey{feed.Undefined}, feed.PartitionKey{"x"}
	results, err := account.Bulk("db", "items", cosmos.BulkOptions{}).Do(t.Context(), []cosmos.BulkOperation{
		{Kind: cosmos.BulkCreate, Key: none, Body: json.RawMessage(`{"id":"a"}`)},
		{Kind: cosmos.BulkCreate, Key: x, Body: json.RawMessage(`{"id":"b","_partitionKey":"x"}`)},
		{Kind: cosmos.BulkRead, Key: none, ID: "b"},
	})
	if err != nil || results[0].Status != 201 || results[1].Status != 201 || results[2].Status != 404 {
		t.Fatalf("%+v, %v", results, err)
	}
	source := account.Source("db", "items", cosmos.SourceOptions{})
	for _, c := range []struct {
		request feed.Request
		want    []string
	}{
		{feed.Request{Key: none}, []string{"a"}}, {feed.Request{Key: x}, []string{"b"}}, {feed.Request{}, []string{"a", "b"}},
	} {
		c.request.From = feed.Beginning()
		page, err := source.Read(t.Context(), c.request)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for i := range page.Changes {
			id, err := page.Changes[i].ID()
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		slices.Sort(ids) // the operations of a bulk request are not in order
		if fmt.Sprint(ids) != fmt.Sprint(c.want) {
			t.Errorf("key %s: %v, want %v", c.request.Key, ids, c.want)
		}
	}
}

// keyRecorder records the partition keys of the requests that it passes on, also those of
// the operations of bulk requests.
type keyRecorder struct {
	next *http.Client
	keys []string
}

func (k *keyRecorder) Do(r *http.Request) (*http.Response, error) {
	if key := r.Header.Get(wire.HeaderPartitionKey); key != "" {
		k.keys = append(k.keys, key)
	}
	if r.Header.Get(wire.HeaderBatch) != "" {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var ops []struct{ PartitionKey string }
		if err := json.Unmarshal(body, &ops); err != nil {
			return nil, err
		}
		for _, o := range ops {
			k.keys = append(k.keys, o.PartitionKey)
		}
	}
	return k.next.Do(r)
}

// The service finds the items without a key only by an empty key, and in other containers
// only by the undefined one.
func TestRequestsToAContainerWithoutAKeySendAnEmptyOne(t *testing.T) {
	for _, system := range []bool{true, false} {
		inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
			changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{ID: "items", KeyPaths: []string{"/_partitionKey"}, SystemKey: system})
			sent := &keyRecorder{next: s.Client()}
			var o cosmos.Options
			o.Transport = sent
			account, none := account(t, s, o), feed.PartitionKey{feed.Undefined}
			_, err := account.Bulk("db", "items", cosmos.BulkOptions{}).Do(t.Context(), []cosmos.BulkOperation{{Kind: cosmos.BulkCreate, Key: none, Body: json.RawMessage(`{"id":"a"}`)}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := account.Source("db", "items", cosmos.SourceOptions{}).Read(t.Context(), feed.Request{Key: none, From: feed.Beginning()}); err != nil {
				t.Fatal(err)
			}
			want := "[[{}] [{}]]"
			if system {
				want = "[[] []]"
			}
			if got := fmt.Sprint(sent.keys); got != want {
				t.Errorf("system key %t: the keys sent are %s, want %s", system, got, want)
			}
		})
	}
}

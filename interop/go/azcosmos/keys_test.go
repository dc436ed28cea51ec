package azcosmos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// The server refuses three of ten writes with 429 and a retry delay of 5 ms. The SDK must
// retry until every write succeeds. (By default it retries three times, so the test
// allows more, as a user who expects throttling does.)
func TestThrottledWritesAllArrive(t *testing.T) {
	env.Scenario(t, "throttling", func(t *testing.T) {
		c := container(t)
		requests := &counter{}
		throttled, err := newClient(env.Key, azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
			PerRetryPolicies: []policy.Policy{requests}, Retry: policy.RetryOptions{MaxRetries: 12},
		}})
		ok(t, err)
		defer throttled.Close()
		writer, err := throttled.NewContainer(databaseOf(c), c.ID())
		ok(t, err)
		_, err = writer.CreateItem(t.Context(), pk("warm"), item{"up", "warm", 0}.json(), nil)
		ok(t, err)
		before := requests.requests.Load()
		refusals := throttle(t, c)
		var all sync.WaitGroup
		errs := make([]error, 4)
		for w := range errs {
			all.Go(func() {
				for n := range 20 {
					i := item{fmt.Sprintf("%d-%d", w, n), fmt.Sprintf("key %d", n), n}
					if _, err := writer.CreateItem(t.Context(), pk(i.PK), i.json(), nil); err != nil {
						errs[w] = err
						return
					}
				}
			})
		}
		all.Wait()
		refused := refusals()
		for _, err := range errs {
			ok(t, err)
		}
		equal(t, len(newFeed(t, c, azcosmos.ChangeFeedOptions{FeedRange: everything()}).drain(t)), 81, "items written")
		equal(t, refused > 0, true, "writes were throttled")
		equal(t, requests.requests.Load()-before, int64(80+refused), "requests for 80 writes and the throttled ones")
	})
}

// throttle makes the server refuse three of ten creates in a container with 429. The
// function end stops that, and returns the number of refused creates.
func throttle(t *testing.T, c *azcosmos.ContainerClient) (end func() int) {
	t.Helper()
	faults := func(method, path, body string, into any) {
		_, text, err := env.Admin.Do(t.Context(), method, "/_changefeed/faults"+path, body)
		ok(t, err)
		if into != nil {
			ok(t, json.Unmarshal(text, into))
		}
	}
	type fault struct {
		ID   string
		Hits int
	}
	var set fault
	faults(http.MethodPost, "", fmt.Sprintf(`{"operation": "create document", "database": %q, "container": %q,
		"probability": 0.3, "status": 429, "subStatus": 3200, "retryAfterMs": 5}`, databaseOf(c), c.ID()), &set)
	return func() int {
		var all struct{ Faults []fault }
		faults(http.MethodGet, "", "", &all)
		faults(http.MethodDelete, "/"+set.ID, "", nil)
		for _, f := range all.Faults {
			if f.ID == set.ID {
				return f.Hits
			}
		}
		t.Fatalf("fault %s is gone", set.ID)
		return 0
	}
}

func TestWrongKeyIsRefusedAtOnce(t *testing.T) {
	env.Scenario(t, "wrong-key", func(t *testing.T) {
		for _, key := range []string{"d3Jvbmc=", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="} {
			requests := &counter{}
			c, err := newClient(key, azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{PerRetryPolicies: []policy.Policy{requests}}})
			ok(t, err)
			_, err = c.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "never"}, nil)
			refused(t, err, 401)
			if n := requests.requests.Load(); n > 4 {
				t.Errorf("%d requests until the refusal came through", n)
			}
			c.Close()
		}
	})
}

func TestReadOnlyKey(t *testing.T) {
	env.Scenario(t, "read-only-key", func(t *testing.T) {
		c, ctx := container(t), t.Context()
		upsert(t, c, spread(10, 1)...)
		account, err := newClient(env.ReadOnlyKey, azcosmos.ClientOptions{})
		ok(t, err)
		defer account.Close()
		reading, err := account.NewContainer(databaseOf(c), c.ID())
		ok(t, err)
		_, err = reading.ReadItem(ctx, pk("key 3"), "3", nil)
		ok(t, err)
		equal(t, len(queried[item](t, reading.NewQueryItemsPager("SELECT * FROM c", azcosmos.NewPartitionKey(), nil))), 10, "items queried")
		equal(t, len(newFeed(t, reading, azcosmos.ChangeFeedOptions{FeedRange: everything()}).drain(t)), 10, "changes read")
		_, err = reading.UpsertItem(ctx, pk("key 3"), item{"3", "key 3", 2}.json(), nil)
		refused(t, err, 403)
		_, err = reading.DeleteItem(ctx, pk("key 3"), "3", nil)
		refused(t, err, 403)
		batch := reading.NewTransactionalBatch(pk("key 3"))
		batch.DeleteItem("3", nil)
		done, err := reading.ExecuteTransactionalBatch(ctx, batch, nil)
		if err == nil && done.Success {
			t.Error("a batch by the read-only key")
		}
		_, err = account.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "never"}, nil)
		refused(t, err, 403)
	})
}

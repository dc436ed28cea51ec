package changefeedtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/storetype"
)

var _ policy.Transporter = (*http.Client)(nil)

// azure returns a client of azcosmos for s.
func azure(t testing.TB, s *changefeedtest.Server) *azcosmos.Client {
	t.Helper()
	key, err := azcosmos.NewKeyCredential(s.Key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(s.Endpoint, key, &azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: s.Client()}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// orders creates the container shop/orders with the SDK.
func orders(t testing.TB, s *changefeedtest.Server) *azcosmos.ContainerClient {
	t.Helper()
	client := azure(t, s)
	ctx := t.Context()
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "shop"}, nil); err != nil {
		t.Fatal(err)
	}
	db, err := client.NewDatabase("shop")
	if err != nil {
		t.Fatal(err)
	}
	props := azcosmos.ContainerProperties{ID: "orders", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/customer"}}}
	if _, err := db.CreateContainer(ctx, props, nil); err != nil {
		t.Fatal(err)
	}
	c, err := db.NewContainer("orders")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func put(ctx context.Context, c *azcosmos.ContainerClient, id, customer string) error {
	body, err := json.Marshal(map[string]string{"id": id, "customer": customer})
	if err != nil {
		return err
	}
	_, err = c.UpsertItem(ctx, azcosmos.NewPartitionKeyString(customer), body, nil)
	return err
}

func TestServerServesTheOfficialSDKInFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := changefeedtest.NewServer(t)
		c := orders(t, s)
		if err := put(t.Context(), c, "1", "ada"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour) // fake time
		got, err := c.ReadItem(t.Context(), azcosmos.NewPartitionKeyString("ada"), "1", nil)
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			ID string `json:"id"`
			TS int64  `json:"_ts"`
		}
		if err := json.Unmarshal(got.Value, &doc); err != nil || doc.ID != "1" || time.Since(time.Unix(doc.TS, 0)) < 24*time.Hour {
			t.Errorf("%s, %v", got.Value, err)
		}
	})
}

// The SDK may be sending a request of its own when the test ends. Without awaitClients it
// would wait for its next attempt forever, because fake time no longer advances.
func TestServerEndsAfterBackgroundRequestsOfTheSDK(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := changefeedtest.NewServer(t)
		c := orders(t, s)
		time.Sleep(24 * time.Hour)
		s.Fail(server.Fault{Operation: "read account", Status: http.StatusServiceUnavailable})
		if err := put(t.Context(), c, "1", "ada"); err != nil {
			t.Fatal(err)
		}
	})
}

// The SDK waits between its attempts, in fake time.
func TestSDKRetriesServerFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := changefeedtest.NewServer(t)
		c := orders(t, s)
		s.Fail(server.Fault{Operation: "upsert document", Status: http.StatusTooManyRequests, SubStatus: 3200, RetryAfter: time.Second, Count: 2})
		began := time.Now()
		if err := put(t.Context(), c, "1", "ada"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 2*time.Second {
			t.Errorf("the write succeeded after %s; want at least 2s", took)
		}
		if l := s.Faults().List(); len(l) != 1 || l[0].Hits != 2 {
			t.Errorf("%+v", l)
		}
		s.Faults().Clear()
		s.Fail(server.Fault{Operation: "create document", Status: http.StatusForbidden, After: true})
		_, err := c.CreateItem(t.Context(), azcosmos.NewPartitionKeyString("bob"), []byte(`{"id":"2","customer":"bob"}`), nil)
		if answer := (*azcore.ResponseError)(nil); !errors.As(err, &answer) || answer.StatusCode != http.StatusForbidden {
			t.Errorf("create: %v", err)
		}
		if _, err := c.ReadItem(t.Context(), azcosmos.NewPartitionKeyString("bob"), "2", nil); err != nil {
			t.Errorf("read the document of a create that failed afterwards: %v", err)
		}
	})
}

func TestServersPartitionsSplitAndMergeUnderTheSDK(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := changefeedtest.NewServer(t)
		c := orders(t, s)
		seen := map[string]bool{}
		options := azcosmos.ChangeFeedOptions{FeedRange: &azcosmos.FeedRange{MinInclusive: "", MaxExclusive: "FF"}}
		// change writes with a number of partitions and continues to read the feed.
		change := func(partitions int) {
			t.Helper()
			if n := len(s.Partitions("shop", "orders")); n != partitions {
				t.Errorf("%d partitions, want %d", n, partitions)
			}
			for customer := range 20 {
				if err := put(t.Context(), c, fmt.Sprint(len(seen), customer), fmt.Sprint(customer)); err != nil {
					t.Fatal(err)
				}
			}
			want := len(seen) + 20
			for {
				page, err := c.ReadChangeFeed(t.Context(), &options)
				if err != nil {
					t.Fatal(err)
				}
				options.Continuation = &page.ContinuationToken
				for _, body := range page.Items {
					var doc struct{ ID string }
					if err := json.Unmarshal(body, &doc); err != nil {
						t.Fatal(err)
					}
					seen[doc.ID] = true
				}
				if len(page.Items) == 0 {
					break
				}
			}
			if len(seen) != want {
				t.Errorf("%d changes of %d were read", len(seen), want)
			}
		}
		change(1)
		made := s.Split("shop", "orders", "0")
		change(2)
		s.Merge("shop", "orders", made[0].ID, made[1].ID)
		change(1)
	})
}

func TestServersFrozenPartitionHoldsTheSDK(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := changefeedtest.NewServer(t)
		c := orders(t, s)
		s.Freeze("shop", "orders", "0")
		time.AfterFunc(time.Minute, func() { s.Thaw("shop", "orders", "0") })
		began := time.Now()
		if err := put(t.Context(), c, "1", "ada"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("the write took %s; want 1m0s", took)
		}
	})
}

func TestServersOfOneProcessAreDifferentAccounts(t *testing.T) {
	db := changefeedtest.NewStore(t)
	a, b := changefeedtest.NewServer(t), changefeedtest.NewServerOver(t, db, server.Options{Keys: []string{"b3RoZXI="}})
	if a.Endpoint == b.Endpoint || b.Key != "b3RoZXI=" || b.DB != db {
		t.Errorf("%+v, %+v", a, b)
	}
	orders(t, a)
	if _, err := azure(t, b).CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "shop"}, nil); err != nil {
		t.Errorf("in the other account: %v", err)
	}
	if _, err := db.CreateContainer(t.Context(), "shop", storetype.ContainerProperties{ID: "seen", KeyPaths: []string{"/id"}}); err != nil {
		t.Errorf("in its store: %v", err)
	}
}

package azcosmos

import (
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func everything() *azcosmos.FeedRange {
	return &azcosmos.FeedRange{MinInclusive: "", MaxExclusive: "FF"}
}

// feed reads a change feed in a loop, as a user's program does. The first request has
// options, and each further one has the continuation of the previous answer.
type feed struct {
	container *azcosmos.ContainerClient
	options   azcosmos.ChangeFeedOptions
}

func newFeed(t *testing.T, c *azcosmos.ContainerClient, o azcosmos.ChangeFeedOptions) *feed {
	t.Helper()
	return &feed{c, o}
}

// page sends one request. An empty page means that no range had new changes.
func (f *feed) page(t *testing.T) []item {
	t.Helper()
	page, err := f.container.ReadChangeFeed(t.Context(), &f.options)
	ok(t, err)
	if page.ContinuationToken == "" {
		t.Fatal("a page without a continuation")
	}
	f.options.Continuation = &page.ContinuationToken
	var items []item
	for _, b := range page.Items {
		items = append(items, decode[item](t, b))
	}
	return items
}

// drain reads until there are no new changes.
func (f *feed) drain(t *testing.T) []item {
	t.Helper()
	var all []item
	for {
		page := f.page(t)
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
	}
}

// etagOfNothing is an ETag that no item has.
func (f *feed) etagOfNothing() azcore.ETag { return `"00000000-0000-0000-0000-000000000000"` }

// latest returns the newest version of each item, by key and id. It fails the test if the
// changes contain an older version of an item after a newer one.
func latest(t *testing.T, changes []item) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for _, c := range changes {
		key := c.PK + "/" + c.ID
		if v, there := seen[key]; there && c.V < v {
			t.Errorf("%s: version %d after %d", key, c.V, v)
		}
		seen[key] = c.V
	}
	return seen
}

// spread returns n items of version v under ten partition keys, which lie in two
// partitions.
func spread(n, v int) []item {
	var items []item
	for i := range n {
		items = append(items, item{fmt.Sprint(i), fmt.Sprintf("key %d", i%10), v})
	}
	return items
}

func same(t *testing.T, got, want map[string]int) {
	t.Helper()
	for key, v := range want {
		if have, there := got[key]; !there || have != v {
			t.Errorf("%s: version %d expected, got %d (%t)", key, v, have, there)
		}
	}
	for key := range got {
		if _, there := want[key]; !there {
			t.Errorf("%s should not be there", key)
		}
	}
}

func TestFeedFromTheBeginning(t *testing.T) {
	env.Scenario(t, "feed-beginning", func(t *testing.T) {
		c := container(t)
		f := newFeed(t, c, azcosmos.ChangeFeedOptions{FeedRange: everything()})
		equal(t, len(f.page(t)), 0, "changes of an empty container")
		upsert(t, c, spread(40, 1)...)
		upsert(t, c, spread(10, 2)...)
		f = newFeed(t, c, azcosmos.ChangeFeedOptions{FeedRange: everything()})
		all := f.drain(t)
		equal(t, len(all), 40, "changes")
		same(t, latest(t, all), latest(t, append(spread(40, 1), spread(10, 2)...)))
		order := map[string]int{} // within a key, items 10 to 39 arrive in the order of their writes, and then items 0 to 9
		for _, i := range all {
			var n int
			_, err := fmt.Sscan(i.ID, &n)
			ok(t, err)
			if n < 10 {
				n += 100
			}
			if n < order[i.PK] {
				t.Errorf("%s: item %d after %d", i.PK, n, order[i.PK])
			}
			order[i.PK] = n
		}
		upsert(t, c, spread(5, 3)...)
		same(t, latest(t, f.drain(t)), latest(t, spread(5, 3)))
		equal(t, len(f.drain(t)), 0, "changes when all is read")
	})
}

// after waits until the server's clock, in whole seconds, is later than all writes so
// far. It returns that time.
func after(t *testing.T, c *azcosmos.ContainerClient) time.Time {
	t.Helper()
	stamp := func() int64 {
		_, err := c.UpsertItem(t.Context(), pk("clock"), item{"clock", "clock", 0}.json(), nil)
		ok(t, err)
		r, err := c.ReadItem(t.Context(), pk("clock"), "clock", nil)
		ok(t, err)
		return decode[struct {
			TS int64 `json:"_ts"`
		}](t, r.Value).TS
	}
	began := stamp()
	until(t, "the next second", func() bool { return stamp() > began })
	return time.Unix(began, 0)
}

func TestFeedFromATime(t *testing.T) {
	env.Scenario(t, "feed-time", func(t *testing.T) {
		c := container(t)
		upsert(t, c, spread(20, 1)...)
		start := after(t, c)
		upsert(t, c, spread(7, 2)...)
		f := newFeed(t, c, azcosmos.ChangeFeedOptions{FeedRange: everything(), StartFrom: &start})
		got := latest(t, f.drain(t))
		delete(got, "clock/clock")
		same(t, got, latest(t, spread(7, 2)))
		upsert(t, c, spread(3, 3)...)
		same(t, latest(t, f.drain(t)), latest(t, spread(3, 3)))

		old := time.Now().Add(-240 * time.Hour)
		got = latest(t, newFeed(t, c, azcosmos.ChangeFeedOptions{FeedRange: everything(), StartFrom: &old}).drain(t))
		equal(t, len(got), 21, "items from a time before all")
	})
}

func TestFeedPages(t *testing.T) {
	env.Scenario(t, "feed-pages", func(t *testing.T) {
		c := container(t)
		upsert(t, c, spread(30, 1)...)
		batch := c.NewTransactionalBatch(pk("key 3"))
		for n := range 12 {
			batch.CreateItem(item{fmt.Sprintf("batch %d", n), "key 3", 1}.json(), nil)
		}
		_, err := c.ExecuteTransactionalBatch(t.Context(), batch, nil)
		ok(t, err)
		for _, size := range []int32{1, 7, 100} {
			f := newFeed(t, c, azcosmos.ChangeFeedOptions{FeedRange: everything(), MaxItemCount: size})
			total := 0
			for {
				page := f.page(t)
				if len(page) == 0 {
					break
				}
				inBatch := 0
				for _, i := range page {
					if len(i.ID) > 5 {
						inBatch++
					}
				}
				if inBatch != 0 && inBatch != 12 {
					t.Errorf("pages of %d: %d of the batch's 12 items in one page", size, inBatch)
				}
				if inBatch == 0 && len(page) > int(size) {
					t.Errorf("a page of %d, asked for %d", len(page), size)
				}
				total += len(page)
			}
			equal(t, total, 42, fmt.Sprintf("changes in pages of %d", size))
		}
	})
}

func TestFeedOfARange(t *testing.T) {
	env.Scenario(t, "feed-range", func(t *testing.T) {
		c := container(t)
		upsert(t, c, spread(40, 1)...)
		ranges, err := c.ReadFeedRanges(t.Context(), nil)
		ok(t, err)
		equal(t, len(ranges), 2, "feed ranges")
		equal(t, ranges[0].MinInclusive+"|"+ranges[1].MaxExclusive, "|FF", "the ends")
		equal(t, ranges[0].MaxExclusive, ranges[1].MinInclusive, "the boundary")
		keys := map[string]int{}
		total := 0
		for n, r := range ranges {
			changes := newFeed(t, c, azcosmos.ChangeFeedOptions{FeedRange: &r}).drain(t)
			if len(changes) == 0 {
				t.Errorf("range %d is empty", n)
			}
			total += len(changes)
			for _, i := range changes {
				if other, there := keys[i.PK]; there && other != n {
					t.Errorf("%s is in both ranges", i.PK)
				}
				keys[i.PK] = n
			}
		}
		equal(t, total, 40, "changes of both ranges")
	})
}

func TestFeedOfAKey(t *testing.T) {
	env.Scenario(t, "feed-key", func(t *testing.T) {
		c := container(t)
		upsert(t, c, spread(40, 1)...)
		for n := range 10 {
			key := pk(fmt.Sprintf("key %d", n))
			f := newFeed(t, c, azcosmos.ChangeFeedOptions{FeedRange: everything(), PartitionKey: &key, MaxItemCount: 3})
			changes := f.drain(t)
			equal(t, fmt.Sprint(changes), fmt.Sprint([]item{
				{fmt.Sprint(n), fmt.Sprintf("key %d", n), 1},
				{fmt.Sprint(n + 10), fmt.Sprintf("key %d", n), 1},
				{fmt.Sprint(n + 20), fmt.Sprintf("key %d", n), 1},
				{fmt.Sprint(n + 30), fmt.Sprintf("key %d", n), 1},
			}), "changes of a key")
			upsert(t, c, item{"more", fmt.Sprintf("key %d", n), 9}, item{"more", "another", n})
			equal(t, fmt.Sprint(f.drain(t)), fmt.Sprintf("[{more key %d 9}]", n), "further changes of a key")
		}
		odd := pk(`é/"日本"`)
		upsert(t, c, item{"1", `é/"日本"`, 1})
		equal(t, len(newFeed(t, c, azcosmos.ChangeFeedOptions{FeedRange: everything(), PartitionKey: &odd}).drain(t)), 1, "changes of an odd key")
	})
}

// deep is an item of a container with a hierarchical partition key.
type deep struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	User   string `json:"user"`
	V      int    `json:"v"`
}

func (d deep) write(t *testing.T, c *azcosmos.ContainerClient) {
	t.Helper()
	_, err := c.UpsertItem(t.Context(), pk(d.Tenant).AppendString(d.User), encode(d), nil)
	ok(t, err)
}

func TestFeedOfAPrefix(t *testing.T) {
	env.Scenario(t, "feed-prefix", func(t *testing.T) {
		c := container(t, "/tenant", "/user")
		for _, tenant := range []string{"t1", "t2", "t3"} {
			for user := range 8 {
				deep{"1", tenant, fmt.Sprint(user), 1}.write(t, c)
			}
		}
		for _, tenant := range []string{"t1", "t2", "t3"} {
			prefix := pk(tenant)
			changes := newFeed(t, c, azcosmos.ChangeFeedOptions{FeedRange: everything(), PartitionKey: &prefix, MaxItemCount: 3}).drain(t)
			equal(t, len(changes), 8, "changes below "+tenant)
			full := pk(tenant).AppendString("5")
			equal(t, len(newFeed(t, c, azcosmos.ChangeFeedOptions{FeedRange: everything(), PartitionKey: &full}).drain(t)), 1, "changes of a full key")
		}
	})
}

package azcosmos

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/changefeed-go/changefeed/interop/internal/harness"
)

// topology is a split or merge of partitions during a read.
type topology struct {
	name   string
	change func(ctx context.Context, at harness.Container) error
	// again reports whether the reader may receive an item twice. After a merge, the SDK
	// reads the merged partition once for each old range. It does not restrict these
	// requests to the old ranges.
	again bool
}

func topologies() []topology {
	return []topology{
		{"split", env.Admin.SplitFirst, false},
		{"merge", env.Admin.MergeFirst, true},
	}
}

// reader is one way to read a feed. Its name is a part of the scenarios' names.
type reader struct {
	name string
	// options returns the options of the reader for a container that contains items.
	options func(t *testing.T, c *azcosmos.ContainerClient) azcosmos.ChangeFeedOptions
	// wants reports whether the reader must receive item i.
	wants func(i item) bool
	// old reports whether the reader must also receive the writes before its start.
	old bool
	// finish reads the rest of the feed. If nil, the method drain reads it.
	finish func(t *testing.T, f *feed) []item
	// loose reports whether, after a merge, the SDK also returns items that the reader
	// does not want.
	loose bool
}

func readers() []reader {
	all := func(item) bool { return true }
	whole := func(*testing.T, *azcosmos.ContainerClient) azcosmos.ChangeFeedOptions {
		return azcosmos.ChangeFeedOptions{FeedRange: everything(), MaxItemCount: 5}
	}
	return []reader{
		{name: "beginning", options: whole, wants: all, old: true},
		{name: "time", wants: all, options: func(t *testing.T, c *azcosmos.ContainerClient) azcosmos.ChangeFeedOptions {
			start := after(t, c)
			return azcosmos.ChangeFeedOptions{FeedRange: everything(), MaxItemCount: 5, StartFrom: &start}
		}},
		{name: "pages", wants: all, old: true, options: func(*testing.T, *azcosmos.ContainerClient) azcosmos.ChangeFeedOptions {
			return azcosmos.ChangeFeedOptions{FeedRange: everything(), MaxItemCount: 1}
		}},
		{name: "range", old: true, loose: true, options: func(t *testing.T, c *azcosmos.ContainerClient) azcosmos.ChangeFeedOptions {
			ranges, err := c.ReadFeedRanges(t.Context(), nil)
			ok(t, err)
			return azcosmos.ChangeFeedOptions{FeedRange: &ranges[0], MaxItemCount: 5}
		}},
		{name: "key", old: true, options: func(*testing.T, *azcosmos.ContainerClient) azcosmos.ChangeFeedOptions {
			key := pk("key 4")
			return azcosmos.ChangeFeedOptions{FeedRange: everything(), PartitionKey: &key, MaxItemCount: 1}
		}, wants: func(i item) bool { return i.PK == "key 4" }},
		{name: "resume", options: whole, wants: all, old: true, finish: inNewProcess},
	}
}

// survives reads a feed in small pages. In the middle, the partitions split or merge
// while a writer continues. Then it reads the rest, and compares the delivered items with
// the written ones.
func survives(t *testing.T, r reader, change topology) {
	c, ctx := container(t), t.Context()
	written := spread(60, 1)
	upsert(t, c, written...)
	if r.name == "range" {
		// mine contains the items of the range before the partitions change. The reader
		// must receive them.
		mine := map[string]bool{}
		for _, i := range newFeed(t, c, r.options(t, c)).drain(t) {
			mine[i.PK] = true
		}
		r.wants = func(i item) bool { return mine[i.PK] }
	}
	f := newFeed(t, c, r.options(t, c))
	if !r.old {
		written = nil
		upsert(t, c, spread(20, 2)...)
		written = append(written, spread(20, 2)...)
	}
	got := append(f.page(t), f.page(t)...)

	// The writer continues until the partitions have changed, and for a moment longer.
	var writer sync.WaitGroup
	changed := make(chan struct{})
	var during []item
	var failed error
	writer.Go(func() {
		for v, more := 10, 40; more > 0; v++ {
			select {
			case <-changed:
				more--
			default:
			}
			i := item{fmt.Sprint(v % 13), fmt.Sprintf("key %d", v%10), v}
			if _, failed = c.UpsertItem(ctx, pk(i.PK), i.json(), nil); failed != nil {
				return
			}
			during = append(during, i)
		}
	})
	got = append(got, f.page(t)...)
	err := change.change(ctx, at(c))
	got = append(got, f.page(t)...)
	close(changed)
	got = append(got, f.page(t)...)
	writer.Wait()
	ok(t, err)
	ok(t, failed)
	if r.finish != nil {
		got = append(got, r.finish(t, f)...)
	} else {
		got = append(got, f.drain(t)...)
	}

	want := map[string]int{}
	for _, i := range append(written, during...) {
		if r.wants(i) {
			want[i.PK+"/"+i.ID] = i.V
		}
	}
	seen := latest(t, got)
	delete(seen, "clock/clock")
	if r.loose && change.again {
		for key := range seen {
			if _, mine := want[key]; !mine {
				delete(seen, key)
			}
		}
	}
	same(t, seen, want)
	if !change.again {
		versions := map[item]int{}
		for _, i := range got {
			if versions[i]++; versions[i] > 1 && i.PK != "clock" {
				t.Errorf("%v came %d times", i, versions[i])
			}
		}
	}
}

func TestFeedsSurviveSplitsAndMerges(t *testing.T) {
	for _, change := range topologies() {
		for _, r := range readers() {
			env.Scenario(t, change.name+"-"+r.name, func(t *testing.T) { survives(t, r, change) })
		}
		env.Scenario(t, change.name+"-prefix", func(t *testing.T) { prefixSurvives(t, change) })
	}
}

// prefixSurvives does the same as survives, for the feed of a prefix of a hierarchical
// key. All items of the prefix are in one partition, which then splits.
func prefixSurvives(t *testing.T, change topology) {
	c := container(t, "/tenant", "/user")
	write := func(v int) {
		for user := range 20 {
			deep{"1", "t1", fmt.Sprint(user), v}.write(t, c)
			deep{"1", "t2", fmt.Sprint(user), v}.write(t, c)
		}
	}
	write(1)
	prefix := pk("t1")
	f := newFeed(t, c, azcosmos.ChangeFeedOptions{FeedRange: everything(), PartitionKey: &prefix, MaxItemCount: 3})
	seen := map[string]int{}
	read := func() int {
		page, err := c.ReadChangeFeed(t.Context(), &f.options)
		ok(t, err)
		f.options.Continuation = &page.ContinuationToken
		for _, b := range page.Items {
			d := decode[deep](t, b)
			equal(t, d.Tenant, "t1", "tenant")
			if d.V < seen[d.User] {
				t.Errorf("user %s: version %d after %d", d.User, d.V, seen[d.User])
			}
			seen[d.User] = d.V
		}
		return len(page.Items)
	}
	read()
	read()
	ok(t, change.change(t.Context(), at(c)))
	read()
	write(2)
	for read() > 0 {
	}
	equal(t, len(seen), 20, "items of the prefix")
	for user, v := range seen {
		equal(t, v, 2, "version of user "+user)
	}
}

package raw

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// pkrange is a partition key range in the form of the REST API.
type pkrange struct {
	ID           string   `json:"id"`
	MinInclusive string   `json:"minInclusive"`
	MaxExclusive string   `json:"maxExclusive"`
	Status       string   `json:"status"`
	Parents      []string `json:"parents"`
	RID          string   `json:"_rid"`
	Self         string   `json:"_self"`
}

// ranges requests the partition key ranges of a container with these headers. It returns
// nil if the server reports no change.
func ranges(t *testing.T, c collection, headers map[string]string) []pkrange {
	t.Helper()
	all, _ := rangesAndEtag(t, c, headers)
	return all
}

func rangesAndEtag(t *testing.T, c collection, headers map[string]string) ([]pkrange, string) {
	t.Helper()
	a := request{verb: "GET", path: c.path + "/pkranges", headers: headers}.do(t)
	if a.status == 304 {
		return nil, a.header.Get("Etag")
	}
	feed := decode[struct {
		RID                string `json:"_rid"`
		PartitionKeyRanges []pkrange
		Count              int `json:"_count"`
	}](t, a.want(t, 200))
	equal(t, feed.Count, len(feed.PartitionKeyRanges), "count")
	asked := headers["A-IM"] != "" || headers["If-None-Match"] != ""
	if (a.header.Get("Etag") != "") != asked || feed.RID == "" {
		t.Errorf("the etag is %q, and the rid %q", a.header.Get("Etag"), feed.RID)
	}
	return feed.PartitionKeyRanges, a.header.Get("Etag")
}

// tiles fails the test unless the ranges cover all keys without overlap.
func tiles(t *testing.T, all []pkrange) {
	t.Helper()
	sorted := slices.SortedFunc(slices.Values(all), func(a, b pkrange) int { return strings.Compare(a.MinInclusive, b.MinInclusive) })
	at := ""
	for _, r := range sorted {
		equal(t, r.MinInclusive, at, "the beginning of range "+r.ID)
		at = r.MaxExclusive
	}
	equal(t, at, "FF", "the end")
}

func TestPartitionKeyRanges(t *testing.T) {
	env.Scenario(t, "raw-pkranges", func(t *testing.T) {
		c := newCollection(t)
		plain := ranges(t, c, nil) // without an etag, as in the service
		equal(t, len(plain), 2, "ranges")
		equal(t, plain[0].MaxExclusive, "05C1DFFFFFFFFC", "the middle of version 1 of the hash")
		equal(t, plain[0].Status, "online", "status")
		tiles(t, plain)
		incremental := map[string]string{"A-IM": "Incremental Feed", "x-ms-max-item-count": "-1"}
		full, etag := rangesAndEtag(t, c, incremental)
		equal(t, fmt.Sprint(full), fmt.Sprint(plain), "the first incremental read")
		_, again := rangesAndEtag(t, c, incremental)
		equal(t, again, etag, "etag")
		incremental["If-None-Match"] = etag
		unchanged, again := rangesAndEtag(t, c, incremental)
		equal(t, len(unchanged), 0, "ranges that are new")
		equal(t, again, etag, "etag when nothing changed")

		ok(t, env.Admin.SplitFirst(t.Context(), c.at()))
		fresh, second := rangesAndEtag(t, c, incremental)
		equal(t, len(fresh), 2, "new ranges after a split")
		for _, r := range fresh {
			equal(t, fmt.Sprint(r.Parents), fmt.Sprint([]string{plain[0].ID}), "parents")
		}
		live := ranges(t, c, nil)
		equal(t, len(live), 3, "live ranges after a split")
		tiles(t, live)
		incremental["If-None-Match"] = second
		equal(t, len(ranges(t, c, incremental)), 0, "ranges that are new after that")

		// After a second split and a merge, the answer must contain only live ranges.
		// Each must list all its ancestors.
		ok(t, env.Admin.SplitFirst(t.Context(), c.at()))
		ok(t, env.Admin.MergeFirst(t.Context(), c.at()))
		incremental["If-None-Match"] = etag
		late := ranges(t, c, incremental)
		known := map[string]bool{plain[0].ID: true, plain[1].ID: true}
		for _, r := range late {
			known[r.ID] = true
			if !slices.Contains(r.Parents, plain[0].ID) {
				t.Errorf("range %s has the parents %v, without %s", r.ID, r.Parents, plain[0].ID)
			}
		}
		live = ranges(t, c, nil)
		tiles(t, live)
		for _, r := range live {
			if !known[r.ID] {
				t.Errorf("range %s is live, and was not told to a client that slept", r.ID)
			}
			for _, other := range live {
				if slices.Contains(r.Parents, other.ID) {
					t.Errorf("range %s is live and a parent of %s", other.ID, r.ID)
				}
			}
		}
		incremental["If-None-Match"] = `"unknown"`
		equal(t, len(ranges(t, c, incremental)), len(live), "ranges for an etag that is not known")
	})
}

func TestReadFeed(t *testing.T) {
	env.Scenario(t, "raw-read-feed", func(t *testing.T) {
		c := newCollection(t)
		c.upsert(t, spread(40, 1)...)
		for _, count := range []string{"1", "7", "40", "-1", ""} {
			var all []item
			headers := map[string]string{}
			if count != "" {
				headers["x-ms-max-item-count"] = count
			}
			for {
				a := request{verb: "GET", path: c.path + "/docs", headers: headers}.do(t).want(t, 200)
				page := decode[documents](t, a)
				equal(t, page.Count, len(page.Documents), "count")
				equal(t, a.header.Get("X-Ms-Item-Count"), fmt.Sprint(len(page.Documents)), "x-ms-item-count")
				if count == "1" && len(page.Documents) > 1 || count == "7" && len(page.Documents) > 7 {
					t.Fatalf("a page of %d, asked for %s", len(page.Documents), count)
				}
				for _, i := range page.Documents {
					equal(t, i.LSN, 0, "_lsn outside the change feed")
				}
				all = append(all, page.Documents...)
				continuation := a.header.Get("X-Ms-Continuation")
				if continuation == "" {
					break
				}
				headers["x-ms-continuation"] = continuation
			}
			equal(t, len(all), 40, "items in pages of "+count)
			same(t, all, spread(40, 1))
		}
		request{verb: "GET", path: c.path + "/docs", headers: map[string]string{"x-ms-continuation": "none of mine"}}.do(t).want(t, 400)
	})
}

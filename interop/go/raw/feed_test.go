package raw

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// feedOnce requests one page of the change feed with these headers. It returns the page,
// the ETag to continue with, and the HTTP status.
func feedOnce(t *testing.T, path string, headers map[string]string, sign func(r *http.Request)) (page documents, etag string, status int) {
	t.Helper()
	all := map[string]string{"A-IM": "Incremental feed"}
	for name, value := range headers {
		all[name] = value
	}
	a := request{verb: "GET", path: path + "/docs", headers: all, sign: sign}.do(t)
	if a.status != 200 && a.status != 304 {
		return documents{}, "", a.status
	}
	etag = a.header.Get("Etag")
	if len(etag) < 3 || etag[0] != '"' || etag[len(etag)-1] != '"' {
		t.Fatalf("%d with the etag %q", a.status, etag)
	}
	if a.status == 200 {
		page = decode[documents](t, a)
		if len(page.Documents) == 0 || page.Count != len(page.Documents) {
			t.Errorf("a page of %d with a count of %d", len(page.Documents), page.Count)
		}
		if !slices.IsSortedFunc(page.Documents, func(a, b item) int { return int(a.LSN - b.LSN) }) && headers["x-ms-documentdb-partitionkeyrangeid"] != "" {
			t.Error("a range's page is not in the order of its LSNs")
		}
	}
	equal(t, a.header.Get("X-Ms-Item-Count"), fmt.Sprint(len(page.Documents)), "x-ms-item-count")
	if a.header.Get("X-Ms-Continuation") != "" {
		t.Error("a change feed page with x-ms-continuation")
	}
	return page, etag, a.status
}

// feedFrom reads the change feed to its end. The first request has these headers. It
// returns all items and the last ETag.
func feedFrom(t *testing.T, path string, headers map[string]string, sign func(r *http.Request)) (all []item, etag string) {
	t.Helper()
	next := map[string]string{}
	for name, value := range headers {
		next[name] = value
	}
	for {
		page, reached, status := feedOnce(t, path, next, sign)
		switch status {
		case 200:
			all = append(all, page.Documents...)
		case 304:
			return all, reached
		default:
			t.Fatalf("the feed answers %d", status)
		}
		next["If-None-Match"] = reached
		delete(next, "If-Modified-Since")
	}
}

func feedAll(t *testing.T, path string, headers map[string]string, sign func(r *http.Request)) []item {
	t.Helper()
	all, _ := feedFrom(t, path, headers, sign)
	return all
}

func TestFeedFromTheBeginning(t *testing.T) {
	env.Scenario(t, "raw-feed-beginning", func(t *testing.T) {
		c := newCollection(t)
		equal(t, len(feedAll(t, c.path, nil, nil)), 0, "changes of an empty container")
		c.upsert(t, spread(40, 1)...)
		c.upsert(t, spread(15, 2)...)
		for _, count := range []string{"1", "7", "100", "-1"} {
			all, etag := feedFrom(t, c.path, map[string]string{"x-ms-max-item-count": count}, nil)
			equal(t, len(all), 40, "changes in pages of "+count)
			same(t, all, append(spread(40, 1), spread(15, 2)...))
			_, again, status := feedOnce(t, c.path, map[string]string{"If-None-Match": etag}, nil)
			equal(t, status, 304, "status when all is read")
			equal(t, again, etag, "etag when nothing happened")
		}
	})
}

func TestFeedFromNow(t *testing.T) {
	env.Scenario(t, "raw-feed-now", func(t *testing.T) {
		c := newCollection(t)
		c.upsert(t, spread(20, 1)...)
		page, etag, status := feedOnce(t, c.path, map[string]string{"If-None-Match": "*"}, nil)
		equal(t, status, 304, "status")
		equal(t, len(page.Documents), 0, "changes")
		c.upsert(t, spread(6, 2)...)
		same(t, feedAll(t, c.path, map[string]string{"If-None-Match": etag}, nil), spread(6, 2))
	})
}

func TestEtagsContinue(t *testing.T) {
	env.Scenario(t, "raw-feed-etag", func(t *testing.T) {
		c := newCollection(t)
		c.upsert(t, spread(20, 1)...)
		_, etag := feedFrom(t, c.path, nil, nil)
		c.upsert(t, spread(10, 2)...)
		same(t, feedAll(t, c.path, map[string]string{"If-None-Match": etag}, nil), spread(10, 2))
		// The ETag of the whole feed must also be valid for a partition key range, for a
		// partition key, and after a split.
		var parts []item
		for _, r := range ranges(t, c, nil) {
			parts = append(parts, feedAll(t, c.path, map[string]string{"If-None-Match": etag, "x-ms-documentdb-partitionkeyrangeid": r.ID}, nil)...)
		}
		same(t, parts, spread(10, 2))
		same(t, feedAll(t, c.path, map[string]string{"If-None-Match": etag, "x-ms-documentdb-partitionkey": `["key 3"]`}, nil), []item{{ID: "3", PK: "key 3", V: 2}})
		ok(t, env.Admin.SplitFirst(t.Context(), c.at()))
		parts = nil
		for _, r := range ranges(t, c, nil) {
			parts = append(parts, feedAll(t, c.path, map[string]string{"If-None-Match": etag, "x-ms-documentdb-partitionkeyrangeid": r.ID}, nil)...)
		}
		same(t, parts, spread(10, 2))

		// A position beyond the end is of another state of the container, for instance from
		// before a restore.
		beyond := map[string]string{"A-IM": "Incremental feed", "If-None-Match": `"999999999"`}
		lost := request{verb: "GET", path: c.path + "/docs", headers: beyond}.do(t).want(t, 404)
		equal(t, lost.header.Get("X-Ms-Substatus"), "1002", "sub-status of an etag beyond the end")
		for _, wrong := range []string{`"abc"`, `"-1"`, `"1.5"`, `"99999999999999999999999"`, `"`} {
			if _, _, status := feedOnce(t, c.path, map[string]string{"If-None-Match": wrong}, nil); status != 400 {
				t.Errorf("an etag of %s: %d", wrong, status)
			}
		}
	})
}

func TestFeedOfRanges(t *testing.T) {
	env.Scenario(t, "raw-feed-range", func(t *testing.T) {
		c := newCollection(t)
		c.upsert(t, spread(40, 1)...)
		before := ranges(t, c, nil)
		equal(t, len(before), 2, "ranges")
		var all []item
		etags := map[string]string{}
		for _, r := range before {
			part, etag := feedFrom(t, c.path, map[string]string{"x-ms-documentdb-partitionkeyrangeid": r.ID, "x-ms-max-item-count": "3"}, nil)
			if len(part) == 0 {
				t.Errorf("range %s is empty", r.ID)
			}
			all, etags[r.ID] = append(all, part...), etag
		}
		equal(t, len(all), 40, "changes of all ranges")
		same(t, all, spread(40, 1))

		ok(t, env.Admin.SplitFirst(t.Context(), c.at()))
		gone := request{verb: "GET", path: c.path + "/docs", headers: map[string]string{"A-IM": "Incremental feed", "x-ms-documentdb-partitionkeyrangeid": before[0].ID}}.do(t).want(t, 410)
		equal(t, gone.header.Get("X-Ms-Substatus"), "1002", "sub-status of a range that was split")
		never := request{verb: "GET", path: c.path + "/docs", headers: map[string]string{"A-IM": "Incremental feed", "x-ms-documentdb-partitionkeyrangeid": "77"}}.do(t).want(t, 410)
		equal(t, never.header.Get("X-Ms-Substatus"), "1002", "sub-status of a range that never was")
		c.upsert(t, spread(40, 2)...)
		all = nil
		for _, r := range ranges(t, c, nil) {
			from := r.ID
			for _, parent := range r.Parents {
				from = parent
			}
			all = append(all, feedAll(t, c.path, map[string]string{"x-ms-documentdb-partitionkeyrangeid": r.ID, "If-None-Match": etags[from]}, nil)...)
		}
		equal(t, len(all), 40, "changes after the split")
		same(t, all, spread(40, 2))
	})
}

// nextSecond waits until the server stamps its writes with a later second. It returns the
// second before.
func nextSecond(t *testing.T, c collection) int64 {
	t.Helper()
	stamp := func() int64 { return c.upsert(t, item{ID: "clock", PK: "clock"})[0].TS }
	began := stamp()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); stamp() == began; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("the server's clock has stopped")
		}
	}
	return began
}

func TestModifiedSinceUnderTheOldVersionLosesNothing(t *testing.T) {
	env.Scenario(t, "raw-feed-time", func(t *testing.T) {
		c := newCollection(t)
		c.upsert(t, spread(20, 1)...)
		older := nextSecond(t, c)
		second := c.upsert(t, spread(5, 2)...)[0].TS
		nextSecond(t, c)
		c.upsert(t, spread(7, 3)...)
		scopes := []map[string]string{{}}
		for _, r := range ranges(t, c, nil) {
			scopes = append(scopes, map[string]string{"x-ms-documentdb-partitionkeyrangeid": r.ID})
		}
		var parts []item
		for n, scope := range scopes {
			for since, lowest := range map[int64]int64{older: older, second: second, second - 86400: 0} {
				headers := map[string]string{"If-Modified-Since": time.Unix(since, 0).UTC().Format(http.TimeFormat)}
				for name, value := range scope {
					headers[name] = value
				}
				page, etag, status := feedOnce(t, c.path, headers, nil)
				equal(t, status, 304, "status")
				equal(t, len(page.Documents), 0, "documents")
				scope["If-None-Match"] = etag
				rest := feedAll(t, c.path, scope, nil)
				delete(scope, "If-None-Match")
				for _, i := range rest {
					if i.TS < lowest {
						t.Errorf("%s/%s of %d, from a start at %d", i.PK, i.ID, i.TS, since)
					}
				}
				missed := map[string]int{}
				if n == 0 {
					for _, i := range append(spread(7, 3), item{ID: "clock", PK: "clock"}) {
						missed[i.PK+"/"+i.ID] = i.V
					}
				}
				for _, i := range rest {
					delete(missed, i.PK+"/"+i.ID)
				}
				if len(missed) > 0 {
					t.Errorf("a start at %d loses %v", since, missed)
				}
				if n > 0 && since == older {
					parts = append(parts, rest...)
				}
			}
		}
		seen := versions(t, parts)
		for _, i := range spread(7, 3) {
			equal(t, seen[i.PK+"/"+i.ID], 3, i.PK+"/"+i.ID+" by ranges")
		}
		// A start time after all writes gives no changes at first. Later writes must
		// still arrive.
		_, etag, status := feedOnce(t, c.path, map[string]string{"If-Modified-Since": time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}, nil)
		equal(t, status, 304, "status of a start in the future")
		c.upsert(t, item{ID: "later", PK: "p", V: 1})
		equal(t, len(feedAll(t, c.path, map[string]string{"If-None-Match": etag}, nil)), 1, "changes after a start in the future")
		// With a newer x-ms-version, the documents after that second must arrive at once.
		page, _, status := feedOnce(t, c.path, map[string]string{
			"x-ms-version": "2020-07-15", "If-Modified-Since": time.Unix(second, 0).UTC().Format(http.TimeFormat),
		}, nil)
		equal(t, status, 200, "status under a newer version")
		for _, i := range page.Documents {
			if i.TS <= second {
				t.Errorf("%s/%s of %d, after %d", i.PK, i.ID, i.TS, second)
			}
		}
	})
}

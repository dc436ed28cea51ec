package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

// A read of several partitions returns the changes of one after those of another, each in
// the order of its LSNs. The position after each page has an LSN for each partition.
func TestPageOverSeveralPartitionsReadsOneAfterTheOther(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{Partitions: 4})
	parts, err := c.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byPart := map[string][]string{}
	for n := range 12 {
		r := upsert(t, c, fmt.Sprint(n), fmt.Sprintf("p%d", n%6), n)
		byPart[r.Partition] = append(byPart[r.Partition], fmt.Sprintf("%d:%d", n, n))
		if r.LSN != int64(len(byPart[r.Partition])) {
			t.Errorf("write %d to partition %s has the LSN %d", len(byPart[r.Partition]), r.Partition, r.LSN)
		}
	}
	var want, got []string
	at := position{lsn: int64(len(byPart["0"]))}
	for _, p := range parts {
		want = append(want, byPart[p.ID]...)
		at.add(p.Range.Min, int64(len(byPart[p.ID])))
	}
	from, last := feed.Beginning(), FeedPage{}
	for range len(want) + 1 {
		page, err := c.Feed(t.Context(), feed.Request{From: from, MaxItems: 1})
		if err != nil || page.End != -1 || len(page.Changes) > 1 {
			t.Fatalf("%+v, %v", page, err)
		}
		if len(page.Changes) > 0 {
			got = append(got, ids(t, page.Changes))
		}
		from, last = feed.After(page.Continuation), page
	}
	if !slices.Equal(got, want) || last.Continuation != at.continuation() {
		t.Errorf("%v up to %s, want %v up to %s", got, last.Continuation, want, at.continuation())
	}
	// A range that begins with partition 1 and ends within partition 2 is served by
	// exactly these two.
	half := feed.Range{Min: parts[1].Range.Min, Max: parts[2].Range.Min + "80"}
	page, err := c.Feed(t.Context(), feed.Request{Range: half, From: feed.Now()})
	if err != nil {
		t.Fatal(err)
	}
	served := []string{}
	for _, p := range page.Served {
		served = append(served, p.ID)
	}
	now := position{lsn: page.Served[0].End}
	now.add(parts[2].Range.Min, page.Served[1].End)
	if !slices.Equal(served, []string{"1", "2"}) || page.LSN != now.only() || page.End != -1 || page.Continuation != now.continuation() {
		t.Errorf("%v is served by %v up to %s", half, page.Served, page.Continuation)
	}
	// If the request names a partition, Feed must return the same page as the Read of a
	// source. A retired partition is a *feed.GoneError.
	var gone *feed.GoneError
	if _, err := c.Split(t.Context(), "0", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Feed(t.Context(), feed.Request{Partition: parts[0]}); !errors.As(err, &gone) || gone.Partition != "0" {
		t.Errorf("a retired partition: %v", err)
	}
	one, err := c.Feed(t.Context(), feed.Request{Partition: parts[1], From: feed.Beginning()})
	if err != nil {
		t.Fatal(err)
	}
	same := readPage(t, c, feed.Request{Partition: parts[1], From: feed.Beginning()})
	if ids(t, one.Changes) != ids(t, same.Changes) || one.LSN != same.LSN || one.SessionToken != same.SessionToken {
		t.Errorf("Feed returned %+v for a partition, the source %+v", one.Page, same)
	}
}

// A read of several partitions must wait until one of them changes. If one of them is
// split meanwhile, the read must also return at a change in the new partitions.
func TestReadOfSeveralPartitionsWaitsForAChangeInAny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openPebble(t, Options{})
		c := newContainer(t, db, storetype.ContainerProperties{Partitions: 4})
		parts, err := c.Partitions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		upper := feed.Range{Min: parts[2].Range.Min, Max: feed.MaxEPK}
		inside, outside := "", ""
		for n := 0; inside == "" || outside == ""; n++ {
			pk := fmt.Sprint(n)
			if lower, _ := c.hash.Prefix(mustComponents(t, pk)); upper.Holds(lower) {
				inside = pk
			} else {
				outside = pk
			}
		}
		type answer struct {
			page FeedPage
			err  error
			took time.Duration
		}
		read := func(ctx context.Context, from feed.Start, wait time.Duration) <-chan answer {
			ch := make(chan answer, 1)
			start := time.Now()
			go func() {
				page, err := c.Feed(ctx, feed.Request{Range: upper, From: from, Wait: wait})
				ch <- answer{page, err, time.Since(start)}
			}()
			synctest.Wait()
			return ch
		}
		first := read(t.Context(), feed.Now(), time.Hour)
		time.Sleep(time.Minute)
		upsert(t, c, "o", outside, 1) // this item is outside of the range, so the read must keep waiting
		if _, err := c.Split(t.Context(), "3", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		upsert(t, c, "i", inside, 2)
		a := <-first
		if a.err != nil || ids(t, a.page.Changes) != "i:2" || a.took != 2*time.Minute {
			t.Fatalf("%s, %v after %v", ids(t, a.page.Changes), a.err, a.took)
		}
		last := a.page.Continuation
		a = <-read(t.Context(), feed.After(last), time.Minute)
		if a.err != nil || len(a.page.Changes) != 0 || a.page.Continuation != last || a.took != time.Minute {
			t.Errorf("without a change: %+v, %v after %v", a.page, a.err, a.took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := read(ctx, feed.Now(), time.Hour)
		deleted := read(t.Context(), feed.Now(), time.Hour)
		cancel()
		if a := <-cancelled; !errors.Is(a.err, context.Canceled) {
			t.Errorf("cancelled: %v", a.err)
		}
		if err := db.DeleteContainer(t.Context(), "db", "c"); err != nil {
			t.Fatal(err)
		}
		if a := <-deleted; !errors.Is(a.err, feed.ErrNotFound) || a.took != 0 {
			t.Errorf("the container was deleted: %v after %v", a.err, a.took)
		}
	})
}

func TestPositionBeforeATimeLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{Partitions: 3, Retention: time.Hour})
		at, results := []time.Time{}, []storetype.Result{}
		for n := range 6 {
			results = append(results, upsert(t, c, fmt.Sprint(n), fmt.Sprint(n), n))
			at = append(at, results[n].Modified)
			time.Sleep(700 * time.Millisecond) // not a whole second, so that some writes have the same _ts
		}
		end := at[5].Add(time.Hour)
		for _, when := range append(slices.Clone(at), at[0].Add(-time.Hour), end) {
			p, err := c.FeedBefore(t.Context(), feed.Request{}, when.Add(300*time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			before, err := parseContinuation(p.Continuation)
			if err != nil {
				t.Fatal(err)
			}
			parts, err := c.Partitions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range parts {
				want := int64(0) // the last LSN of the partition before when
				for n, r := range results {
					if r.Partition == part.ID && at[n].Before(when) {
						want = r.LSN
					}
				}
				if before.at(part.Range.Min) != want || len(p.Served) != 3 || len(p.Changes) != 0 {
					t.Errorf("before %v: partition %s is at LSN %d, want %d: %+v", when, part.ID, before.at(part.Range.Min), want, p)
				}
			}
		}
		_, err := c.FeedBefore(t.Context(), feed.Request{Mode: feed.AllVersionsAndDeletes}, end)
		if !errors.Is(err, feed.ErrUnsupported) {
			t.Errorf("all versions mode: %v", err)
		}
		var gone *feed.GoneError
		if _, err := c.FeedBefore(t.Context(), feed.Request{Partition: feed.Partition{ID: "9"}}, end); !errors.As(err, &gone) {
			t.Errorf("a missing partition: %v", err)
		}
	})
}

// BenchmarkFeed measures the read of one change on a page of 100, and a read that finds
// no change. It does so for containers of 1, 20 and 200 partitions, each with 20,000
// documents of 1 KB.
func BenchmarkFeed(b *testing.B) {
	for _, partitions := range []int{1, 20, 200} {
		db, c := benchmarkItems(b, partitions)
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			b.ReportAllocs()
			for n, from := 0, feed.Beginning(); n < b.N; {
				page, err := c.Feed(b.Context(), feed.Request{From: from})
				if err != nil {
					b.Fatal(err)
				}
				n += len(page.Changes)
				if from = feed.After(page.Continuation); len(page.Changes) == 0 {
					from = feed.Beginning()
				}
			}
		})
		b.Run(fmt.Sprintf("partitions=%d,idle", partitions), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Feed(b.Context(), feed.Request{From: feed.Now()}); err != nil {
					b.Fatal(err)
				}
			}
		})
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// at returns the LSN of the keys from key up to the next border.
func (p position) at(key string) int64 {
	lsn := p.lsn
	for _, s := range p.steps {
		if s.border > key {
			break
		}
		lsn = s.lsn
	}
	return lsn
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestFeedStartsAtTheRequestedPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{})
		src := c.db.Source(c)
		upsert(t, c, "a", "p", 1)
		time.Sleep(1500 * time.Millisecond)
		second := upsert(t, c, "b", "p", 2)
		upsert(t, c, "c", "q", 3)
		time.Sleep(1500 * time.Millisecond)
		upsert(t, c, "d", "p", 4)
		for _, k := range []struct {
			name string
			from feed.Start
			want string
		}{
			{"beginning", feed.Beginning(), "a:1, b:2, c:3, d:4"},
			{"now", feed.Now(), ""},
			{"the second of a write", feed.At(second.Modified), "b:2, c:3, d:4"},
			{"the second after it", feed.At(second.Modified.Add(time.Second)), "d:4"},
			{"long before the container", feed.At(time.Unix(1, 0)), "a:1, b:2, c:3, d:4"},
			{"the future", feed.At(c.db.Now().Add(time.Hour)), ""},
			{"a continuation", feed.After(`"3"`), "d:4"},
			{"the beginning's continuation", feed.After(`"0"`), "a:1, b:2, c:3, d:4"},
		} {
			p := readPage(t, c, feed.Request{From: k.from})
			if got := ids(t, p.Changes); got != k.want {
				t.Errorf("from %s: %s, want %s", k.name, got, k.want)
			}
			if p.LSN != 4 || p.End != 4 || p.Continuation != `"4"` {
				t.Errorf("from %s: LSN %d, end %d, continuation %s", k.name, p.LSN, p.End, p.Continuation)
			}
		}
		for _, bad := range []feed.Continuation{"", "4", `"-1"`, `"04"`, `"4`, `"x"`, `"99999999999999999999"`} {
			var refused *storetype.BadRequestError
			if _, err := src.Read(t.Context(), feed.Request{From: feed.After(bad)}); !errors.As(err, &refused) || refused.Kind != storetype.BadContinuation {
				t.Errorf("continuation %s: %v", bad, err)
			}
		}
	})
}

func TestPagesRespectMaxItems(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{})
	for i := range 250 {
		upsert(t, c, fmt.Sprint(i), "p", i)
	}
	sizes := []int{}
	next := 0
	for from := feed.Beginning(); ; {
		p := readPage(t, c, feed.Request{From: from})
		if len(p.Changes) == 0 {
			break
		}
		bytes := 0
		for _, ch := range p.Changes {
			if n := field(t, ch.Current, "n"); n != float64(next) || field(t, ch.Current, "_lsn") != float64(ch.LSN) || field(t, ch.Current, "_ts") != float64(ch.Time.Unix()) {
				t.Fatalf("change %d is %s with LSN %d", next, ch.Current, ch.LSN)
			}
			if cap(ch.Current) != len(ch.Current) {
				t.Fatal("an append to a change would overwrite the next one")
			}
			next++
			bytes += len(ch.Current)
		}
		if p.Bytes != bytes {
			t.Errorf("Bytes of a page of %d bytes is %d", bytes, p.Bytes)
		}
		sizes = append(sizes, len(p.Changes))
		from = feed.After(p.Continuation)
	}
	if fmt.Sprint(sizes) != "[100 100 50]" {
		t.Errorf("pages of %v", sizes)
	}
}

// A waiting read must return at a change in its scope, and ignore others. In the synctest
// bubble, no time may pass between the write and the result.
func TestWaitEndsWithTheFirstChangeInScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{})
		start := time.Now()
		go func() {
			time.Sleep(time.Second)
			_, _ = c.Upsert(context.Background(), nil, body("other", "q", 1), storetype.WriteOptions{})
			time.Sleep(time.Second)
			_, _ = c.Upsert(context.Background(), nil, body("mine", "p", 2), storetype.WriteOptions{})
		}()
		r := feed.Request{Key: feed.PartitionKey{"p"}, From: feed.Now(), Wait: time.Minute}
		p := readPage(t, c, r)
		if got := ids(t, p.Changes); got != "mine:2" || time.Since(start) != 2*time.Second {
			t.Errorf("%s after %s", got, time.Since(start))
		}
		start = time.Now()
		r.From, r.Wait = feed.After(p.Continuation), 3*time.Second
		if p = readPage(t, c, r); len(p.Changes) > 0 || time.Since(start) != 3*time.Second {
			t.Errorf("%s after %s, with nothing written", ids(t, p.Changes), time.Since(start))
		}
	})
}

func TestWaitEndsWithThePartition(t *testing.T) {
	var gone *feed.GoneError
	for name, k := range map[string]struct {
		end  func(*Container) error
		done func(error) bool
	}{
		"split":  {func(c *Container) error { _, err := c.Split(context.Background(), "0", ""); return err }, func(err error) bool { return errors.As(err, &gone) }},
		"delete": {func(c *Container) error { return c.db.DeleteContainer(context.Background(), "db", "c") }, func(err error) bool { return errors.Is(err, feed.ErrNotFound) }},
		"close":  {func(c *Container) error { return c.db.Close() }, func(err error) bool { return errors.Is(err, storetype.ErrClosed) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{})
				start := time.Now()
				failed := make(chan error, 1)
				go func() {
					_, err := c.db.Source(c).Read(context.Background(), feed.Request{Partition: feed.Partition{ID: "0"}, Wait: time.Hour})
					failed <- err
				}()
				synctest.Wait()
				if err := k.end(c); err != nil {
					t.Fatal(err)
				}
				if err := <-failed; !k.done(err) || time.Since(start) > 0 {
					t.Errorf("after %s: %v", time.Since(start), err)
				}
			})
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.db.Source(c).Read(ctx, feed.Request{Wait: time.Hour}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

func TestFeedAddressesPartitionsByIDRangeAndKey(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{Partitions: 2})
	src := c.db.Source(c)
	upsert(t, c, "a", "p", 1)
	parts, err := src.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var gone *feed.GoneError
	for name, r := range map[string]feed.Request{
		"an ID that never was": {Partition: feed.Partition{ID: "7"}},
		"the whole container":  {},
		"a range over both":    {Range: feed.Range{Min: "1F", Max: "21"}},
	} {
		if _, err := src.Read(t.Context(), r); !errors.As(err, &gone) {
			t.Errorf("%s: %v", name, err)
		}
	}
	all := ""
	for _, p := range parts {
		byID := readPage(t, c, feed.Request{Partition: feed.Partition{ID: p.ID}, From: feed.Beginning()})
		byRange := readPage(t, c, feed.Request{Range: p.Range, From: feed.Beginning()})
		if ids(t, byID.Changes) != ids(t, byRange.Changes) || byID.Continuation != byRange.Continuation {
			t.Errorf("partition %s: %v by ID and %v by range", p.ID, byID, byRange)
		}
		all += ids(t, byID.Changes)
		mid, err := c.hash.Midpoint(p.Range.Min, p.Range.Max)
		if err != nil {
			t.Fatal(err)
		}
		halves := ""
		for _, half := range []feed.Range{{Min: p.Range.Min, Max: mid}, {Min: mid, Max: p.Range.Max}} {
			halves += ids(t, readPage(t, c, feed.Request{Partition: p, Range: half, From: feed.Beginning()}).Changes)
		}
		if halves != ids(t, byID.Changes) {
			t.Errorf("partition %s has %s, but its halves have %s", p.ID, ids(t, byID.Changes), halves)
		}
	}
	if all != "a:1" {
		t.Errorf("the partitions have %s together", all)
	}
	// Borders must be upper-case hexadecimal up to "FF". Lower case sorts differently as
	// text. A reader of a range up to "FFFF" would get a GoneError forever.
	for _, bad := range []feed.Range{{Min: "XY", Max: "FF"}, {Min: "20", Max: "10"}, {Max: "1f"}, {Max: "FFFF"}} {
		var refused *storetype.BadRequestError
		if _, err := src.Read(t.Context(), feed.Request{Range: bad}); !errors.As(err, &refused) || refused.Kind != storetype.BadRange {
			t.Errorf("range %s: %v", bad, err)
		}
		if _, err := c.Items(t.Context(), ItemsRequest{ItemsRequest: storetype.ItemsRequest{Range: bad}}); !errors.As(err, &refused) || refused.Kind != storetype.BadRange {
			t.Errorf("items in range %s: %v", bad, err)
		}
	}
}

// MaxItems must not decide how much memory a page allocates. It may be huge, while most
// of the LSNs in a feed of many updates have no change.
func TestPageAllocatesOnlyForItsChanges(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{})
	upsert(t, c, "1", "p", 0)
	page := func() feed.Page {
		return readPage(t, c, feed.Request{From: feed.Beginning(), MaxItems: math.MaxInt32})
	}
	first := page()
	v, s, err := c.open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer v.release()
	w := newLogMerge(&feedRead{c: c, r: feed.Request{MaxItems: math.MaxInt32}}, v, s)
	w.pieces = []piece{{end: math.MaxInt64}}
	if n := w.expect(); n > maxPageBytes/len(first.Changes[0].Current)+1 {
		t.Errorf("the page allocates for %d changes of %d bytes", n, len(first.Changes[0].Current))
	}
	for i := range 2000 {
		upsert(t, c, "1", "p", i)
	}
	if p := page(); len(p.Changes) != 1 || cap(p.Changes) > 2*defaultMaxItems {
		t.Errorf("a page of %d changes has a capacity of %d", len(p.Changes), cap(p.Changes))
	}
}

func TestSplitAndMergeRefuseInvalidRequests(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{Partitions: 3})
	ctx := t.Context()
	var gone *feed.GoneError
	var bad *storetype.BadRequestError
	if _, err := c.Split(ctx, "9", ""); !errors.As(err, &gone) || gone.Partition != "9" {
		t.Errorf("split of a missing partition: %v", err)
	}
	for _, at := range []string{"FF", "3FFF", "zz", "0"} {
		if _, err := c.Split(ctx, "1", at); !errors.As(err, &bad) || bad.Kind != storetype.BadRange {
			t.Errorf("split of 1 at %s: %v", at, err)
		}
	}
	if _, err := c.Merge(ctx, "0", "2"); !errors.As(err, &bad) || bad.Kind != storetype.BadRange {
		t.Errorf("merge of partitions that are not neighbours: %v", err)
	}
	if _, err := c.Merge(ctx, "0", "0"); !errors.As(err, &bad) {
		t.Errorf("merge with itself: %v", err)
	}
	if _, err := c.Merge(ctx, "0", "9"); !errors.As(err, &gone) {
		t.Errorf("merge with a missing partition: %v", err)
	}
	made, err := c.Merge(ctx, "2", "1")
	if err != nil || made.ID != "3" || fmt.Sprint(made.Parents) != "[1 2]" {
		t.Fatalf("merge: %+v, %v", made, err)
	}
	two, err := c.Split(ctx, "3", "2A")
	if err != nil || two[0].ID != "4" || two[1].ID != "5" || fmt.Sprint(two[1].Parents) != "[1 2 3]" || two[0].Range.Max != "2A" {
		t.Fatalf("split: %+v, %v", two, err)
	}
	if _, err := c.Split(ctx, "3", ""); !errors.As(err, &gone) {
		t.Errorf("split of a retired partition: %v", err)
	}
	// A border with half a byte is padded to "20". Otherwise the two new partitions could
	// not be split again.
	odd, err := c.Split(ctx, "4", "2")
	if err != nil || odd[0].Range.Max != "20" {
		t.Fatalf("split at half a byte: %+v, %v", odd, err)
	}
	for _, p := range odd {
		if _, err := c.Split(ctx, p.ID, ""); err != nil {
			t.Errorf("split of %s: %v", p.Range, err)
		}
	}
}

func TestExpiredItemsAreInvisibleBeforeTheyArePurged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openPebble(t, Options{PurgeInterval: time.Minute})
		c := newContainer(t, db, storetype.ContainerProperties{DefaultTTL: 10, Retention: time.Hour})
		ctx, pk := t.Context(), feed.PartitionKey{"p"}
		upsert(t, c, "a", "p", 1)
		upsert(t, c, "b", "p", 1)
		if _, err := c.Upsert(ctx, nil, []byte(`{"id":"keep","pk":"p","n":1,"ttl":-1}`), storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		if _, err := c.Read(ctx, pk, "a", storetype.ReadOptions{}); !errors.Is(err, feed.ErrNotFound) {
			t.Errorf("read of an expired item: %v", err)
		}
		if got := ids(t, readPage(t, c, feed.Request{From: feed.Beginning()}).Changes); got != "keep:1" {
			t.Errorf("the feed shows %s", got)
		}
		if page, err := c.Items(ctx, ItemsRequest{}); err != nil || len(page.Items) != 1 {
			t.Errorf("%d items, %v", len(page.Items), err)
		}
		if _, err := c.Delete(ctx, pk, "a", storetype.WriteOptions{}); !errors.Is(err, feed.ErrNotFound) {
			t.Errorf("delete of an expired item: %v", err)
		}
		if r, err := c.Create(ctx, pk, body("a", "p", 2), storetype.WriteOptions{}); err != nil || !r.Created {
			t.Errorf("create of an item that has expired: %+v, %v", r, err)
		}
		versions := feed.Request{Mode: feed.AllVersionsAndDeletes, From: feed.After(`"3"`)}
		p := readPage(t, c, versions)
		if got := ids(t, p.Changes); got != "delete a:1, create a:2" || !p.Changes[0].Expired || p.Changes[1].Expired {
			t.Errorf("before the purge the feed shows %s", got)
		}
		versions.From, versions.Wait = feed.After(p.Continuation), time.Hour
		p = readPage(t, c, versions)
		gone := p.Changes[0]
		if !gone.Expired || gone.DeletedID == "" || gone.DeletedKey.String() != `["p"]` || gone.Current != nil {
			t.Errorf("the purge shows %+v", gone)
		}
	})
}

func TestVersionsAreKeptForTheirRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openPebble(t, Options{})
		c := newContainer(t, db, storetype.ContainerProperties{Retention: time.Minute})
		src := db.Source(c)
		upsert(t, c, "a", "p", 1)
		upsert(t, c, "a", "p", 2)
		versions := feed.Request{Mode: feed.AllVersionsAndDeletes, From: feed.After(`"0"`)}
		if got := ids(t, readPage(t, c, versions).Changes); got != "create a:1, replace a:2" {
			t.Errorf("%s", got)
		}
		time.Sleep(40 * time.Second)
		upsert(t, c, "a", "p", 3)
		time.Sleep(30 * time.Second)
		_, err := src.Read(t.Context(), versions)
		var lost *feed.HistoryLostError
		if !errors.As(err, &lost) || lost.Oldest != `"2"` {
			t.Fatalf("past the retention: %v, %+v", err, lost)
		}
		if got := ids(t, readPage(t, c, feed.Request{Mode: feed.AllVersionsAndDeletes, From: feed.After(lost.Oldest)}).Changes); got != "replace a:3" {
			t.Errorf("from the oldest: %s", got)
		}
		time.Sleep(time.Hour)
		versions.From = feed.After(`"3"`)
		if p := readPage(t, c, versions); len(p.Changes) > 0 {
			t.Errorf("the end of the feed is lost: %s", ids(t, p.Changes))
		}
		for kind, from := range map[string]feed.Start{"beginning": feed.Beginning(), "time": feed.At(time.Now())} {
			if _, err := src.Read(t.Context(), feed.Request{Mode: feed.AllVersionsAndDeletes, From: from}); !errors.Is(err, feed.ErrUnsupported) {
				t.Errorf("all versions from the %s: %v", kind, err)
			}
		}
		if _, err := db.ReplaceContainer(t.Context(), "db", storetype.ContainerProperties{ID: "c"}); err != nil {
			t.Fatal(err)
		}
		if _, err := src.Read(t.Context(), versions); !errors.Is(err, feed.ErrUnsupported) {
			t.Errorf("all versions of a container without retention: %v", err)
		}
		upsert(t, c, "a", "p", 4)
		if _, err := db.ReplaceContainer(t.Context(), "db", storetype.ContainerProperties{ID: "c", Retention: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if _, err := src.Read(t.Context(), versions); !errors.As(err, &lost) || lost.Oldest != `"4"` {
			t.Errorf("a position from before versions were kept: %v", err)
		}
	})
}

func TestThroughputIsThrottledAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContainer(t, openPebble(t, Options{EnforceThroughput: true}), storetype.ContainerProperties{Throughput: 10})
		var throttled *feed.ThrottledError
		writes := 0
		for !errors.As(func() error {
			_, err := c.Upsert(t.Context(), nil, body("a", "p", 1), storetype.WriteOptions{})
			return err
		}(), &throttled) {
			if writes++; writes > 10 {
				t.Fatal("never throttled")
			}
		}
		if writes != 2 || throttled.RetryAfter <= 0 || throttled.RetryAfter > time.Second {
			t.Errorf("throttled after %d writes of 5 RU, for %s", writes, throttled.RetryAfter)
		}
		if _, err := c.db.Source(c).Read(t.Context(), feed.Request{}); !errors.As(err, &throttled) {
			t.Errorf("a read is not throttled: %v", err)
		}
		time.Sleep(throttled.RetryAfter)
		if _, err := c.Upsert(t.Context(), nil, body("a", "p", 2), storetype.WriteOptions{}); err != nil {
			t.Errorf("after the time to wait: %v", err)
		}
	})
}

// After a restart, the store's clock must not go back with the wall clock. It sets _ts.
func TestClockNeverGoesBackOverARestart(t *testing.T) {
	fs := vfs.NewMem()
	var last time.Time
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		db, err := Open("data", Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
			t.Fatal(err)
		}
		last = upsert(t, newContainer(t, db, storetype.ContainerProperties{}), "a", "p", 1).Modified
		closeChecked(t, db)
	})
	synctest.Test(t, func(t *testing.T) { // every bubble starts at the same time, so this one is an hour earlier
		db, err := Open("data", Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		defer closeChecked(t, db)
		if !time.Now().Before(last) {
			t.Fatal("the wall clock was not set back")
		}
		c, err := db.Container(t.Context(), "db", "c")
		if err != nil {
			t.Fatal(err)
		}
		if now := upsert(t, c, "b", "p", 1).Modified; now.Before(last) {
			t.Errorf("_ts went back from %s to %s", last, now)
		}
		time.Sleep(time.Minute)
		if db.Now().Sub(last) < time.Minute {
			t.Errorf("the clock stopped at %s", db.Now())
		}
	})
}

// A group of writes that is larger than a memtable must be stored like any other one.
func TestWritesLargerThanTheMemtable(t *testing.T) {
	fs := vfs.NewMem()
	db, err := Open("data", Options{FS: fs, Memory: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
		t.Fatal(err)
	}
	c := newContainer(t, db, storetype.ContainerProperties{Retention: time.Hour})
	text := strings.Repeat("x", 700<<10) // one write may use at most half of a memtable, which has 1 MiB
	done := make(chan error)
	for i := range 4 {
		go func() {
			var err error
			for range 2 {
				_, e := c.Upsert(context.Background(), nil, fmt.Appendf(nil, `{"id":"%d","pk":"p","s":"%s"}`, i, text), storetype.WriteOptions{})
				err = errors.Join(err, e)
			}
			done <- err
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	closeChecked(t, db)
	if db, err = Open("data", Options{FS: fs, Memory: 1}); err != nil {
		t.Fatal(err)
	}
	defer closeChecked(t, db)
	if c, err = db.Container(t.Context(), "db", "c"); err != nil {
		t.Fatal(err)
	}
	if p := readPage(t, c, feed.Request{From: feed.Beginning()}); len(p.Changes) != 4 || p.End != 8 {
		t.Errorf("%d changes, end %d", len(p.Changes), p.End)
	}
}

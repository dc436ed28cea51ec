package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

// visitAll visits the items of all pages of a request, and returns the charge.
func visitAll(t *testing.T, c *Container, r ItemsRequest, visit func(*VisitedItem)) (charge float64) {
	t.Helper()
	for pages := 0; pages == 0 || r.Continuation != ""; pages++ {
		page, err := c.VisitItems(t.Context(), r, func(v *VisitedItem) (bool, error) {
			visit(v)
			return true, nil
		})
		if err != nil || pages > 10_000 {
			t.Fatalf("page %d: %v", pages, err)
		}
		charge += page.Charge
		r.Continuation = page.Continuation
	}
	return charge
}

func TestPageOfItemsEndsAtItsTimeAndResumes(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{Partitions: 2})
	const items = 3 * clockEvery
	for n := range items {
		upsert(t, c, fmt.Sprintf("%03d", n), fmt.Sprint(n), n)
	}
	// MaxTime is one nanosecond, so each page ends when the clock is read for the first
	// time.
	r := ItemsRequest{ItemsRequest: storetype.ItemsRequest{MaxTime: 1, MaxItems: 1000, IDPrefix: "00"}}
	found, pages := 0, 0
	for ; pages == 0 || r.Continuation != ""; pages++ {
		page, err := c.Items(t.Context(), r)
		if err != nil || pages > items {
			t.Fatalf("page %d: %v", pages, err)
		}
		if r.Continuation != "" && page.Continuation == r.Continuation {
			t.Fatalf("page %d ends where it began, at %q", pages, page.Continuation)
		}
		found += len(page.Items)
		r.Continuation = page.Continuation
	}
	if found != 10 || pages < 3 {
		t.Errorf("%d items on %d pages, want 10 on 3 or more", found, pages)
	}
}

func TestIDPrefixReadsOnlyDocumentsOfIt(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{Partitions: 3})
	large := strings.Repeat("x", 100_000)
	for n := range 20 {
		doc := fmt.Appendf(nil, `{"id":"doc%d","pk":"p%d","n":%d,"t":%q}`, n, n%2, n, large)
		if _, err := c.Upsert(t.Context(), nil, doc, storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 6 {
		upsert(t, c, fmt.Sprintf("lease.%d", n), fmt.Sprintf("p%d", n%2), n)
	}
	for _, k := range []struct {
		key    feed.PartitionKey
		prefix string
		want   int
	}{
		{nil, "lease.", 6},
		{feed.PartitionKey{"p1"}, "lease.", 3},
		{feed.PartitionKey{"p1"}, "lease.3", 1},
		{feed.PartitionKey{"p1"}, "lease.2", 0},
		{nil, "leasex", 0},
		{feed.PartitionKey{"p1"}, "\xf4\x8f\xbf\xbf", 0}, // a prefix that sorts after all ids
	} {
		found, served := 0, 3
		if k.key != nil {
			served = 1
		}
		for r, more := (ItemsRequest{ItemsRequest: storetype.ItemsRequest{Key: k.key, IDPrefix: k.prefix}}), true; more; more = r.Continuation != "" {
			page, err := c.Items(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if page.Charge > readCharge(len(page.Items)*1000) {
				t.Errorf("%v %q costs %v RU: documents without the prefix were read", k.key, k.prefix, page.Charge)
			}
			if len(page.Served) != served {
				t.Errorf("%v %q is served by %v, want %d partitions", k.key, k.prefix, page.Served, served)
			}
			found += len(page.Items)
			r.Continuation = page.Continuation
		}
		if found != k.want {
			t.Errorf("%v %q: %d items, want %d", k.key, k.prefix, found, k.want)
		}
	}
}

func TestVisitEndsWithTheErrorOfTheCaller(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{})
	upsert(t, c, "a", "p", 1)
	upsert(t, c, "b", "p", 2)
	enough := errors.New("enough")
	n := 0
	_, err := c.VisitItems(t.Context(), ItemsRequest{}, func(*VisitedItem) (bool, error) {
		n++
		return true, enough
	})
	if err != enough || n != 1 { //nolint:errorlint // must not be wrapped
		t.Errorf("%v after %d items", err, n)
	}
	// If the visitor panics, VisitItems must release its view. Otherwise the Close at the
	// end of the test would wait forever.
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic of a visit is swallowed")
			}
		}()
		_, _ = c.VisitItems(t.Context(), ItemsRequest{}, func(*VisitedItem) (bool, error) { panic("visit") })
	}()
	var gone *feed.GoneError
	if _, err := c.VisitItems(t.Context(), ItemsRequest{ItemsRequest: storetype.ItemsRequest{Partition: "7"}}, nil); !errors.As(err, &gone) {
		t.Errorf("a missing partition: %v", err)
	}
	if _, err := c.Items(t.Context(), ItemsRequest{ItemsRequest: storetype.ItemsRequest{Continuation: "?"}}); !errors.As(err, new(*storetype.BadRequestError)) {
		t.Errorf("an invalid continuation: %v", err)
	}
}

// BenchmarkItems measures one document of 1 KB in three reads of a container: a visit,
// pages of 100 items, and pages with an IDPrefix that no item has.
func BenchmarkItems(b *testing.B) {
	db, c := benchmarkItems(b, 4)
	scan := func(b *testing.B, r ItemsRequest, read func(ItemsRequest) (int, string)) {
		b.ReportAllocs()
		for n := 0; n < b.N; {
			count, next := read(r)
			if n += count; next == "" && count == 0 {
				n += benchmarkDocuments
			}
			r.Continuation = next
		}
	}
	b.Run("visit", func(b *testing.B) {
		scan(b, ItemsRequest{ItemsRequest: storetype.ItemsRequest{MaxItems: 1000}}, func(r ItemsRequest) (n int, next string) {
			page, err := c.VisitItems(b.Context(), r, func(*VisitedItem) (bool, error) {
				n++
				return true, nil
			})
			if err != nil {
				b.Fatal(err)
			}
			return n, page.Continuation
		})
	})
	for _, prefix := range []string{"", "none"} {
		b.Run("pages,prefix="+prefix, func(b *testing.B) {
			scan(b, ItemsRequest{ItemsRequest: storetype.ItemsRequest{IDPrefix: prefix}}, func(r ItemsRequest) (int, string) {
				page, err := c.Items(b.Context(), r)
				if err != nil {
					b.Fatal(err)
				}
				return len(page.Items), page.Continuation
			})
		})
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}

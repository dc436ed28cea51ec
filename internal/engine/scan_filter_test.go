package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/storetype"
)

// overwritten returns a container of up to n documents, half of which were written more
// than once. So their order in the log differs from that in the index. Each has a random
// size below large bytes. If large is high, only few documents fit in the memory of a
// scan.
func overwritten(t *testing.T, n, large int) *Container {
	t.Helper()
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{Partitions: 3})
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a repeatable test
	for k := range n * 3 / 2 {
		id := r.IntN(n)
		doc := fmt.Appendf(nil, `{"id":"%04d","pk":"p%d","n":%d,"x":%q}`, id, id%9, k, strings.Repeat("x", r.IntN(large)))
		if _, err := c.Upsert(t.Context(), nil, doc, storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// filterOf returns a filter that calls judge for each document. Several goroutines may
// call judge at the same time.
func filterOf(judge func(body []byte) (bool, error)) *ItemFilter {
	return &ItemFilter{New: func() func([]byte) (bool, error) { return judge }}
}

// VisitItems with a filter must visit the matching documents in the same order as
// VisitItems without one. Wherever the visit stops, the charge and the continuation must
// be the same, too.
func TestFilteredVisitsEqualUnfilteredOnes(t *testing.T) {
	small, big := overwritten(t, 1500, 40), overwritten(t, 120, 200_000)
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 9)) //nolint:gosec // a repeatable test
		c := small
		if seed%4 == 0 {
			c = big
		}
		one := byte('0' + r.IntN(10))
		few := r.IntN(2) == 0
		wanted := func(body []byte) bool {
			digit := body[bytes.Index(body, []byte(`,"x"`))-1]
			return few == (digit == one)
		}
		request := ItemsRequest{ItemsRequest: storetype.ItemsRequest{MaxTime: time.Hour, MaxItems: []int{0, 0, 1, 50, 1000}[r.IntN(5)], MaxBytes: []int{0, 0, 1, 100_000}[r.IntN(4)]}}
		if r.IntN(3) == 0 {
			request.IDPrefix = "00"
		}
		type page struct {
			bodies           []string
			next             []string
			after            string
			charge           float64
			documents, bytes int
		}
		read := func(q ItemsRequest, stop int) (p page) {
			got, err := c.VisitItems(t.Context(), q, func(v *VisitedItem) (bool, error) {
				if !wanted(v.Body) {
					if q.Filter != nil {
						t.Errorf("%.40s is visited in spite of the filter", v.Body)
					}
					return true, nil
				}
				if !strings.Contains(string(v.Body), fmt.Sprintf(`"id":%q`, v.ID)) || !bytes.Equal(v.Item().Body, v.Body) {
					t.Errorf("%s is visited as %.100s", v.ID, v.Body)
				}
				p.bodies, p.next = append(p.bodies, string(v.Body)), append(p.next, v.Continuation())
				return len(p.bodies) != stop, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			p.after, p.charge, p.documents, p.bytes = got.Continuation, got.Charge, got.Documents, got.Bytes
			return p
		}
		for pages := 0; ; pages++ {
			stop := 1 + r.IntN(300)
			want := read(request, stop)
			filtered := request
			filtered.Filter = filterOf(func(body []byte) (bool, error) { return wanted(body), nil })
			filtered.Filter.AsStored, filtered.Filter.Enough = r.IntN(2) == 0, []int{0, 1, 100, 10_000}[r.IntN(4)]
			got := read(filtered, stop)
			if !slices.Equal(got.bodies, want.bodies) || !slices.Equal(got.next, want.next) || got.after != want.after {
				t.Fatalf("seed %d, page %d: %d documents up to %q, want %d up to %q", seed, pages, len(got.bodies), got.after, len(want.bodies), want.after)
			}
			if got.charge != want.charge || got.documents != want.documents || got.bytes != want.bytes {
				t.Fatalf("seed %d, page %d: %v RU for %d documents of %d bytes, want %v for %d of %d", seed, pages, got.charge, got.documents, got.bytes, want.charge, want.documents, want.bytes)
			}
			if request.Continuation = want.after; want.after == "" || pages > 10 {
				break
			}
		}
	}
}

// VisitItems with AnyOrder must visit the same documents, page by page, as an ordinary
// visit.
func TestVisitsInAnyOrderMissNothing(t *testing.T) {
	c := overwritten(t, 1500, 40)
	for _, request := range []ItemsRequest{{}, {ItemsRequest: storetype.ItemsRequest{MaxBytes: 50_000}}, {Sets: []ItemSet{{From: "0500", To: "0600"}}}} {
		var got, want []string
		for _, to := range []*[]string{&want, &got} {
			q := request
			q.AnyOrder = to == &got
			visitAll(t, c, q, func(v *VisitedItem) { *to = append(*to, string(v.Body)) })
			slices.Sort(*to)
		}
		if !slices.Equal(got, want) || len(want) < 50 {
			t.Errorf("%+v: %d documents, want %d", request, len(got), len(want))
		}
	}
	n := 0
	page, err := c.VisitItems(t.Context(), ItemsRequest{AnyOrder: true}, func(*VisitedItem) (bool, error) {
		n++
		return n < 3, nil
	})
	if err != nil || n != 3 || page.Continuation != "" {
		t.Errorf("ended after %d documents, at %q: %v", n, page.Continuation, err)
	}
}

func TestErrorsOfFiltersAndVisitsEndAScan(t *testing.T) {
	c := overwritten(t, 100, 40)
	enough := errors.New("enough")
	for name, q := range map[string]ItemsRequest{
		"filter": {Filter: filterOf(func([]byte) (bool, error) { return false, enough })},
		"visit":  {AnyOrder: true},
		"both":   {Filter: filterOf(func([]byte) (bool, error) { return true, nil })},
	} {
		_, err := c.VisitItems(t.Context(), q, func(*VisitedItem) (bool, error) { return true, enough })
		if err != enough { //nolint:errorlint // must not be wrapped
			t.Errorf("%s: %v", name, err)
		}
	}
}

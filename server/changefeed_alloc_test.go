package server

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/race"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// The server copies the stored bytes of a page to the answer. If it decoded, encoded or
// copied each document, it would allocate memory for each. So a page of 1,000 documents
// must make no more allocations than a page of 10.
func TestAPageCostsNoAllocationForADocument(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders", Retention: time.Hour})
	beginning := ts.read(headers{"If-None-Match": "*"}, headers{wire.HeaderAIM: wire.AIMFullFidelity}).header.Get("Etag")
	const documents = 1000
	for i := range documents {
		put(t, c, `{"id":"%06d","pk":"k%d","nested":{"a":[1,2,{"b":null}]},"text":"%s"}`, i, i%50, strings.Repeat("x", 800))
	}
	for name, h := range map[string]headers{
		"latest version":                 latest(),
		"latest version with its frame":  latest(headers{wire.HeaderWireFormat: wireFormat}),
		"all versions and deletes":       {wire.HeaderAIM: wire.AIMFullFidelity, wire.HeaderWireFormat: wireFormat, "If-None-Match": beginning},
		"latest version, of a partition": latest(inRange("0")),
	} {
		measure := func(n int) (allocations float64, bytes uint64) {
			r := ts.request("GET", orders+"/docs", h.with(wire.HeaderMaxItemCount, fmt.Sprint(n)), "")
			serve := func() {
				w := &discard{header: http.Header{}}
				ts.ServeHTTP(w, r)
				if w.status != http.StatusOK || w.header.Get(wire.HeaderItemCount) != fmt.Sprint(n) {
					t.Fatalf("%s: %d, %s documents of %d", name, w.status, w.header.Get(wire.HeaderItemCount), n)
				}
			}
			const runs = 20
			allocations = testing.AllocsPerRun(runs, serve)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range runs {
				serve()
			}
			runtime.ReadMemStats(&after)
			return allocations, (after.TotalAlloc - before.TotalAlloc) / runs
		}
		few, _ := measure(10)
		many, bytes := measure(documents)
		t.Logf("%s: %.0f allocations for 10 documents, %.0f for %d, of %d bytes together", name, few, many, documents, bytes)
		if race.Enabled {
			continue // the race detector empties pools at random, which makes allocations
		}
		if many > few+20 {
			t.Errorf("%s: a page of %d documents takes %.0f allocations, one of 10 takes %.0f", name, documents, many, few)
		}
		if bytes > 400_000 {
			t.Errorf("%s: a page of 1 MB takes %d bytes: it is copied", name, bytes)
		}
	}
}

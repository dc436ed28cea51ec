package balance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// healer is a host that lists the leases and keeps its memory from one listing to the
// next. marker is the time of the store's marker.
type healer struct {
	host   Host
	memory Memory
	marker time.Time
}

// look returns the host's plan for a listing of the given leases, a number of seconds
// after noon.
func (h *healer) look(seconds float64, leases ...lease.Lease) *Plan {
	at := time.Duration(seconds * float64(time.Second))
	h.host.Owner, h.host.Terms = me, times
	p := NewPlan(h.host, lease.Listing{Leases: leases, Initialized: h.marker, Now: noon.Add(at)}, h.memory, at, true, nil)
	h.memory = p.Memory()
	return p
}

var halves = []feed.Partition{partition("1", "", "55", "0"), partition("2", "55", "FF", "0")}

func half(n int) lease.Lease {
	l := lease.ForPartition(halves[n-1])
	l.ID = "id" + l.Token
	return l
}

func wantMissing(t *testing.T, what string, p *Plan, partitions []feed.Partition, want string) {
	t.Helper()
	if got := describe(p.Missing(partitions)); got != want || p.Due() != (want != "") {
		t.Errorf("%s: missing %q, due %t; want %q", what, got, p.Due(), want)
	}
}

func TestMissingAtBootstrapIsDueAtOnce(t *testing.T) {
	h := healer{}
	p := h.look(0)
	wantMissing(t, "nothing there", p, halves, "partition 1, partition 2")
	if p.Complete() {
		t.Error("there is no lease, and the marker is due")
	}
	p = h.look(1, half(2))
	wantMissing(t, "half there for the first time", p, halves, "")
	if !p.Unsure() {
		t.Error("a first listing shows a part of the leases, and is not repeated")
	}
	p = h.look(1.5, half(2))
	wantMissing(t, "half there", p, halves, "partition 1")
	wantMissing(t, "the partitions have merged meanwhile", p, []feed.Partition{partition("3", "", "FF")}, "-55")
	p = h.look(2, half(1), half(2))
	wantMissing(t, "all there", p, halves, "")
	if !p.Complete() {
		t.Error("all leases exist, and the marker is not due")
	}
	h.marker = noon
	if h.look(3, half(1), half(2)).Complete() {
		t.Error("the marker exists, and is due again")
	}
}

// A host may not replace a missing lease at once, because the owner of the deleted lease
// may still use it and put it back. It must wait until that owner's trust has ended.
func TestMissingRow14HealingWaitsForTheExpiration(t *testing.T) {
	h := healer{marker: noon.Add(-time.Hour)}
	h.look(0, half(1), half(2))
	for s := 10.0; s < 81; s += 10 { // the second listing with the gap is at 20 s
		wantMissing(t, fmt.Sprint(s), h.look(s, half(1)), halves, "")
	}
	wantMissing(t, "81", h.look(81, half(1)), halves, "partition 2")
}

// A gap may count only if two listings in short succession show it. A split may tear one
// listing. If a host has not listed for long, leases may have come and gone since.
func TestMissingRow15AGapCountsOnlyOverCloseListings(t *testing.T) {
	h := healer{marker: noon.Add(-time.Hour)}
	h.look(0, half(1))
	h.look(20, half(1))
	wantMissing(t, "after a pause", h.look(100, half(1)), halves, "")
	for s := 120.0; s < 181; s += 20 {
		wantMissing(t, fmt.Sprint(s), h.look(s, half(1)), halves, "")
	}
	wantMissing(t, "181", h.look(181, half(1)), halves, "partition 2")

	h = healer{marker: noon.Add(-time.Hour)}
	for s := 0.0; s < 200; s += 10 {
		there := []lease.Lease{half(1)}
		if int(s)%50 == 0 {
			there = append(there, half(2)) // it is put back repeatedly
		}
		wantMissing(t, fmt.Sprint(s), h.look(s, there...), halves, "")
	}
}

func TestMissingRow15ListingsFromBeforeTheMarkerDoNotCount(t *testing.T) {
	h := healer{}
	h.look(0)
	h.look(10)
	h.marker = noon.Add(15 * time.Second)
	for s := 20.0; s < 90; s += 10 { // the gap counts as first seen at 20 s
		wantMissing(t, fmt.Sprint(s), h.look(s), halves, "")
	}
	wantMissing(t, "91", h.look(91), halves, "partition 1, partition 2")
}

// A long delay between two listings must reset the gaps, by whichever clock shows it. A
// suspend stops the monotonic clock, and the wall clock may be set by hand.
func TestMissingDelayByEitherClockResetsGaps(t *testing.T) {
	h := healer{marker: noon.Add(-time.Hour), host: Host{Owner: me, Terms: times}}
	look := func(mono, now float64) *Plan {
		l := lease.Listing{Leases: []lease.Lease{half(1)}, Initialized: h.marker, Now: noon.Add(time.Duration(now * float64(time.Second)))}
		p := NewPlan(h.host, l, h.memory, time.Duration(mono*float64(time.Second)), true, nil)
		h.memory = p.Memory()
		return p
	}
	look(0, 0)
	look(10, 10)
	wantMissing(t, "the host slept", look(20, 1000), halves, "")
	look(30, 1010)
	wantMissing(t, "the listing took long", look(300, 1020), halves, "")
	for s := 10.0; s <= 60; s += 10 { // the second listing from here is at 1030 s
		wantMissing(t, "after that", look(300+s, 1020+s), halves, "")
	}
	wantMissing(t, "at last", look(371, 1091), halves, "partition 2")
}

func TestMissingOnlyThePartThatLastedLongEnough(t *testing.T) {
	h := healer{marker: noon.Add(-time.Hour)}
	quarter := lease.ForRange(feed.Range{Min: "55", Max: "AA"})
	quarter.ID = "idq"
	for s := 0.0; s <= 40; s += 10 {
		h.look(s, half(1), quarter)
	}
	for s := 50.0; s < 71; s += 10 {
		wantMissing(t, fmt.Sprint(s), h.look(s, half(1)), halves, "")
	}
	wantMissing(t, "71", h.look(71, half(1)), halves, "AA-FF")
	wantMissing(t, "all of it", h.look(100, half(1)), halves, "AA-FF")
	wantMissing(t, "both parts, in two pieces as they were seen", h.look(121, half(1)), halves, "55-AA, AA-FF")
}

// A lease that replaces a lost one must start at the time of the marker. If it started at
// the present "now", the changes since the marker would be lost.
func TestMissingRow16HealingStartsAtTheTimeOfTheMarker(t *testing.T) {
	marker := time.Date(2026, 11, 21, 11, 30, 30, 0, time.UTC)
	atMarker := feed.At(marker.Add(-time.Second))
	time1 := feed.At(noon.Add(-24 * time.Hour))
	for _, c := range []struct {
		start feed.Start
		mode  feed.Mode
		boot  feed.Start // the start of a lease created at bootstrap
		heal  feed.Start
	}{
		{feed.Now(), feed.LatestVersion, feed.Now(), atMarker},
		{feed.Beginning(), feed.LatestVersion, feed.Beginning(), feed.Beginning()},
		{time1, feed.LatestVersion, time1, time1},
		{feed.After(`"5"`), feed.LatestVersion, feed.After(`"5"`), feed.After(`"5"`)},
		{feed.Now(), feed.AllVersionsAndDeletes, feed.Now(), feed.Now()},
	} {
		h := healer{host: Host{Start: c.start, Mode: c.mode}}
		check := func(what string, p *Plan, want feed.Start) {
			t.Helper()
			missing := p.Missing(halves)
			if len(missing) != 2 {
				t.Fatalf("%s from %s: %d missing", what, c.start, len(missing))
			}
			for _, l := range missing {
				if got := l.Start(feed.Now()); got != want || l.Mode != c.mode || l.Owner != "" || l.Wanted() != "" {
					t.Errorf("%s from %s, %s: %+v starts at %s; want %s", what, c.start, c.mode, l, got, want)
				}
			}
		}
		check("bootstrap", h.look(0), c.boot)
		h.marker = marker
		for s := 10.0; s < 90; s += 10 {
			h.look(s)
		}
		check("healing", h.look(91), c.heal)
	}
}

func TestMissingOnlyOfTheConfiguredRange(t *testing.T) {
	h := healer{host: Host{Range: feed.Range{Min: "22", Max: "AA"}}}
	wantMissing(t, "nothing there", h.look(0), halves, "22-55, 55-AA")
	h.look(0, half(2))
	wantMissing(t, "within one partition", h.look(0, half(2)), halves, "22-55")
	h.host.Range = feed.Range{Min: "55", Max: "FF"}
	wantMissing(t, "a whole partition", h.look(0), halves, "partition 2")
	if !h.look(1, half(2)).Complete() {
		t.Error("the range is covered, and the marker is not due")
	}
}

func TestMissingALeaseOfUnknownRangeCoversEverything(t *testing.T) {
	h := healer{}
	old := lease.Lease{ID: "id9", Token: "9", PartitionID: "9"}
	p := h.look(0, old)
	wantMissing(t, "only an old lease", p, halves, "")
	if p.Shadowed("id9") {
		t.Error("it is shadowed")
	}
	if h.look(0, old, half(1)).Shadowed("id1") {
		t.Error("it shadows others")
	}
}

// TestCoverageOfRandomListings checks compute on random listings. Its result must follow
// the definitions of an ancestor, of a gap and of an overlap. It must also equal the result
// of a coverage that was kept from another listing.
func TestCoverageOfRandomListings(t *testing.T) {
	borders := []string{"", "11", "22", "33", "44", "55", "66", "FF"}
	gaps, shadows, overlaps := 0, 0, 0
	memory := Memory{}
	for seed := range uint64(5000) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		var leases []lease.Lease
		for i := range rnd.IntN(8) {
			a, b := rnd.IntN(len(borders)), rnd.IntN(len(borders))
			if a == b {
				continue
			}
			r := feed.Range{Min: borders[min(a, b)], Max: borders[max(a, b)]}
			l := lease.ForRange(r)
			if rnd.IntN(2) == 0 {
				l = lease.ForPartition(feed.Partition{ID: fmt.Sprint(i), Range: r})
			}
			l.ID = fmt.Sprint(i, l.Token)
			leases = append(leases, l)
		}
		host := Host{Owner: me, Terms: times}
		if rnd.IntN(4) == 0 {
			host.Range = feed.Range{Min: "11", Max: "55"}
		}
		listing := lease.Listing{Leases: leases, Now: noon}
		p := NewPlan(host, listing, memory, 0, true, nil)
		again := NewPlan(host, listing, p.Memory(), 0, true, nil)
		if again.coverage != p.coverage {
			t.Fatalf("seed %d: the coverage of the same listing is computed again", seed)
		}
		memory = p.Memory()
		for _, l := range leases {
			want := slices.ContainsFunc(leases, func(a lease.Lease) bool { return protocol.IsAncestor(a, l) })
			if p.Shadowed(l.ID) != want {
				t.Fatalf("seed %d: %s in %s: shadowed is %t", seed, l.Token, describe(leases), !want)
			}
			if want {
				shadows++
			}
			want = !want && slices.ContainsFunc(leases, func(a lease.Lease) bool {
				return a.Range.Min < l.Range.Min && l.Range.Min < a.Range.Max && a.Range.Max < l.Range.Max
			})
			got := !p.Shadowed(l.ID) && slices.ContainsFunc(p.Overlaps(), func(o Overlap) bool {
				return slices.ContainsFunc(leases, func(r lease.Lease) bool { return r.ID == o.Right && r.Range == l.Range })
			})
			if got != want {
				t.Fatalf("seed %d: %s in %s overlaps another: %t", seed, l.Token, describe(leases), got)
			}
			if want {
				overlaps++
			}
		}
		for i := range len(borders) - 1 {
			cell := feed.Range{Min: borders[i], Max: borders[i+1]}
			want := host.Range.OrFull().Contains(cell) && !slices.ContainsFunc(leases, func(l lease.Lease) bool { return l.Range.Contains(cell) })
			got := slices.ContainsFunc(p.gaps, func(g gap) bool { return g.Contains(cell) })
			if got != want {
				t.Fatalf("seed %d: %s is a gap in %s: %t", seed, cell, describe(leases), got)
			}
			if want {
				gaps++
			}
		}
	}
	if gaps < 1000 || shadows < 1000 || overlaps < 1000 {
		t.Errorf("%d gaps, %d shadowed leases, %d leases that overlap another", gaps, shadows, overlaps)
	}
}

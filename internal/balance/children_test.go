package balance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

func partition(id, from, to string, parents ...string) feed.Partition {
	return feed.Partition{ID: id, Range: feed.Range{Min: from, Max: to}, Parents: parents}
}

// describe returns the leases as text: "partition 3" for a lease of a whole partition,
// and the token for a lease of a range.
func describe(leases []lease.Lease) string {
	var out []string
	for _, l := range leases {
		text := l.Token
		if l.PartitionID != "" {
			text = "partition " + text
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func TestChildrenOfAGoneLease(t *testing.T) {
	whole := func(id, from, to string) lease.Lease { return lease.ForPartition(partition(id, from, to)) }
	split := []feed.Partition{partition("1", "", "55", "0"), partition("2", "55", "FF", "0")}
	for _, c := range []struct {
		name       string
		gone       lease.Lease
		partitions []feed.Partition
		want       string
		same       bool
	}{
		{"split in two", whole("0", "", "FF"), split, "partition 1, partition 2", false},
		{"split twice", whole("0", "", "FF"), []feed.Partition{partition("3", "AA", "FF"), split[0], partition("4", "55", "AA")}, "partition 1, partition 4, partition 3", false},
		{"a part of the container", whole("1", "", "55"), []feed.Partition{partition("5", "", "22"), partition("6", "22", "55"), split[1]}, "partition 5, partition 6", false},
		{"merged", whole("1", "", "55"), []feed.Partition{partition("3", "", "FF", "1", "2")}, "-55", false},
		{"split and merged back", whole("0", "", "FF"), []feed.Partition{partition("3", "", "FF", "0", "1", "2")}, "-FF", false},
		// A PK-range lease over the merged partition would skip the undelivered changes
		// of the neighbour's lease.
		{"split, then merged with a neighbour", whole("1", "", "55"), []feed.Partition{partition("3", "", "22"), partition("4", "22", "AA"), partition("5", "AA", "FF")}, "partition 3, 22-55", false},
		{"both ends reach beyond", whole("1", "22", "55"), []feed.Partition{partition("3", "", "33"), partition("4", "33", "44"), partition("5", "44", "FF")}, "22-33, partition 4, 44-55", false},
		{"EPK over one", lease.ForRange(feed.Range{Min: "11", Max: "33"}), split, "11-33", true},
		{"EPK equal to one", lease.ForRange(feed.Range{Max: "55"}), split, "-55", true},
		{"EPK over two", lease.ForRange(feed.Range{Min: "AA", Max: "EE"}), []feed.Partition{partition("1", "", "BB"), partition("2", "BB", "DD"), partition("3", "DD", "FF")}, "AA-BB, BB-DD, DD-EE", false},
		{"the partition lives after all", whole("1", "", "55"), split, "partition 1", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			gone := protocol.Wanted(protocol.Acquired(with(protocol.At(c.gone, `"41"`), "colour", "blue"), me), other)
			gone.ID, gone.ETag, gone.Mode = "id", "7", feed.AllVersionsAndDeletes
			children, same, err := Children(lease.DotNet, gone, c.partitions)
			if err != nil || same != c.same || describe(children) != c.want {
				t.Fatalf("got %s, same %t, %v; want %s, %t", describe(children), same, err, c.want, c.same)
			}
			if same {
				if !reflect.DeepEqual(children[0], gone) {
					t.Errorf("the lease itself is returned as %+v", children[0])
				}
				return
			}
			for _, p := range children {
				if p.Owner != "" || p.Wanted() != "" || p.Continuation != `"41"` || p.Mode != gone.Mode || p.Properties["colour"] != "blue" || p.ETag != "" {
					t.Errorf("child %s is %+v", p.Token, p)
				}
			}
		})
	}
}

func TestChildrenInheritTheStartOfALeaseWithoutPosition(t *testing.T) {
	gone := protocol.StartingAt(lease.ForPartition(partition("0", "", "FF")), feed.At(noon))
	children, _, err := Children(lease.DotNet, gone, []feed.Partition{partition("1", "", "55"), partition("2", "55", "FF")})
	if err != nil || len(children) != 2 || children[0].Start(feed.Now()) != feed.At(noon) || children[1].Start(feed.Now()) != feed.At(noon) {
		t.Errorf("%+v, %v", children, err)
	}
}

func TestChildrenRefusePartitionsThatDoNotCoverTheLease(t *testing.T) {
	gone := lease.ForPartition(partition("0", "11", "EE"))
	for name, partitions := range map[string][]feed.Partition{
		"none":      nil,
		"elsewhere": {partition("1", "", "11"), partition("2", "EE", "FF")},
		"no start":  {partition("1", "22", "FF")},
		"no end":    {partition("1", "", "DD")},
		"a hole":    {partition("1", "", "55"), partition("2", "66", "FF")},
		"overlap":   {partition("1", "", "66"), partition("2", "55", "FF")},
	} {
		if children, _, err := Children(lease.DotNet, gone, partitions); err == nil {
			t.Errorf("%s: %s", name, describe(children))
		}
	}
	if _, _, err := Children(lease.DotNet, lease.Lease{Token: "0", PartitionID: "0"}, []feed.Partition{partition("1", "", "FF")}); err == nil {
		t.Error("a lease without a range has children")
	}
}

// TestChildrenTileTheLeaseThroughRandomSplitsAndMerges replaces leases by their children
// through random splits and merges. The children must always cover the range of the
// replaced lease exactly, without overlaps.
func TestChildrenTileTheLeaseThroughRandomSplitsAndMerges(t *testing.T) {
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		history := newTopology()
		leases := []lease.Lease{lease.ForPartition(history.live[0])}
		for range 12 {
			for range 1 + rnd.IntN(5) {
				history.change(rnd)
			}
			var next []lease.Lease
			for _, l := range leases {
				if rnd.IntN(3) == 0 {
					next = append(next, l) // this lease is replaced in a later round
					continue
				}
				children, _, err := Children(lease.DotNet, l, history.live)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				slices.SortFunc(children, func(a, b lease.Lease) int { return strings.Compare(a.Range.Min, b.Range.Min) })
				at := l.Range.Min
				for _, p := range children {
					if p.Range.Min != at || p.Range.IsEmpty() {
						t.Fatalf("seed %d: %s turned into %s", seed, l.Token, describe(children))
					}
					at = p.Range.Max
					if p.PartitionID == "" && p.Token != p.Range.String() {
						t.Fatalf("seed %d: the lease of %s is called %s", seed, p.Range, p.Token)
					}
				}
				if at != l.Range.Max {
					t.Fatalf("seed %d: %s turned into %s", seed, l.Token, describe(children))
				}
				next = append(next, children...)
			}
			leases = next
		}
	}
}

// topology is the list of a container's partitions, which splits and merges change.
type topology struct {
	live []feed.Partition // the live partitions, in the order of their ranges
	next int
}

func newTopology() *topology {
	return &topology{live: []feed.Partition{partition("0", "", "FF")}, next: 1}
}

func (h *topology) id() string {
	h.next++
	return fmt.Sprint(h.next - 1)
}

// border returns a random border inside r.
func border(rnd *rand.Rand, r feed.Range) (string, bool) {
	for range 20 {
		if b := fmt.Sprintf("%04X", rnd.IntN(0xFF00)); r.Min < b && b < r.Max {
			return b, true
		}
	}
	return "", false
}

func (h *topology) change(rnd *rand.Rand) {
	i := rnd.IntN(len(h.live))
	p := h.live[i]
	if rnd.IntN(2) == 0 && i+1 < len(h.live) {
		h.merge(i)
		return
	}
	if b, ok := border(rnd, p.Range); ok {
		h.split(i, b)
	}
}

func (h *topology) split(i int, at string) {
	p := h.live[i]
	parents := append(slices.Clone(p.Parents), p.ID)
	left, right := partition(h.id(), p.Range.Min, at, parents...), partition(h.id(), at, p.Range.Max, parents...)
	h.live = slices.Replace(h.live, i, i+1, left, right)
}

func (h *topology) merge(i int) {
	a, b := h.live[i], h.live[i+1]
	parents := append(append(slices.Clone(a.Parents), b.Parents...), a.ID, b.ID)
	slices.Sort(parents)
	h.live = slices.Replace(h.live, i, i+2, partition(h.id(), a.Range.Min, b.Range.Max, slices.Compact(parents)...))
}

// WithRanges must give a lease without a range the range that its partition had, also
// after splits. If a merge makes that range unknown, the lease must stay without one.
func TestRangesOfOldLeasesAreNeverWrong(t *testing.T) {
	found, unknown := 0, 0
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		h := newTopology()
		was := map[string]feed.Range{}
		for range 1 + rnd.IntN(8) {
			for _, p := range h.live {
				was[p.ID] = p.Range
			}
			h.change(rnd)
		}
		var l lease.Listing
		for id := range was {
			l.Leases = append(l.Leases, lease.Lease{Token: id, PartitionID: id})
		}
		if !protocol.Rangeless(l) {
			t.Fatal("leases without ranges are not recognised")
		}
		for _, x := range protocol.WithRanges(l, h.live).Leases {
			switch {
			case x.Range.IsZero():
				unknown++
			case x.Range != was[x.Token]:
				t.Fatalf("seed %d: partition %s had range %s, the lease gets %s; live are %+v", seed, x.Token, was[x.Token], x.Range, h.live)
			default:
				found++
			}
		}
		if !protocol.Rangeless(l) {
			t.Fatal("WithRanges has changed the listing it was given")
		}
	}
	if found < 1000 || unknown < 100 {
		t.Errorf("%d ranges found, %d left unknown", found, unknown)
	}
}

func TestRangesOfOldLeasesOfSplitPartitions(t *testing.T) {
	l := lease.Listing{Leases: []lease.Lease{{Token: "0", PartitionID: "0"}, {Token: "2", PartitionID: "2"}, {Token: "9", PartitionID: "9"}, lease.ForRange(feed.Range{Min: "A", Max: "B"})}}
	got := protocol.WithRanges(l, []feed.Partition{partition("1", "", "55", "0"), partition("3", "55", "AA", "0", "2"), partition("4", "AA", "FF", "0", "2")}).Leases
	if got[0].Range != feed.Full() || got[1].Range != (feed.Range{Min: "55", Max: "FF"}) || !got[2].Range.IsZero() || got[3].Token != "A-B" {
		t.Errorf("%+v", got)
	}
}

// In JavaHandleChanges, Children must return leases of whole partitions after a split,
// also over several generations. After a merge it must return an error.
func TestChildrenInHandleChangesAreWholePartitions(t *testing.T) {
	known := lease.Lease{Token: "0", PartitionID: "0", Range: feed.Range{Max: "80"}, Continuation: `"7"`}
	unknown := known
	unknown.Range = feed.Range{}
	split := []feed.Partition{partition("3", "", "20", "0", "1"), partition("4", "20", "40", "0", "1"), partition("2", "40", "80", "0"), partition("9", "80", "FF")}
	ranged := protocol.WithRanges(lease.Listing{Leases: []lease.Lease{unknown}}, split).Leases[0]
	for _, gone := range []lease.Lease{known, ranged} {
		children, same, err := Children(lease.JavaHandleChanges, gone, split)
		if err != nil || same || len(children) != 3 {
			t.Fatalf("%+v, %v", children, err)
		}
		for i, id := range []string{"3", "4", "2"} {
			if children[i].Token != id || children[i].PartitionID != id || children[i].Continuation != `"7"` || children[i].Range.IsZero() {
				t.Errorf("child %+v; want partition %s", children[i], id)
			}
		}
	}
	for name, partitions := range map[string][]feed.Partition{
		"with its neighbour":             {partition("5", "", "FF", "0", "9")},
		"split, then with its neighbour": {partition("1", "", "40", "0"), partition("5", "40", "FF", "0", "2", "9")},
		"split and back":                 {partition("5", "", "80", "0", "1", "2"), partition("9", "80", "FF")},
	} {
		for _, gone := range []lease.Lease{known, protocol.WithRanges((lease.Listing{Leases: []lease.Lease{unknown}}), partitions).Leases[0]} {
			children, same, err := Children(lease.JavaHandleChanges, gone, partitions)
			if _, ok := errors.AsType[*lease.DialectError](err); !ok || same || len(children) != 0 {
				t.Errorf("merged %s (range %s): %+v, %v; want a *lease.DialectError", name, gone.Range, children, err)
			}
		}
	}
	if _, same, err := Children(lease.JavaHandleChanges, known, []feed.Partition{partition("0", "", "80"), partition("9", "80", "FF")}); !same || err != nil {
		t.Errorf("the partition exists: %v, %v", same, err)
	}
}

func TestRangesAreRememberedWhereDocumentsHaveNone(t *testing.T) {
	split := []feed.Partition{partition("1", "", "40", "0"), partition("2", "40", "FF", "0")}
	bare := lease.Listing{Leases: []lease.Lease{{ID: "a", Token: "0", PartitionID: "0"}}, Now: time.Unix(9, 0)}
	plan := NewPlan(Host{Owner: "me/00000000", Dialect: lease.JavaHandleChanges}, protocol.WithRanges(bare, split), Memory{}, 0, true, nil)
	again := plan.Memory().WithRanges(bare)
	if protocol.Rangeless(again) || again.Leases[0].Range != feed.Full() || !protocol.Rangeless(bare) {
		t.Errorf("the next listing is %+v, and was %+v", again, bare)
	}
	other := lease.Listing{Leases: []lease.Lease{{ID: "b", Token: "2", PartitionID: "2"}}}
	if got := plan.Memory().WithRanges(other); !protocol.Rangeless(got) {
		t.Errorf("a lease that was not seen has the range %s", got.Leases[0].Range)
	}
}

package leases

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

var (
	identity = feed.Identity{AccountHost: "shop.test", Database: "db", DatabaseRID: "O7RwAA==", Container: "c", ContainerRID: "O7RwAKylJbY="}
	now      = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	terms    = protocol.Terms{Expiration: time.Minute, Acquire: 17 * time.Second}
	borders  = []string{"", "20", "40", "60", "80", "A0", "C0", "FF"}
)

// surveyOf returns a survey as if the given leases had been read from a container. All
// leases were written long ago.
func surveyOf(t *testing.T, d lease.Dialect, partitions []feed.Partition, leases ...lease.Lease) Survey {
	t.Helper()
	codec, err := lease.NewCodec(d, lease.Key{Processor: "p", Identity: identity}, false)
	if err != nil {
		t.Fatal(err)
	}
	s := Survey{Codec: codec, Processor: "p", Host: identity.AccountHost, Partitions: partitions, Now: now, Terms: terms, Marker: &Document{ID: codec.MarkerID(), Modified: now.Add(-time.Hour)}}
	for _, l := range leases {
		if l.ID == "" {
			l.ID = codec.LeaseID(l.Token)
		}
		s.Items = append(s.Items, read(t, s, l))
	}
	return s
}

// read returns l as a host would read it from its document.
func read(t *testing.T, s Survey, l lease.Lease) Item {
	t.Helper()
	body := s.Codec.Encode(l)
	doc, err := parseDocument(body, false)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := s.Codec.Decode(body)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if decoded.Range.IsZero() {
		decoded.Range = l.Range // withRanges does the same
	}
	doc.Modified = now.Add(-time.Hour)
	decoded.Modified = doc.Modified
	return Item{Document: doc, Lease: decoded}
}

// carriedOut returns the survey after all steps of a plan were applied, as Apply does.
func carriedOut(t *testing.T, s Survey, plan []Step) Survey {
	t.Helper()
	items := slices.Clone(s.Items)
	at := func(d *Document) int {
		i := slices.IndexFunc(items, func(i Item) bool { return i.Document.ID == d.ID })
		if i < 0 {
			t.Fatalf("a step changes %s, which does not exist", d.ID)
		}
		return i
	}
	for _, step := range plan {
		switch step.Op {
		case Create:
			if slices.ContainsFunc(items, func(i Item) bool { return i.Document.ID == s.Codec.LeaseID(step.After.Token) }) {
				t.Fatalf("%s: it is there", step.Text)
			}
			items = append(items, read(t, s, step.After))
		case Replace:
			items[at(step.Before)] = read(t, s, step.After)
		case Delete:
			i := at(step.Before)
			items = slices.Delete(items, i, i+1)
		case Mark:
			s.Marker = &Document{ID: s.Codec.MarkerID(), Modified: now}
		case Unlock:
			s.Lock = nil
		case Unmark:
			t.Fatal("a repair deletes the marker")
		}
		if s.Items = items; step.Op == Delete && !covers(s, before(s, step)) {
			t.Fatalf("%s: no lease has its keys", step.Text)
		}
	}
	s.Items = items
	return s
}

// before returns the range of the lease that a step deletes. It is zero if the range is
// unknown.
func before(s Survey, step Step) feed.Range {
	l, err := s.Codec.Decode(step.Before.Body)
	if err != nil {
		return feed.Range{}
	}
	return l.Range
}

func covers(s Survey, r feed.Range) bool {
	return r.IsZero() || len(gaps(s.Items, r)) == 0
}

// world returns a random survey. Some partitions came from splits and merges, and the
// leases may have any damage.
func world(t *testing.T, r *rand.Rand, d lease.Dialect) Survey {
	t.Helper()
	var partitions []feed.Partition
	for i := 0; i+1 < len(borders); {
		next := i + 1 + r.IntN(2)
		if next >= len(borders) {
			next = len(borders) - 1
		}
		p := feed.Partition{ID: fmt.Sprint(10 + i), Range: feed.Range{Min: borders[i], Max: borders[next]}}
		if r.IntN(2) == 0 {
			p.Parents = []string{"1"}
		}
		partitions = append(partitions, p)
		i = next
	}
	var all []lease.Lease
	prefix := surveyOf(t, d, nil).Codec.LeasePrefix()
	add := func(l lease.Lease) {
		l.Continuation = feed.Continuation(fmt.Sprintf(`"%d"`, 1+r.IntN(50)))
		if r.IntN(8) == 0 {
			l.Mode = feed.AllVersionsAndDeletes
		}
		if r.IntN(10) == 0 {
			l.Continuation = ""
			l = protocol.StartingAt(l, feed.Beginning())
		}
		if r.IntN(6) == 0 {
			l.ID = fmt.Sprintf("%s%s-copy%d", prefix, l.Token, len(all))
		}
		all = append(all, l)
	}
	for _, p := range partitions {
		if r.IntN(5) > 0 {
			add(lease.Lease{Token: p.ID, PartitionID: p.ID, Range: p.Range})
		}
	}
	for range r.IntN(4) {
		a, b := r.IntN(len(borders)), r.IntN(len(borders))
		if a > b {
			a, b = b, a
		}
		if a < b {
			k := feed.Range{Min: borders[a], Max: borders[b]}
			add(lease.Lease{Token: k.String(), Range: k})
		}
	}
	for range r.IntN(3) { // leases of partitions that no longer exist: parents, and unknown ones
		a := r.IntN(len(borders) - 1)
		id := []string{"1", "99", "98"}[r.IntN(3)]
		add(lease.Lease{Token: id, PartitionID: id, Range: feed.Range{Min: borders[a], Max: borders[a+1+r.IntN(len(borders)-a-1)]}})
	}
	if d == lease.JavaHandleChanges { // only leases of whole partitions, and a range only if it is a partition's range
		all = slices.DeleteFunc(all, func(l lease.Lease) bool { return l.PartitionID == "" || l.PartitionID == "1" })
		for i := range all {
			if all[i].Mode = feed.LatestVersion; all[i].PartitionID[0] == '9' {
				all[i].Range = feed.Range{}
			}
		}
	}
	if d == lease.JavaLatestVersion {
		for i := range all {
			all[i].Token, all[i].PartitionID, all[i].ID = all[i].Range.String(), "", ""
		}
		slices.SortFunc(all, func(a, b lease.Lease) int { return len(a.Token) - len(b.Token) })
	}
	seen := map[string]bool{}
	all = slices.DeleteFunc(all, func(l lease.Lease) bool {
		id := l.ID + "|" + l.Token
		defer func() { seen[id] = true }()
		return seen[id] || l.ID == "" && seen["|"+l.Token]
	})
	s := surveyOf(t, d, partitions, all...)
	if r.IntN(4) == 0 {
		s.Marker = nil
	}
	return s
}

// position converts a lease's position to a number that can be compared: 0 for the
// beginning, and LSNs above.
func position(t *testing.T, l lease.Lease) int64 {
	t.Helper()
	if l.Continuation == "" {
		if l.Start(feed.Now()).Kind() != feed.StartBeginning {
			t.Fatalf("lease %s is at %s", l.Token, Position(l))
		}
		return 0
	}
	lsn, ok := lsnOf(l.Continuation)
	if !ok {
		t.Fatalf("lease %s is at %s", l.Token, Position(l))
	}
	return lsn
}

// For random combinations of damage, the plan must repair all repairable damage. After
// it, exactly one lease must cover each key. The key's position must not be later than
// the oldest one among the leases that covered it before.
func TestARepairMendsAnyDamageAndMovesNoPositionForward(t *testing.T) {
	for _, d := range []lease.Dialect{lease.DotNet, lease.JavaHandleChanges, lease.JavaLatestVersion} {
		kinds := map[Kind]int{}
		for seed := range uint64(300) {
			r := rand.New(rand.NewPCG(seed, uint64(d)))
			s := world(t, r, d)
			latest := feed.LatestVersion
			options := Options{Start: feed.Beginning(), Mode: &latest}
			report := Find(s, options)
			for _, f := range report.Findings {
				kinds[f.Kind]++
				if f.Remedy != "" {
					t.Fatalf("%s, seed %d: not repaired: %s: %s: %s", d, seed, f.Kind, f.Text, f.Remedy)
				}
			}
			after := carriedOut(t, s, report.Plan)
			if again := Find(after, options); len(again.Findings)+len(again.Plan) > 0 {
				t.Fatalf("%s, seed %d: after the repair there is still %+v; the plan was %+v", d, seed, again.Findings, texts(report.Plan))
			}
			for i := range borders[1:] {
				cell := feed.Range{Min: borders[i], Max: borders[i+1]}
				oldest, had := int64(1<<62), false
				for _, l := range s.Items {
					if l.Range.Contains(cell) {
						oldest, had = min(oldest, position(t, l.Lease)), true
					}
				}
				holders := 0
				for _, l := range after.Items {
					if !l.Range.Contains(cell) {
						continue
					}
					if holders++; had && position(t, l.Lease) > oldest {
						t.Fatalf("%s, seed %d: %s was at %d and is at %d; the plan was %v", d, seed, cell, oldest, position(t, l.Lease), texts(report.Plan))
					}
				}
				if holders != 1 {
					t.Fatalf("%s, seed %d: %s has %d leases; the plan was %v", d, seed, cell, holders, texts(report.Plan))
				}
			}
		}
		want := []Kind{Hole, MissingMarker}
		if d != lease.JavaHandleChanges {
			want = append(want, Overlap, BesideParent, WrongMode)
		}
		if d != lease.JavaLatestVersion {
			want = append(want, Duplicate, Orphan)
		}
		for _, k := range want {
			if kinds[k] < 5 {
				t.Errorf("%s: of 300 worlds %d have: %s", d, kinds[k], k)
			}
		}
	}
}

// Programs read the JSON of `leases check`, so its form must not change.
func TestAReportForProgramsKeepsItsForm(t *testing.T) {
	s := surveyOf(t, lease.DotNet, []feed.Partition{{ID: "0", Range: feed.Full()}}, lease.Lease{Token: "-80", Range: feed.Range{Max: "80"}, Continuation: `"5"`})
	s.Lock = &Document{ID: s.Codec.LockID(), Modified: now, TTL: 30 * time.Second}
	right := surveyOf(t, lease.DotNet, nil, lease.Lease{Token: "-FF", Range: feed.Full(), Continuation: `"5"`})
	broken := right
	broken.Unreadable = []lease.Unreadable{{ID: "<x>", Token: "<x>", Err: errors.New("torn")}}
	for _, c := range []struct {
		s    Survey
		want string
	}{
		{right, `{
  "ok": true,
  "findings": []
}
`},
		{s, `{
  "ok": false,
  "findings": [
    {
      "kind": "hole",
      "ranges": [
        {
          "min": "80",
          "max": "FF"
        }
      ],
      "text": "no lease covers 80-FF: no host reads its changes",
      "repairable": true
    }
  ],
  "notes": [
    "a host has held the lock of the first start for 0s"
  ],
  "plan": [
    "create lease 80-FF for 80-FF at beginning: the hole had no position"
  ]
}
`},
		{broken, `{
  "ok": false,
  "findings": [
    {
      "kind": "unreadable",
      "leases": [
        "<x>"
      ],
      "text": "the document <x> cannot be read: torn",
      "repairable": false,
      "remedy": "repair it by hand, or delete it with ~changefeed leases delete~; until then no hole is filled, because its keys are unknown"
    }
  ]
}
`},
	} {
		var b strings.Builder
		if err := WriteJSON(&b, Find(c.s, Options{Start: feed.Beginning()})); err != nil || b.String() != strings.ReplaceAll(c.want, "~", "`") {
			t.Errorf("%v: %s\nwant %s", err, b.String(), c.want)
		}
	}
}

func texts(plan []Step) []string {
	var all []string
	for _, s := range plan {
		all = append(all, s.Text)
	}
	return all
}

// Programs once had to read the keys from the text.
func TestAFindingHasItsRanges(t *testing.T) {
	rng := func(lower, upper string) feed.Range { return feed.Range{Min: lower, Max: upper} }
	whole := []feed.Partition{{ID: "0", Range: feed.Full()}}
	s := surveyOf(t, lease.DotNet, whole,
		lease.Lease{Token: "-60", Range: rng("", "60"), Continuation: `"5"`},
		lease.Lease{Token: "40-80", Range: rng("40", "80"), Continuation: `"5"`},
		lease.Lease{Token: "80-FF", Range: rng("80", "FF"), PartitionID: "7", Continuation: `"5"`},
	)
	got := map[Kind][]Keys{}
	for _, f := range Find(s, Options{Start: feed.Beginning()}).Findings {
		got[f.Kind] = append(got[f.Kind], f.Ranges...)
	}
	for kind, want := range map[Kind]Keys{Overlap: {"40", "60"}, Orphan: {"80", "FF"}} {
		if !slices.Equal(got[kind], []Keys{want}) {
			t.Errorf("%s: %v, want %v", kind, got[kind], want)
		}
	}
}

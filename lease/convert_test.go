package lease

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

var convertKey = Key{Processor: "p", Identity: feed.Identity{
	AccountHost: "Host.example.com", Database: "shop", DatabaseRID: "AAAA==", Container: "orders", ContainerRID: "AAAAAAA=",
}}

func codecIn(t testing.TB, d Dialect, mode feed.Mode) Codec {
	t.Helper()
	k := convertKey
	k.Mode = mode
	c, err := NewCodec(d, k, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// reread is what a listing shows of leases that a codec has written.
func reread(t testing.TB, c Codec, leases ...Lease) Listing {
	t.Helper()
	l := Listing{Initialized: time.Unix(1, 0)}
	for _, lease := range leases {
		c.List(&l, c.LeaseID(lease.Token), time.Unix(2, 0), c.Encode(lease))
	}
	if len(l.Leases) != len(leases) {
		t.Fatalf("%s: %d leases are read as %+v", c.Dialect(), len(leases), l)
	}
	return l
}

var convertPartitions = []feed.Partition{
	partition("1", "", "40", "0"), partition("2", "40", "80", "0"), partition("3", "80", "FF"),
}

func TestConvertedLeasesKeepRangePositionAndStart(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := time.Date(2026, 11, 20, 8, 30, 0, 0, time.UTC)
	whole := func(id, from, to string, c feed.Continuation) Lease {
		return Lease{Token: id, PartitionID: id, Range: feed.Range{Min: from, Max: to}, Continuation: c, Owner: "gone", Properties: map[string]string{"wanted": "x", "mine": "1"}}
	}
	part := func(from, to string, c feed.Continuation) Lease {
		r := feed.Range{Min: from, Max: to}
		return Lease{Token: r.String(), Range: r, Continuation: c}
	}
	for _, c := range []struct {
		name     string
		from, to Dialect
		leases   []Lease
		want     []string // token, range, position
	}{
		{
			"whole partitions", DotNet, JavaLatestVersion,
			[]Lease{whole("3", "80", "FF", `"3"`), whole("1", "", "40", `"1"`), whole("2", "40", "80", "")},
			[]string{`-40 -40 "1"`, `40-80 40-80 `, `80-FF 80-FF "3"`},
		},
		{
			"whole partitions, of which one was split", DotNet, JavaHandleChanges,
			[]Lease{whole("0", "", "80", `"7"`), whole("3", "80", "FF", `"3"`)},
			[]string{`0 -80 "7"`, `3 80-FF "3"`},
		},
		{
			"a retired partition", JavaHandleChanges, DotNet,
			[]Lease{whole("0", "", "80", `"7"`), whole("3", "80", "FF", `"3"`)},
			[]string{`0 -80 "7"`, `3 80-FF "3"`},
		},
		{
			"a retired partition to a range", JavaHandleChanges, JavaLatestVersion,
			[]Lease{whole("0", "", "80", `"7"`), whole("3", "80", "FF", `"3"`)},
			[]string{`-80 -80 "7"`, `80-FF 80-FF "3"`},
		},
		{
			"ranges that are partitions and not", JavaLatestVersion, DotNet,
			[]Lease{part("", "40", `"1"`), part("40", "60", `"2"`), part("60", "FF", "")},
			[]string{`1 -40 "1"`, `40-60 40-60 "2"`, `60-FF 60-FF `},
		},
		{
			"ranges that are partitions", JavaLatestVersion, JavaHandleChanges,
			[]Lease{part("", "40", `"1"`), part("40", "80", `"2"`), part("80", "FF", "")},
			[]string{`1 -40 "1"`, `2 40-80 "2"`, `3 80-FF `},
		},
		{
			"ranges of a merge", DotNet, JavaLatestVersion,
			[]Lease{part("", "30", `"1"`), part("30", "FF", `"2"`)},
			[]string{`-30 -30 "1"`, `30-FF 30-FF "2"`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, to := codecIn(t, c.from, 0), codecIn(t, c.to, 0)
			for i := range c.leases {
				c.leases[i] = c.leases[i].with(PropertyStart, at.Format(time.RFC3339))
			}
			got, err := Convert(from, to, reread(t, from, c.leases...), convertPartitions, now)
			if err != nil || len(got.Steps) != len(c.want) {
				t.Fatalf("%+v, %v", got, err)
			}
			for i, s := range got.Steps {
				if text := s.To.Token + " " + s.To.Range.String() + " " + string(s.To.Continuation); text != c.want[i] {
					t.Errorf("lease %s becomes %s; want %s", s.From.Token, text, c.want[i])
				}
				if !s.To.Free() || s.To.Wanted() != "" || !s.To.Timestamp.Equal(now) || s.To.Properties["mine"] != s.From.Properties["mine"] {
					t.Errorf("lease %s becomes %+v", s.From.Token, s.To)
				}
				read, err := to.Decode(s.After)
				if err != nil {
					t.Fatal(err)
				}
				want := feed.At(at)
				if s.To.Continuation != "" {
					want = feed.After(s.To.Continuation)
					if c.to == JavaLatestVersion {
						want = feed.AfterSince(s.To.Continuation, at)
					}
				}
				if start := read.Start(feed.Beginning()); start != want {
					t.Errorf("lease %s starts at %s; want %s", s.From.Token, start, want)
				}
			}
		})
	}
}

func TestConversionRefusesTheImpossibleByNameAndAsAWhole(t *testing.T) {
	merged := []feed.Partition{partition("9", "", "FF", "0", "1", "2", "3")}
	range40 := feed.Range{Max: "40"}
	for _, c := range []struct {
		name       string
		from, to   Dialect
		mode       feed.Mode
		partitions []feed.Partition
		leases     []Lease
		want       string
	}{
		{"a part of a partition", DotNet, JavaHandleChanges, 0, nil, []Lease{{Token: "-30", Range: feed.Range{Max: "30"}}}, "lease -30 "},
		{"a range over two partitions", JavaLatestVersion, JavaHandleChanges, 0, nil, []Lease{{Token: "-80", Range: feed.Range{Max: "80"}}}, "lease -80 "},
		{"all versions and deletes", DotNet, JavaHandleChanges, feed.AllVersionsAndDeletes, nil, []Lease{{Token: "1", PartitionID: "1", Range: range40, Mode: feed.AllVersionsAndDeletes}}, "all versions"},
		{"a merged partition of unknown range", JavaHandleChanges, DotNet, 0, merged, []Lease{{Token: "1", PartitionID: "1"}}, "lease 1 "},
		{"the same to ranges", JavaHandleChanges, JavaLatestVersion, 0, merged, []Lease{{Token: "1", PartitionID: "1"}}, "no range"},
		{"a range and its partition", DotNet, JavaLatestVersion, 0, nil, []Lease{
			{Token: "1", PartitionID: "1", Range: range40, Continuation: `"9"`}, {Token: "-40", Range: range40, Continuation: `"5"`},
		}, "would become one"},
		{"positions in a container that was deleted", JavaHandleChanges, DotNet, 0, nil, []Lease{
			{Token: "1", PartitionID: "1", Range: range40, Properties: map[string]string{PropertyContainer: "deleted"}},
		}, "deleted"},
		{"nothing to convert", DotNet, DotNet, 0, nil, []Lease{{Token: "1", PartitionID: "1", Range: range40}}, "already"},
	} {
		mode := c.mode
		if c.to == JavaHandleChanges {
			mode = 0 // its codec is for no other; the leases' mode counts
		}
		from, to := codecIn(t, c.from, c.mode), codecIn(t, c.to, mode)
		if c.partitions == nil {
			c.partitions = convertPartitions
		}
		good := Lease{Token: "3", PartitionID: "3", Range: feed.Range{Min: "80", Max: "FF"}, Mode: c.mode}
		if c.from == JavaLatestVersion {
			good.Token, good.PartitionID = "80-FF", ""
		}
		got, err := Convert(from, to, reread(t, from, append(c.leases, good)...), c.partitions, time.Now())
		if err == nil || !strings.Contains(err.Error(), c.want) || len(got.Steps) != 0 {
			t.Errorf("%s: %+v, %v; want an error that says %q, and no step", c.name, got, err, c.want)
		}
		if _, ok := errors.AsType[*ImpossibleError](err); !ok && c.from != c.to {
			t.Errorf("%s: %v is no *ImpossibleError", c.name, err)
		}
	}
	from, to := codecIn(t, DotNet, 0), codecIn(t, JavaLatestVersion, 0)
	whole := reread(t, from, Lease{Token: "0", PartitionID: "0", Range: feed.Full()})
	broken := whole
	broken.Unreadable = []Unreadable{{ID: "x", Token: "17", Err: errTokenless}}
	if _, err := Convert(from, to, broken, nil, time.Now()); err == nil || !strings.Contains(err.Error(), "17") {
		t.Errorf("with a document that can't be read: %v", err)
	}
	unmarked := whole
	unmarked.Initialized = time.Time{}
	if _, err := Convert(from, to, unmarked, nil, time.Now()); err == nil || !strings.Contains(err.Error(), ".info") {
		t.Errorf("without a marker: %v", err)
	}
}

func TestConversionOfJavaLeasesIsJavasOwnUpgrade(t *testing.T) {
	upgraded := golden(t, "upgrade/upgraded")
	to := javaCodec(t, "upgrade", upgraded)
	to.key.Identity.Database = "shop12"
	from, err := NewCodec(JavaHandleChanges, to.key, false)
	if err != nil {
		t.Fatal(err)
	}
	java, err := to.Decode(upgraded)
	if err != nil {
		t.Fatal(err)
	}
	listing := reread(t, from, Lease{Token: "0", PartitionID: "0", Continuation: java.Continuation})
	got, err := Convert(from, to, listing, []feed.Partition{{ID: "0", Range: java.Range}}, java.Timestamp)
	if err != nil {
		t.Fatal(err)
	}
	unflagged := strings.NewReplacer(`"isMaxInclusive":false,"isMinInclusive":true,`, "") // a matter of taste
	members := func(doc []byte) any {
		all := membersOf(t, doc)
		state, err := json.Marshal(all["ContinuationToken"])
		if err != nil {
			t.Fatal(err)
		}
		all["ContinuationToken"] = unflagged.Replace(string(state))
		return all
	}
	if made, want := members(got.Steps[0].After), members(upgraded); !reflect.DeepEqual(made, want) {
		t.Errorf("made of a lease of handleChanges:\n%v; Java makes\n%v", made, want)
	}
}

func TestADifferenceShowsWhatAPositionSays(t *testing.T) {
	from, to := codecIn(t, DotNet, 0), codecIn(t, JavaLatestVersion, 0)
	got, err := Convert(from, to, reread(t, from, Lease{Token: "1", PartitionID: "1", Range: feed.Range{Max: "40"}, Continuation: `"17"`}),
		convertPartitions, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	text := Difference(got.Steps[0].Before, got.Steps[0].After)
	for _, want := range []string{`- LeaseToken: "1"`, `+ LeaseToken: "-40"`, `- version: 0`, `  Owner: null`, `+ ContinuationToken: {"V":1`, `"token":"\"17\""`} {
		if !strings.Contains(text, want) {
			t.Errorf("the difference lacks %s:\n%s", want, text)
		}
	}
}

func TestConversionTellsWhatIsLost(t *testing.T) {
	from, to := codecIn(t, JavaLatestVersion, 0), codecIn(t, DotNet, 0)
	at := Lease{Token: "-40", Range: feed.Range{Max: "40"}, Continuation: `"1"`}.with(PropertyStart, "2026-11-20T08:30:00Z")
	owned := Lease{Token: "40-80", Range: feed.Range{Min: "40", Max: "80"}, Owner: "java-a"}
	got, err := Convert(from, to, reread(t, from, at, owned), convertPartitions, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(got.Notes, "\n")
	for _, want := range []string{"started at a time", "1 leases have no position", "1 leases have an owner", "80-FF"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note says %q:\n%s", want, notes)
		}
	}
}

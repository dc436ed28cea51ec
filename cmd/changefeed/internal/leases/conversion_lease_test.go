package leases

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
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

// sourceOf returns a survey that contains the given leases in a dialect. No lease is
// live.
func sourceOf(t *testing.T, d lease.Dialect, partitions []feed.Partition, leases ...lease.Lease) Survey {
	t.Helper()
	s := surveyOf(t, d, partitions, leases...)
	s.Container = identity.ContainerRID
	for i := range s.Items {
		l, err := s.Codec.Decode(s.Items[i].Body)
		if err != nil {
			t.Fatal(err)
		}
		s.Items[i].Lease = l
	}
	s.withRanges()
	return s
}

func codecIn(t *testing.T, d lease.Dialect) lease.Codec { return surveyOf(t, d, nil).Codec }

var convertPartitions = []feed.Partition{
	partition("1", "", "40", "0"), partition("2", "40", "80", "0"), partition("3", "80", "FF"),
}

func TestConvertedLeasesKeepRangePositionAndStart(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 30, 0, 0, time.UTC)
	whole := func(id, from, to string, c feed.Continuation) lease.Lease {
		return lease.Lease{Token: id, PartitionID: id, Range: feed.Range{Min: from, Max: to}, Continuation: c, Owner: "gone", Properties: map[string]string{"wanted": "x", "mine": "1"}}
	}
	part := func(from, to string, c feed.Continuation) lease.Lease {
		r := feed.Range{Min: from, Max: to}
		return lease.Lease{Token: r.String(), Range: r, Continuation: c}
	}
	for _, c := range []struct {
		name     string
		from, to lease.Dialect
		leases   []lease.Lease
		want     []string // token, range and position of each new lease
	}{
		{
			"whole partitions", lease.DotNet, lease.JavaLatestVersion,
			[]lease.Lease{whole("3", "80", "FF", `"3"`), whole("1", "", "40", `"1"`), whole("2", "40", "80", "")},
			[]string{`-40 -40 "1"`, `40-80 40-80 `, `80-FF 80-FF "3"`},
		},
		{
			"whole partitions, of which one was split", lease.DotNet, lease.JavaHandleChanges,
			[]lease.Lease{whole("0", "", "80", `"7"`), whole("3", "80", "FF", `"3"`)},
			[]string{`0 -80 "7"`, `3 80-FF "3"`},
		},
		{
			"a retired partition", lease.JavaHandleChanges, lease.DotNet,
			[]lease.Lease{whole("0", "", "80", `"7"`), whole("3", "80", "FF", `"3"`)},
			[]string{`0 -80 "7"`, `3 80-FF "3"`},
		},
		{
			"a retired partition to a range", lease.JavaHandleChanges, lease.JavaLatestVersion,
			[]lease.Lease{whole("0", "", "80", `"7"`), whole("3", "80", "FF", `"3"`)},
			[]string{`-80 -80 "7"`, `80-FF 80-FF "3"`},
		},
		{
			"ranges that are partitions and not", lease.JavaLatestVersion, lease.DotNet,
			[]lease.Lease{part("", "40", `"1"`), part("40", "60", `"2"`), part("60", "FF", "")},
			[]string{`1 -40 "1"`, `40-60 40-60 "2"`, `60-FF 60-FF `},
		},
		{
			"ranges that are partitions", lease.JavaLatestVersion, lease.JavaHandleChanges,
			[]lease.Lease{part("", "40", `"1"`), part("40", "80", `"2"`), part("80", "FF", "")},
			[]string{`1 -40 "1"`, `2 40-80 "2"`, `3 80-FF `},
		},
		{
			"ranges of a merge", lease.DotNet, lease.JavaLatestVersion,
			[]lease.Lease{part("", "30", `"1"`), part("30", "FF", `"2"`)},
			[]string{`-30 -30 "1"`, `30-FF 30-FF "2"`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i := range c.leases {
				c.leases[i] = protocol.StartingAt(c.leases[i], feed.At(at))
			}
			to := codecIn(t, c.to)
			got, _, err := convertLeases(sourceOf(t, c.from, convertPartitions, c.leases...), to)
			if err != nil || len(got) != len(c.want) {
				t.Fatalf("%+v, %v", got, err)
			}
			for i, s := range got {
				if text := s.to.Token + " " + s.to.Range.String() + " " + string(s.to.Continuation); text != c.want[i] {
					t.Errorf("lease %s becomes %s; want %s", s.from.Token, text, c.want[i])
				}
				if s.to.Owner != "" || s.to.Wanted() != "" || !s.to.Timestamp.Equal(now) || s.to.Properties["mine"] != s.from.Properties["mine"] {
					t.Errorf("lease %s becomes %+v", s.from.Token, s.to)
				}
				read, err := to.Decode(s.after)
				if err != nil {
					t.Fatal(err)
				}
				want := feed.At(at)
				if s.to.Continuation != "" {
					want = feed.After(s.to.Continuation)
					if c.to == lease.JavaLatestVersion {
						want = feed.AfterSince(s.to.Continuation, at)
					}
				}
				if start := read.Start(feed.Beginning()); start != want {
					t.Errorf("lease %s starts at %s; want %s", s.from.Token, start, want)
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
		from, to   lease.Dialect
		mode       feed.Mode
		partitions []feed.Partition
		leases     []lease.Lease
		want       string
	}{
		{"a part of a partition", lease.DotNet, lease.JavaHandleChanges, 0, nil, []lease.Lease{{Token: "-30", Range: feed.Range{Max: "30"}}}, "lease -30 "},
		{"a range over two partitions", lease.JavaLatestVersion, lease.JavaHandleChanges, 0, nil, []lease.Lease{{Token: "-80", Range: feed.Range{Max: "80"}}}, "lease -80 "},
		{"all versions and deletes", lease.DotNet, lease.JavaHandleChanges, feed.AllVersionsAndDeletes, nil, []lease.Lease{{Token: "1", PartitionID: "1", Range: range40, Mode: feed.AllVersionsAndDeletes}}, "all versions"},
		{"a merged partition of unknown range", lease.JavaHandleChanges, lease.DotNet, 0, merged, []lease.Lease{{Token: "1", PartitionID: "1"}}, "lease 1:"},
		{"the same to ranges", lease.JavaHandleChanges, lease.JavaLatestVersion, 0, merged, []lease.Lease{{Token: "1", PartitionID: "1"}}, "no range"},
		{"a range and its partition", lease.DotNet, lease.JavaLatestVersion, 0, nil, []lease.Lease{
			{Token: "1", PartitionID: "1", Range: range40, Continuation: `"9"`}, {Token: "-40", Range: range40, Continuation: `"5"`},
		}, "would become one"},
		{"positions in a container that was deleted", lease.JavaHandleChanges, lease.DotNet, 0, nil, []lease.Lease{
			{Token: "1", PartitionID: "1", Range: range40, Properties: map[string]string{lease.PropertyContainer: "deleted"}},
		}, "deleted"},
	} {
		if c.partitions == nil {
			c.partitions = convertPartitions
		}
		good := lease.Lease{Token: "3", PartitionID: "3", Range: feed.Range{Min: "80", Max: "FF"}, Mode: c.mode}
		if c.from == lease.JavaLatestVersion {
			good.Token, good.PartitionID = "80-FF", ""
		}
		got, _, err := convertLeases(sourceOf(t, c.from, c.partitions, append(c.leases, good)...), codecIn(t, c.to))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "cannot convert lease") || len(got) != 0 {
			t.Errorf("%s: %+v, %v; want an error that says %q, and no lease", c.name, got, err, c.want)
		}
	}
	to := codecIn(t, lease.JavaLatestVersion)
	whole := sourceOf(t, lease.DotNet, nil, lease.ForPartition(partition("0", "", "FF")))
	broken := whole
	broken.Unreadable = []lease.Unreadable{{ID: "x", Token: "17", Err: errors.New("it has no LeaseToken")}}
	if _, _, err := convertLeases(broken, to); err == nil || !strings.Contains(err.Error(), "17") {
		t.Errorf("with a document that can't be read: %v", err)
	}
	unmarked := whole
	unmarked.Marker = nil
	if _, _, err := convertLeases(unmarked, to); err == nil || !strings.Contains(err.Error(), ".info") {
		t.Errorf("without a marker: %v", err)
	}
	if _, err := PlanConversion(whole, whole, false); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("into the same dialect: %v", err)
	}
}

func TestConversionOfJavaLeasesIsJavasOwnUpgrade(t *testing.T) {
	upgraded, err := os.ReadFile("../../../../lease/testdata/java/upgrade/upgraded.json")
	if err != nil {
		t.Fatal(err)
	}
	to, err := lease.NewCodec(lease.JavaLatestVersion, lease.Key{Processor: "projector", Start: feed.Beginning(), Identity: feed.Identity{
		AccountHost: "localhost", Database: "shop12", DatabaseRID: "AAAADA==", Container: "orders", ContainerRID: "AAAADIAAABg=",
	}}, false)
	if err != nil {
		t.Fatal(err)
	}
	java, err := to.Decode(upgraded)
	if err != nil {
		t.Fatal(err)
	}
	source := sourceOf(t, lease.JavaHandleChanges, []feed.Partition{{ID: "0", Range: java.Range}}, lease.Lease{Token: "0", PartitionID: "0", Continuation: java.Continuation})
	source.Now = java.Timestamp
	got, _, err := convertLeases(source, to)
	if err != nil {
		t.Fatal(err)
	}
	unflagged := strings.NewReplacer(`"isMaxInclusive":false,"isMinInclusive":true,`, "") // both spellings of a range are valid
	readable := func(doc []byte) map[string]any {
		var all map[string]any
		if err := json.Unmarshal(doc, &all); err != nil {
			t.Fatal(err)
		}
		for name := range all {
			if name[0] == '_' || name == "properties" {
				delete(all, name) // Java's leases have no properties, and the store adds system properties
			}
		}
		state, ok := decodeState(all["ContinuationToken"].(string))
		if !ok {
			t.Fatalf("%s has no state", doc)
		}
		var position any
		if err := json.Unmarshal(state, &position); err != nil {
			t.Fatal(err)
		}
		flagged, err := json.Marshal(position)
		if err != nil {
			t.Fatal(err)
		}
		all["ContinuationToken"] = unflagged.Replace(string(flagged))
		at, err := time.Parse(time.RFC3339Nano, all["timestamp"].(string))
		if err != nil {
			t.Fatal(err)
		}
		all["timestamp"] = at.Truncate(100 * time.Nanosecond) // .NET's precision, which all processors read
		return all
	}
	if made, want := readable(got[0].after), readable(upgraded); !reflect.DeepEqual(made, want) {
		t.Errorf("made of a lease of handleChanges:\n%v; Java makes\n%v", made, want)
	}
}

func TestADifferenceDecodesPositions(t *testing.T) {
	one := protocol.At(lease.ForPartition(partition("1", "", "40")), `"17"`)
	got, _, err := convertLeases(sourceOf(t, lease.DotNet, convertPartitions, one), codecIn(t, lease.JavaLatestVersion))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(difference(got[0].before, got[0].after), "\n")
	for _, want := range []string{`- LeaseToken: "1"`, `+ LeaseToken: "-40"`, `- version: 0`, `  Owner: null`, `+ ContinuationToken: {"V":1`, `"token":"\"17\""`} {
		if !strings.Contains(text, want) {
			t.Errorf("the difference lacks %s:\n%s", want, text)
		}
	}
}

func TestConversionReportsLostProperties(t *testing.T) {
	at := protocol.At(protocol.StartingAt(lease.ForRange(feed.Range{Max: "40"}), feed.At(time.Date(2026, 11, 20, 8, 30, 0, 0, time.UTC))), `"1"`)
	owned := protocol.Acquired(lease.ForRange(feed.Range{Min: "40", Max: "80"}), "java-a")
	source := sourceOf(t, lease.JavaLatestVersion, convertPartitions, at, owned)
	_, notes, err := convertLeases(source, codecIn(t, lease.DotNet))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(notes, "\n")
	for _, want := range []string{"started at a time", "1 lease has no position; it starts", "1 lease has an owner", "80-FF"} {
		if !strings.Contains(text, want) {
			t.Errorf("no note says %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "unknown") {
		t.Errorf("all members are known:\n%s", text)
	}
	strange, err := source.Codec.Decode([]byte(strings.Replace(string(source.Items[0].Body), "{", `{"colour":"blue",`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	source.Items[0].Lease = strange
	if _, notes, err = convertLeases(source, codecIn(t, lease.DotNet)); err != nil || !strings.Contains(strings.Join(notes, "\n"), "unknown") {
		t.Errorf("no note names the unknown member: %q, %v", notes, err)
	}
}

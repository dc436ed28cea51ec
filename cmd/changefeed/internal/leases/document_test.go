package leases

import (
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

func TestAnIdIdentifiesItsProcessor(t *testing.T) {
	for id, want := range map[string]name{
		"pshop.test_O7RwAA==_O7RwAKylJbY=..0":        {prefix: "pshop.test_O7RwAA==_O7RwAKylJbY=", processor: "p", host: "shop.test", rest: "..0"},
		"Shop.Test_O7RwAA==_O7RwAKylJbY=..-FF":       {prefix: "Shop.Test_O7RwAA==_O7RwAKylJbY=", host: "Shop.Test", rest: "..-FF"},
		"pshop.test_O7RwAA==_O7RwAKylJbY=.info":      {prefix: "pshop.test_O7RwAA==_O7RwAKylJbY=", processor: "p", host: "shop.test", rest: ".info"},
		"pshop.test_O7RwAA==_O7RwAKylJbY=.lock":      {prefix: "pshop.test_O7RwAA==_O7RwAKylJbY=", processor: "p", host: "shop.test", rest: ".lock"},
		"pshop.test_db_c..0":                         {prefix: "pshop.test_db_c", processor: "p", host: "shop.test", rest: "..0", byNames: true},
		"pother.test_db_c..0":                        {prefix: "pother.test_db_c", rest: "..0", byNames: true},
		"a_db_c..p_shop.test_O7RwAA==_O7RwAKylJbY=.": {prefix: "a_db_c", rest: "..p_shop.test_O7RwAA==_O7RwAKylJbY=.", byNames: true},
	} {
		if got, ok := parseName(id, identity); !ok || got != want {
			t.Errorf("%s: %+v, %v; want %+v", id, got, ok, want)
		}
	}
	for _, id := range []string{"", "order-1", "pshop.test_O7RwAA==_O7RwAKylJbY=", "pshop.test_O7RwAA==_O7RwAKylJbY=.information", "pshop.test_O7RwAA==_O7RwAKylJbZ=..0", "pshop.test_db_c2..0"} {
		if got, ok := parseName(id, identity); ok {
			t.Errorf("%s: %+v", id, got)
		}
	}
}

// From a lease document, with or without a position, the commands must find the dialect
// whose codec wrote it.
func TestADocumentDeterminesItsDialect(t *testing.T) {
	for _, d := range []lease.Dialect{lease.DotNet, lease.JavaHandleChanges, lease.JavaLatestVersion} {
		codec, err := lease.NewCodec(d, lease.Key{Processor: "p", Identity: identity}, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []feed.Continuation{"", `"12"`} {
			l := lease.Lease{Token: "20-40", Range: feed.Range{Min: "20", Max: "40"}, Continuation: c}
			if d == lease.JavaHandleChanges {
				l.Token, l.PartitionID = "0", "0"
			}
			body := codec.Encode(l)
			if got := dialectOf(t, codec.LeaseID(l.Token), string(body)); got != d {
				t.Errorf("%s is in %s, and not in %s", body, got, d)
			}
			if has := hasRange(body, d); has != (d != lease.JavaHandleChanges) {
				t.Errorf("%s: has a range: %v", body, has)
			}
		}
	}
	for body, want := range map[string]lease.Dialect{
		`{"id":"x","LeaseToken":"0","ContinuationToken":"\"5\""}`:                             lease.DotNet,
		`{"id":"x","LeaseToken":"0","PartitionId":"0"}`:                                       lease.DotNet,
		`{"id":"x","LeaseToken":"-FF","ContinuationToken":"eyJWIjoxfQ=="}`:                    lease.JavaLatestVersion,
		`{"id":"x","LeaseToken":"-FF","ContinuationToken":"eyJWIjoxfQ"}`:                      lease.JavaLatestVersion,
		`{"id":"x","LeaseToken":"-FF","feedRange":{"Range":{"min":"","max":"FF"}}}`:           lease.JavaLatestVersion,
		`{"id":"x","LeaseToken":"0","FeedRange":{"PKRangeId":"0"},"ContinuationToken":"abc"}`: lease.DotNet,
		`garbage`: lease.DotNet,
	} {
		if got := dialectOf(t, "pShop.test_O7RwAA==_O7RwAKylJbY=..-FF", body); got != want {
			t.Errorf("%s is in %s, and not in %s", body, got, want)
		}
	}
}

// dialectOf returns the dialect that the commands find for a processor with one lease
// document.
func dialectOf(t *testing.T, id, body string) lease.Dialect {
	t.Helper()
	groups := (&Container{Identity: identity}).groups([]Document{{ID: id, Body: []byte(body)}})
	if len(groups) != 1 {
		t.Fatalf("%d groups", len(groups))
	}
	return groups[0].dialect
}

func TestTheOlderOfTwoPositionsIsReturnedOrAnError(t *testing.T) {
	at := func(c feed.Continuation) lease.Lease { return lease.Lease{Token: "0", Continuation: c} }
	from := func(s string) lease.Lease {
		return lease.Lease{Token: "0", Properties: map[string]string{lease.PropertyStart: s}}
	}
	for _, c := range []struct {
		a, b lease.Lease
		want int
		ok   bool
	}{
		{at(`"9"`), at(`"10"`), -1, true},
		{at(`"10"`), at(`"9"`), 1, true},
		{at(`"10"`), at(`"10"`), 0, true},
		{at("opaque"), at("opaque"), 0, true},
		{from("beginning"), at(`"1"`), -1, true},
		{at("opaque"), from("beginning"), 1, true},
		{from("2026-11-21T09:30:00Z"), from("2026-11-22T09:30:00Z"), -1, true},
		{at(""), at(""), 0, true},
		{at("opaque"), at("other"), 0, false},
		{at(""), at(`"1"`), 0, false}, // the start in the hosts' configuration may be later than either
		{from("2026-11-21T09:30:00Z"), at(`"1"`), 0, false},
		{from("tomorrow"), at(`"1"`), 0, false},
	} {
		if got, err := older(c.a, c.b); got != c.want || (err == nil) != c.ok {
			t.Errorf("%s and %s: %d, %v; want %d", Position(c.a), Position(c.b), got, err, c.want)
		}
	}
}

// If the dialect of a document cannot be decided, its position cannot be compared. The
// plan must not change such a document, and the report must name it.
func TestFindLeavesPositionsAloneThatCantBeCompared(t *testing.T) {
	partitions := []feed.Partition{{ID: "1", Range: feed.Range{Min: "", Max: "80"}, Parents: []string{"0"}}, {ID: "2", Range: feed.Range{Min: "80", Max: "FF"}, Parents: []string{"0"}}}
	s := surveyOf(
		t, lease.DotNet, partitions,
		lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full(), Continuation: "opaque"},
		lease.Lease{Token: "1", PartitionID: "1", Range: partitions[0].Range, Continuation: `"5"`},
		lease.Lease{Token: "2", PartitionID: "2", Range: partitions[1].Range, Continuation: `"5"`},
	)
	report := Find(s, Options{Start: feed.Beginning()})
	if len(report.Findings) != 1 || report.Findings[0].Kind != BesideParent || report.Findings[0].Remedy == "" || len(report.Plan) != 0 {
		t.Errorf("%+v", report)
	}
}

// A reset moves a lease back. The old document may contain a start time before which
// changes are dropped. After the reset, changes before it must be delivered.
func TestResetRemovesTheBoundOfALease(t *testing.T) {
	for _, d := range []lease.Dialect{lease.DotNet, lease.JavaLatestVersion} {
		l := protocol.Bounded(lease.Lease{Token: "-FF", Range: feed.Full(), Continuation: `"5"`}, now)
		s := surveyOf(t, d, nil, l)
		if protocol.Bound(s.Items[0].Lease).IsZero() {
			t.Fatalf("%s: the document has no bound", d)
		}
		steps, err := ResetPlan(s, s.Items, feed.Beginning())
		if err != nil || len(steps) != 1 {
			t.Fatalf("%s: %d steps, %v", d, len(steps), err)
		}
		if after := steps[0].After; !protocol.Bound(after).IsZero() || after.Start(feed.Now()) != feed.Beginning() {
			t.Errorf("%s: after the reset the lease starts at %s with the bound %s", d, after.Start(feed.Now()), protocol.Bound(after))
		}
	}
}

package lease

import (
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

func TestTransitionsChangeOnlyTheirFields(t *testing.T) {
	base := Lease{
		ID: "id", Token: "3", PartitionID: "3", Range: feed.Full(), Owner: other, Continuation: `"5"`, Mode: feed.AllVersionsAndDeletes,
		Properties: map[string]string{PropertyWanted: third, "colour": "blue"}, Timestamp: noon, Modified: noon, ETag: "1",
		document: document{unknown: `"x":1`, partitionKey: "k", partitionID: true},
	}
	blue := map[string]string{"colour": "blue"}
	for _, c := range []struct {
		name   string
		got    Lease
		change func(l *Lease)
	}{
		{"acquired", base.Acquired(me), func(l *Lease) { l.Owner, l.Properties = me, blue }},
		{"asked", base.Asked(me), func(l *Lease) { l.Properties = map[string]string{PropertyWanted: me, "colour": "blue"} }},
		{"checkpointed", base.At(`"6"`), func(l *Lease) { l.Continuation = `"6"` }},
		{"renewed without a position", base.At(""), func(*Lease) {}},
		{"released", base.Released(`"6"`), func(l *Lease) { l.Owner, l.Continuation = "", `"6"` }},
		{"released without a position", base.Released(""), func(l *Lease) { l.Owner = "" }},
		{"put back", base.PutBack(), func(l *Lease) { l.Properties, l.ETag = blue, "" }},
	} {
		want := base
		c.change(&want)
		if !equal(c.got, want) || c.got.document != base.document {
			t.Errorf("%s: the lease is %+v; want %+v", c.name, c.got, want)
		}
	}
	if len(base.Properties) != 2 || base.Wanted() != third {
		t.Errorf("a transition changed the map of its lease: %v", base.Properties)
	}
	if only := (Lease{}).Asked(me).Acquired(other); only.Properties != nil {
		t.Errorf("without its only property the lease has %v", only.Properties)
	}
}

func TestBoundOfALeaseIsInheritedAndPutBack(t *testing.T) {
	at := time.Date(2026, 11, 21, 11, 30, 30, 500, time.FixedZone("", 3600))
	second := time.Date(2026, 11, 21, 10, 30, 30, 0, time.UTC)
	plain := ForPartition(partition("0", "", "FF")).with("colour", "blue")
	l := plain.Bounded(at)
	if got := l.Properties[PropertyBound]; got != "2026-11-21T10:30:30Z" || !l.Bound().Equal(second) {
		t.Errorf("the bound is stored as %q and parsed as %s", got, l.Bound())
	}
	if !plain.Bound().IsZero() || !equal(l.Bounded(time.Time{}), plain) {
		t.Error("the bound was set in the original lease, or cannot be removed")
	}
	if text := plain.with(PropertyBound, "soon"); !text.Bound().IsZero() {
		t.Errorf("a bound that is not a time is parsed as %s", text.Bound())
	}
	for what, kept := range map[string]Lease{
		"put back": l.PutBack(), "acquired": l.Asked(other).Acquired(me), "released": l.Released(`"5"`), "a child": l.Child(ForRange(feed.Range{Max: "55"})),
	} {
		if !kept.Bound().Equal(second) {
			t.Errorf("%s: the bound is %s", what, kept.Bound())
		}
	}
}

func TestStartOfALease(t *testing.T) {
	at := time.Date(2026, 11, 21, 11, 30, 30, 500, time.FixedZone("", 3600))
	for _, c := range []struct {
		name string
		l    Lease
		want feed.Start
	}{
		{"none stored", Lease{}, feed.After("configured")},
		{"beginning", Lease{}.StartingAt(feed.Beginning()), feed.Beginning()},
		{"a time", Lease{}.StartingAt(feed.At(at)), feed.At(at)},
		{"a continuation", Lease{}.StartingAt(feed.After(`"5"`)), feed.After(`"5"`)},
		{"a position goes before a start", Lease{}.StartingAt(feed.Beginning()).At(`"5"`), feed.After(`"5"`)},
		{"now is not stored", Lease{}.StartingAt(feed.Now()), feed.After("configured")},
		{"not understood", Lease{Properties: map[string]string{PropertyStart: "soon"}}, feed.After("configured")},
	} {
		if got := c.l.Start(feed.After("configured")); got != c.want {
			t.Errorf("%s: %s; want %s", c.name, got, c.want)
		}
	}
	if got := (Lease{}).StartingAt(feed.At(at)).Properties[PropertyStart]; got != "2026-11-21T10:30:30Z" {
		t.Errorf("the time is stored as %s", got)
	}
}

package protocol

import (
	"reflect"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// stored returns a lease as it is read from a document with a member that no field has.
func stored(t *testing.T) lease.Lease {
	t.Helper()
	c, err := lease.NewCodec(lease.DotNet, lease.Key{Processor: "p", Identity: feed.Identity{
		AccountHost: "host.example.com", DatabaseRID: "AAAA==", ContainerRID: "AAAAAAA=",
	}}, false)
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.Decode([]byte(`{"id":"id","_etag":"1","_ts":7,"LeaseToken":"3","ContinuationToken":"\"5\"","properties":{"wanted":"third/33333333","colour":"blue"},` +
		`"Owner":"other/22222222","timestamp":"2026-11-21T12:00:00Z","version":0,"x":1}`))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestTransitionsChangeOnlyTheirFields(t *testing.T) {
	const me, other, third = "me/11111111", "other/22222222", "third/33333333"
	base, blue := stored(t), map[string]string{"colour": "blue"}
	if base.Owner != other || base.Wanted() != third || base.Continuation != `"5"` || base.ETag == "" {
		t.Fatalf("the document is decoded as %+v", base)
	}
	for _, c := range []struct {
		name   string
		got    lease.Lease
		change func(l *lease.Lease)
	}{
		{"acquired", Acquired(base, me), func(l *lease.Lease) { l.Owner, l.Properties = me, blue }},
		{"wanted", Wanted(base, me), func(l *lease.Lease) {
			l.Properties = map[string]string{lease.PropertyWanted: me, "colour": "blue"}
		}},
		{"checkpointed", At(base, `"6"`), func(l *lease.Lease) { l.Continuation = `"6"` }},
		{"renewed without a position", At(base, ""), func(*lease.Lease) {}},
		{"released", Released(base, `"6"`), func(l *lease.Lease) { l.Owner, l.Continuation = "", `"6"` }},
		{"released without a position", Released(base, ""), func(l *lease.Lease) { l.Owner = "" }},
		{"put back", PutBack(base), func(l *lease.Lease) { l.Properties, l.ETag = blue, "" }},
	} {
		want := base
		c.change(&want)
		if !reflect.DeepEqual(c.got, want) { // the unknown members of the document are compared, too
			t.Errorf("%s: the lease is %+v; want %+v", c.name, c.got, want)
		}
	}
	if len(base.Properties) != 2 || base.Wanted() != third {
		t.Errorf("a transition changed the map of its lease: %v", base.Properties)
	}
	if only := Acquired(Wanted(lease.Lease{}, me), other); only.Properties != nil {
		t.Errorf("without its only property the lease has %v", only.Properties)
	}
}

func TestBoundOfALeaseIsInheritedAndPutBack(t *testing.T) {
	at := time.Date(2026, 11, 21, 11, 30, 30, 500, time.FixedZone("", 3600))
	second := time.Date(2026, 11, 21, 10, 30, 30, 0, time.UTC)
	plain := with(lease.ForPartition(feed.Partition{ID: "0", Range: feed.Full()}), "colour", "blue")
	l := Bounded(plain, at)
	if got := l.Properties[lease.PropertyBound]; got != "2026-11-21T10:30:30Z" || !Bound(l).Equal(second) {
		t.Errorf("the bound is stored as %q and parsed as %s", got, Bound(l))
	}
	if !Bound(plain).IsZero() || !reflect.DeepEqual(Bounded(l, time.Time{}), plain) {
		t.Error("the bound was set in the original lease, or cannot be removed")
	}
	if text := with(plain, lease.PropertyBound, "soon"); !Bound(text).IsZero() {
		t.Errorf("a bound that is not a time is parsed as %s", Bound(text))
	}
	for what, kept := range map[string]lease.Lease{
		"put back": PutBack(l), "acquired": Acquired(Wanted(l, "other/22222222"), "me/11111111"), "released": Released(l, `"5"`),
		"a child": l.Child(lease.ForRange(feed.Range{Max: "55"})),
	} {
		if !Bound(kept).Equal(second) {
			t.Errorf("%s: the bound is %s", what, Bound(kept))
		}
	}
}

func TestStartOfALease(t *testing.T) {
	at := time.Date(2026, 11, 21, 11, 30, 30, 500, time.FixedZone("", 3600))
	for _, c := range []struct {
		name string
		l    lease.Lease
		want feed.Start
	}{
		{"none stored", lease.Lease{}, feed.After("configured")},
		{"beginning", StartingAt(lease.Lease{}, feed.Beginning()), feed.Beginning()},
		{"a time", StartingAt(lease.Lease{}, feed.At(at)), feed.At(at)},
		{"a continuation", StartingAt(lease.Lease{}, feed.After(`"5"`)), feed.After(`"5"`)},
		{"a position goes before a start", At(StartingAt(lease.Lease{}, feed.Beginning()), `"5"`), feed.After(`"5"`)},
		{"now is not stored", StartingAt(lease.Lease{}, feed.Now()), feed.After("configured")},
		{"not understood", lease.Lease{Properties: map[string]string{lease.PropertyStart: "soon"}}, feed.After("configured")},
	} {
		if got := c.l.Start(feed.After("configured")); got != c.want {
			t.Errorf("%s: %s; want %s", c.name, got, c.want)
		}
	}
	if got := StartingAt(lease.Lease{}, feed.At(at)).Properties[lease.PropertyStart]; got != "2026-11-21T10:30:30Z" {
		t.Errorf("the time is stored as %s", got)
	}
}

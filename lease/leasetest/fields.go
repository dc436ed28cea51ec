package leasetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// fieldCases returns the cases that test the fields of a lease.
func fieldCases() []testCase {
	return []testCase{
		{name: "every field is returned as it was written", run: everyField},
		{name: "results and conflicts have the given range", run: givenRange},
		{name: "a lease of handleChanges names its container", run: namesContainer},
		{name: "unknown properties are kept", run: unknownProperties},
		{name: "unknown members are kept", needs: needs{documents: true}, run: unknownMembers},
		{name: "a lease without a form in the dialect is refused", run: refusesForms},
		{name: "leases of other dialects are reported", needs: needs{documents: true, remove: true}, run: otherDialects},
		{name: "a foreign owner's lease is listed and acquired", needs: needs{documents: true}, run: foreignOwner},
		{name: "thousands of leases are listed once each", run: longListing},
	}
}

func everyField(s *suite) {
	at := time.Date(2026, 11, 21, 11, 56, 46, 335876000, time.UTC)
	wide := strings.Repeat("3F", 16)
	texts := map[string]string{"start": "2026-11-21T11:56:46Z", "ünï <&> \"quoted\"\\\n": "päper \u2028 \U0001F511", "empty": ""}
	leases := map[string]lease.Lease{
		"free, no position": s.whole("17"),
		"EPK":               protocol.At(s.part(wide, "FF"), "opaque \\ <text>?>~\x7f\u2028\U0001F511"),
		"full EPK range":    s.part("", "FF"),
	}
	all := protocol.At(s.whole("3"), `"24"`)
	all.Owner, all.Properties, all.Timestamp = owner(1), texts, at
	leases["all set"] = all
	foreign := s.part("05C1", wide)
	foreign.Owner, foreign.Timestamp = "hôst \"a\"/b/0badcafe", at
	leases["foreign owner"] = foreign
	versions := protocol.At(s.whole("5"), `"5"`)
	versions.Mode = feed.AllVersionsAndDeletes
	switch s.dialect() {
	case lease.DotNet:
		leases["without range"] = lease.Lease{Token: "9", PartitionID: "9", Continuation: `"1"`}
		leases["all versions"] = versions
	case lease.JavaLatestVersion:
		leases["all versions"] = versions
	case lease.JavaHandleChanges:
	}
	for name, l := range leases {
		made := s.create(l)
		s.wantSame(name+", listed", s.find(l.Token), made)
		again := s.update(made)
		s.wantSame(name+", listed after an update", s.find(l.Token), again)
	}
}

// refusesForms checks that the store refuses a lease that its dialect cannot represent.
// It must not write a changed lease instead.
func refusesForms(s *suite) {
	whole := lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()}
	part := lease.Lease{Token: "05C1-FF", Range: feed.Range{Min: "05C1", Max: "FF"}}
	versions := whole
	versions.Mode = feed.AllVersionsAndDeletes
	refused := map[lease.Dialect][]lease.Lease{
		lease.JavaHandleChanges: {part, versions},
		lease.JavaLatestVersion: {whole},
	}
	for _, l := range refused[s.dialect()] {
		_, err := s.store.Create(s.ctx, l)
		var dialect *lease.DialectError
		if !errors.As(err, &dialect) || dialect.Remedy == "" {
			s.Errorf("create lease %s of mode %s: %v; want a *lease.DialectError with a remedy", l.Token, l.Mode, err)
		}
	}
	s.wantListed()
}

// otherDialects checks that a listing reports leases of the same processor in another
// dialect as Foreign, and does not add them to Leases.
func otherDialects(s *suite) {
	mine := s.create(s.whole("0"))
	for _, d := range []lease.Dialect{lease.DotNet, lease.JavaHandleChanges, lease.JavaLatestVersion} {
		if d == s.dialect() {
			continue
		}
		codec, err := lease.NewCodec(d, key("projector"), false)
		if err != nil {
			s.Fatal(err)
		}
		l := lease.Lease{Token: "7", PartitionID: "7", Range: feed.Full(), Continuation: `"3"`}
		if d == lease.JavaLatestVersion {
			l.Token, l.PartitionID = "-FF", ""
		}
		for what, document := range map[string][]byte{codec.LeaseID(l.Token): codec.Encode(l), codec.MarkerID(): codec.Marker()} {
			if codec.MarkerID() == what && codec.LeasePrefix() == s.codec().LeasePrefix() {
				continue // this dialect's marker has the same id
			}
			if err := s.Replace(s.ctx, what, document); err != nil {
				s.Fatalf("put document %s: %v", what, err)
			}
		}
		listing := s.list()
		if len(listing.Foreign) != 1 || listing.Foreign[0].Dialect != d || listing.Foreign[0].ID != codec.LeaseID(l.Token) {
			s.Errorf("beside a lease in %s the listing has %+v", d, listing.Foreign)
		}
		var refusal *lease.DialectError
		if err := protocol.Refusal(listing, s.dialect()); !errors.As(err, &refusal) {
			s.Errorf("beside a lease in %s a start is not refused: %v", d, err)
		}
		if len(listing.Leases) != 1 || listing.Leases[0].ETag != mine.ETag || !listing.Initialized.IsZero() {
			s.Errorf("beside a lease and a marker in %s the listing has %+v", d, listing)
		}
		if err := s.Remove(s.ctx, codec.LeaseID(l.Token)); err != nil {
			s.Fatal(err)
		}
		if listing := s.list(); len(listing.Foreign) != 0 || protocol.Refusal(listing, s.dialect()) != nil {
			s.Errorf("with a marker in %s alone the listing has %+v", d, listing.Foreign)
		}
	}
}

// givenRange checks that a write returns the lease with the range that the caller gave.
// The stored document may contain no range, as in JavaHandleChanges and in documents of
// old hosts.
func givenRange(s *suite) {
	given := s.whole("0")
	created := s.create(given)
	updated := s.update(protocol.At(created, `"1"`))
	_, updateErr := s.store.Update(s.ctx, created)
	_, createErr := s.store.Create(s.ctx, given)
	got := map[string]feed.Range{"created": created.Range, "updated": updated.Range}
	for what, err := range map[string]error{"update": updateErr, "create": createErr, "delete": s.store.Delete(s.ctx, created)} {
		var conflict *lease.ConflictError
		if !errors.As(err, &conflict) {
			s.Fatalf("%s of a changed lease: %v; want a *lease.ConflictError", what, err)
		}
		got["conflict of a "+what] = conflict.Current.Range
	}
	for what, r := range got {
		if r != given.Range {
			s.Errorf("%s: the range is %s; want %s", what, r, given.Range)
		}
	}
}

// namesContainer checks that each write in JavaHandleChanges sets PropertyContainer. The
// ids of that dialect contain only the container's name, which a later container may have
// as well.
func namesContainer(s *suite) {
	if s.dialect() != lease.JavaHandleChanges {
		s.Skip("ids have the container's rid")
	}
	check := func(what string) {
		s.Helper()
		l := s.find(s.token("0"))
		if rid := l.Properties[lease.PropertyContainer]; rid != key("projector").Identity.ContainerRID {
			s.Errorf("%s, the lease names the container %q", what, rid)
		}
	}
	l := s.create(s.whole("0"))
	check("created")
	l.Properties = nil // a Java host drops the properties
	s.update(l)
	check("updated")
}

func unknownProperties(s *suite) {
	l := s.whole("0")
	l.Properties = map[string]string{"epoch": "17", "command": "0 1 pause"}
	l = s.create(l)
	for _, next := range []lease.Lease{protocol.Acquired(l, owner(1)), protocol.At(l, `"1"`), protocol.Wanted(l, owner(2)), protocol.Released(l, "")} {
		next.ETag = l.ETag
		l = s.update(next)
		got := s.find(s.token("0")).Properties
		if got["epoch"] != "17" || got["command"] != "0 1 pause" {
			s.Fatalf("after an update the properties are %v", got)
		}
	}
}

// codec returns a codec for the documents of the store under test. It does not write the
// member partitionKey.
func (s *suite) codec() lease.Codec {
	s.Helper()
	codec, err := lease.NewCodec(s.dialect(), key("projector"), false)
	if err != nil {
		s.Fatal(err)
	}
	return codec
}

// edit changes a stored document by change, past the store, as another implementation
// does.
func (s *suite) edit(id string, change func(document map[string]json.RawMessage)) {
	s.Helper()
	text, err := s.Document(s.ctx, id)
	if err != nil {
		s.Fatalf("read document %s: %v", id, err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		s.Fatalf("document %s: %v", id, err)
	}
	change(members)
	text, err = json.Marshal(members)
	if err != nil {
		s.Fatal(err)
	}
	if err := s.Replace(s.ctx, id, text); err != nil {
		s.Fatalf("replace document %s: %v", id, err)
	}
}

func unknownMembers(s *suite) {
	const future = `{"a":[1,2.5,{"b":"},"}],"c":null}`
	l := s.create(s.whole("0"))
	s.edit(l.ID, func(members map[string]json.RawMessage) { members["future"] = json.RawMessage(future) })
	listed := s.find(s.token("0"))
	if listed.ETag == l.ETag {
		s.Fatal("another implementation's write did not change the ETag")
	}
	_, err := s.store.Update(s.ctx, protocol.Acquired(l, owner(1)))
	s.wantConflict("update after another implementation's write", err, listed)
	for _, next := range []func(lease.Lease) lease.Lease{
		func(l lease.Lease) lease.Lease { return protocol.Acquired(l, owner(1)) },
		func(l lease.Lease) lease.Lease { return protocol.At(l, `"1"`) },
		func(l lease.Lease) lease.Lease { return protocol.Released(l, `"2"`) },
	} {
		listed = s.update(next(listed)) // first update the listed lease, then each returned one
		text, err := s.Document(s.ctx, l.ID)
		if err != nil {
			s.Fatalf("read document %s: %v", l.ID, err)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(text, &members); err != nil {
			s.Fatal(err)
		}
		var got bytes.Buffer
		if json.Compact(&got, members["future"]) != nil || got.String() != future {
			s.Fatalf("after an update the unknown member is %s; want %s", members["future"], future)
		}
	}
}

func foreignOwner(s *suite) {
	l := s.create(s.whole("0"))
	s.edit(l.ID, func(members map[string]json.RawMessage) {
		members["Owner"] = json.RawMessage(`"WORKER-7"`)
		var position map[string]json.RawMessage
		if err := json.Unmarshal(s.codec().Encode(protocol.At(l, `"41"`)), &position); err != nil {
			s.Fatal(err)
		}
		members["ContinuationToken"] = position["ContinuationToken"]
	})
	foreign := s.find(s.token("0"))
	if foreign.Owner != "WORKER-7" || foreign.Continuation != `"41"` || protocol.Ours(foreign.Owner) {
		s.Fatalf("the foreign host's lease is listed as %+v", foreign)
	}
	mine := s.update(protocol.Acquired(foreign, owner(1)))
	s.wantListed(mine)
}

func longListing(s *suite) {
	const count = 3000
	border := func(i int) string { return fmt.Sprintf("%06X", i) }
	want := map[string]string{} // maps each token to its ETag
	for i := range count {
		l := s.create(s.part(border(i), border(i+1)))
		want[l.Token] = l.ETag
	}
	leases := s.list().Leases // list also checks that no lease is listed twice
	for _, l := range leases {
		if want[l.Token] != l.ETag {
			s.Fatalf("lease %s is listed with ETag %s; want %s", l.Token, l.ETag, want[l.Token])
		}
	}
	if len(leases) != count {
		s.Fatalf("%d leases are listed; want %d", len(leases), count)
	}
}

package leasetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// fieldCases are those of what a lease document carries.
func fieldCases() []testCase {
	return []testCase{
		{name: "every field comes back as it was written", run: everyField},
		{name: "properties unknown to us are kept", run: unknownProperties},
		{name: "members unknown to us are kept", needs: needs{documents: true}, run: unknownMembers},
		{name: "a foreign owner's lease is read and acquired", needs: needs{documents: true}, run: foreignOwner},
		{name: "thousands of leases are listed once each", run: longListing},
	}
}

func everyField(s *suite) {
	at := time.Date(2026, 11, 21, 11, 56, 46, 335876000, time.UTC)
	wide := strings.Repeat("3F", 16)
	texts := map[string]string{"start": "2026-11-21T11:56:46Z", "ünï <&> \"quoted\"\\\n": "päper \u2028 \U0001F511", "empty": ""}
	for name, l := range map[string]lease.Lease{
		"free, no position": partitionLease("17"),
		"all set":           {Token: "3", PartitionID: "3", Range: feed.Range{Max: wide}, Owner: owner(1), Continuation: `"24"`, Properties: texts, Timestamp: at},
		"EPK":               {Token: wide + "-FF", Range: feed.Range{Min: wide, Max: "FF"}, Owner: "hôst \"a\"/b/0badcafe", Continuation: "opaque \\ <text>", Timestamp: at},
		"full EPK range":    epkLease("", "FF"),
		"without range":     {Token: "9", PartitionID: "9", Continuation: `"1"`},
		"all versions":      {Token: "5", PartitionID: "5", Range: feed.Full(), Mode: feed.AllVersionsAndDeletes, Timestamp: at},
	} {
		made := s.create(l)
		s.wantSame(name+", listed", s.find(l.Token), made)
		again := s.update(made)
		s.wantSame(name+", listed after an update", s.find(l.Token), again)
	}
}

func unknownProperties(s *suite) {
	l := partitionLease("0")
	l.Properties = map[string]string{"epoch": "17", "command": "0 1 pause"}
	l = s.create(l)
	for _, next := range []lease.Lease{l.Acquired(owner(1)), l.At(`"1"`), l.Asked(owner(2)), l.Released("")} {
		next.ETag = l.ETag
		l = s.update(next)
		got := s.find("0").Properties
		if got["epoch"] != "17" || got["command"] != "0 1 pause" {
			s.Fatalf("after an update the properties are %v", got)
		}
	}
}

// edit changes a document behind the store's back, as another implementation does.
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
	const future = `{"a":[1,2.50,{"b":"},"}],"c":null}`
	l := s.create(partitionLease("0"))
	s.edit(l.ID, func(members map[string]json.RawMessage) { members["future"] = json.RawMessage(future) })
	listed := s.find("0")
	if listed.ETag == l.ETag {
		s.Fatal("another implementation's write left the ETag")
	}
	_, err := s.store.Update(s.ctx, l.Acquired(owner(1)))
	s.wantConflict("update after another implementation's write", err, listed)
	for _, next := range []func(lease.Lease) lease.Lease{
		func(l lease.Lease) lease.Lease { return l.Acquired(owner(1)) },
		func(l lease.Lease) lease.Lease { return l.At(`"1"`) },
		func(l lease.Lease) lease.Lease { return l.Released(`"2"`) },
	} {
		listed = s.update(next(listed)) // from the listing first, then from the answers
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
	l := s.create(partitionLease("0"))
	s.edit(l.ID, func(members map[string]json.RawMessage) {
		members["Owner"] = json.RawMessage(`"WORKER-7"`)
		members["ContinuationToken"] = json.RawMessage(`"\"41\""`)
	})
	foreign := s.find("0")
	if foreign.Owner != "WORKER-7" || foreign.Continuation != `"41"` || lease.Ours(foreign.Owner) {
		s.Fatalf("the foreign host's lease is read as %+v", foreign)
	}
	mine := s.update(foreign.Acquired(owner(1)))
	s.wantListed(mine)
}

func longListing(s *suite) {
	const count = 3000
	border := func(i int) string { return fmt.Sprintf("%06X", i) }
	want := map[string]string{} // token to ETag
	for i := range count {
		l := s.create(epkLease(border(i), border(i+1)))
		want[l.Token] = l.ETag
	}
	leases := s.list().Leases // which checks that none is there twice
	for _, l := range leases {
		if want[l.Token] != l.ETag {
			s.Fatalf("lease %s is listed with ETag %s; want %s", l.Token, l.ETag, want[l.Token])
		}
	}
	if len(leases) != count {
		s.Fatalf("%d leases are listed; want %d", len(leases), count)
	}
}

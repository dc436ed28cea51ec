package feedtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
)

// suite is the state of one running case. The first failure ends the case.
type suite struct {
	*testing.T
	Fixture
	ctx       context.Context
	container Container
	bubble    bool
}

func newSuite(t *testing.T, f Fixture, c Container, bubble bool) *suite {
	return &suite{T: t, Fixture: f, ctx: t.Context(), container: c, bubble: bubble}
}

// seen holds the fields of a change that cases compare. n is the version that the suite
// has written into the item.
type seen struct {
	op  feed.Op
	id  string
	n   int
	lsn int64
}

// key returns the partition key of document i. The documents are spread over 16 keys.
func (s *suite) key(i int) feed.PartitionKey {
	return feed.PartitionKey{fmt.Sprintf("key-%d", i%16)}
}

// doc returns a document with an id, a key and the version n. more holds further members,
// as a name and a JSON value in turn.
func doc(key any, id string, n int, more ...string) json.RawMessage {
	k, err := json.Marshal(key)
	if err != nil {
		panic(err) // the suite chooses keys that have a JSON form
	}
	var b strings.Builder
	fmt.Fprintf(&b, `{"pk":%s,"id":%q,"n":%d`, k, id, n)
	for i := 0; i+1 < len(more); i += 2 {
		fmt.Fprintf(&b, `,%q:%s`, more[i], more[i+1])
	}
	b.WriteString("}")
	return json.RawMessage(b.String())
}

// write upserts an item whose document is doc(key, id, n, more).
func (s *suite) write(key feed.PartitionKey, id string, n int, more ...string) {
	s.Helper()
	if err := s.Upsert(s.ctx, key, doc(key[0], id, n, more...)); err != nil {
		s.Fatalf("upsert %s: %v", id, err)
	}
}

// writeMany upserts the items from, from+1, ... to-1 at version n, spread over 16 keys.
func (s *suite) writeMany(from, to, n int) {
	s.Helper()
	for i := from; i < to; i++ {
		s.write(s.key(i), itemID(i), n)
	}
}

func itemID(i int) string { return fmt.Sprintf("item-%03d", i) }

// remove deletes the item with the key and id.
func (s *suite) remove(key feed.PartitionKey, id string) {
	s.Helper()
	if err := s.Delete(s.ctx, key, id); err != nil {
		s.Fatalf("delete %s: %v", id, err)
	}
}

// partitions returns the live partitions.
func (s *suite) partitions() []feed.Partition {
	s.Helper()
	p, err := s.Source.Partitions(s.ctx)
	if err != nil {
		s.Fatalf("partitions: %v", err)
	}
	return p
}

// only returns the single partition of the container. The case fails if there are
// several.
func (s *suite) only() feed.Partition {
	s.Helper()
	p := s.partitions()
	if len(p) != 1 {
		s.Fatalf("the container has %d partitions; want 1", len(p))
	}
	return p[0]
}

// mode returns all versions and deletes mode if the case asked for such a container, and
// latest version mode otherwise.
func (s *suite) mode() feed.Mode {
	if s.container.AllVersions {
		return feed.AllVersionsAndDeletes
	}
	return feed.LatestVersion
}

// page reads one page and checks it by checkPage. The case fails if the read fails.
func (s *suite) page(r feed.Request) feed.Page {
	s.Helper()
	page, err := s.Source.Read(s.ctx, r)
	if err != nil {
		s.Fatalf("read %s from %s: %v", where(r), r.From, err)
	}
	s.checkPage(r, page)
	return page
}

// where returns the partition, range or key that r reads, for messages.
func where(r feed.Request) string {
	text := "partition " + r.Partition.ID
	if r.Partition.ID == "" {
		text = "no partition"
	}
	if !r.Range.IsZero() {
		text += ", range " + r.Range.String()
	}
	if r.Key != nil {
		text += ", key " + r.Key.String()
	}
	return text
}

// checkPage checks the properties that every page of every source must have.
func (s *suite) checkPage(r feed.Request, page feed.Page) {
	s.Helper()
	if page.Continuation == "" {
		s.Fatalf("the page of %s from %s has no continuation", where(r), r.From)
	}
	last, size := int64(0), 0
	for _, c := range page.Changes {
		if c.LSN <= 0 {
			s.Fatalf("LSN %d; want a positive one", c.LSN)
		}
		if c.LSN < last {
			s.Fatalf("LSN %d after %d on one page", c.LSN, last)
		}
		if c.Time.IsZero() || !c.Time.Equal(c.Time.Truncate(1e9)) || c.Time.Location() != c.Time.UTC().Location() {
			s.Fatalf("time %s; want whole seconds in UTC", c.Time)
		}
		last, size = c.LSN, size+len(c.Current)
		s.checkChange(r.Mode, c)
	}
	if page.LSN < -1 || page.End < -1 {
		s.Fatalf("LSN %d, End %d; want -1 if the source does not report them", page.LSN, page.End)
	}
	if page.LSN >= 0 && page.LSN < last {
		s.Fatalf("the page has LSN %d and holds %d", page.LSN, last)
	}
	if page.LSN >= 0 && page.End >= 0 && page.End < last {
		s.Fatalf("the partition ends at LSN %d and its page holds %d", page.End, last)
	}
	if page.Bytes < size {
		s.Fatalf("the page has a buffer of %d bytes and items of %d", page.Bytes, size)
	}
	if page.Charge < 0 {
		s.Fatalf("the page costs %f RU", page.Charge)
	}
}

// checkChange checks the properties that every change in mode m must have.
func (s *suite) checkChange(m feed.Mode, c feed.Change) {
	s.Helper()
	if _, err := c.ID(); err != nil {
		s.Fatalf("a change names no item: %v", err)
	}
	if c.Current != nil && !json.Valid(c.Current) {
		s.Fatalf("an item is not JSON: %s", c.Current)
	}
	if m == feed.LatestVersion {
		if c.Op != feed.Upsert || c.Current == nil || c.Previous != nil || c.Expired || c.DeletedID != "" || c.DeletedKey != nil {
			s.Fatalf("a change of latest version mode is not a plain upsert: %+v", c)
		}
		return
	}
	switch c.Op {
	case feed.Create, feed.Replace:
		if c.Current == nil || c.DeletedID != "" || c.DeletedKey != nil || c.Expired {
			s.Fatalf("a %s without its item, or with a delete's fields: %+v", c.Op, c)
		}
	case feed.Delete:
		if c.Current != nil || c.DeletedID == "" || c.DeletedKey == nil {
			s.Fatalf("a delete with an item, or without the deleted one's id and key: %+v", c)
		}
	case feed.Upsert:
		s.Fatal("an upsert in all versions and deletes mode; want create or replace")
	}
}

// drain reads from r.From to the end of the feed. It returns all changes and the last
// position.
func (s *suite) drain(r feed.Request) ([]feed.Change, feed.Continuation) {
	s.Helper()
	var changes []feed.Change
	for range 10_000 {
		page := s.page(r)
		before := r.From
		if r.From = feed.After(page.Continuation); !before.Since().IsZero() {
			r.From = feed.AfterSince(page.Continuation, before.Since())
		}
		if n := len(changes); n > 0 && len(page.Changes) > 0 && page.Changes[0].LSN <= changes[n-1].LSN {
			s.Fatalf("a page begins with LSN %d, and the one before ended with %d", page.Changes[0].LSN, changes[n-1].LSN)
		}
		changes = append(changes, page.Changes...)
		if len(page.Changes) == 0 && (page.LSN >= page.End || r.From == before) {
			return changes, page.Continuation
		}
	}
	s.Fatalf("the feed of %s has no end", where(r))
	return nil, ""
}

// decode returns the fields of changes that cases compare.
func (s *suite) decode(changes []feed.Change) []seen {
	s.Helper()
	out := make([]seen, 0, len(changes))
	for _, c := range changes {
		id, err := c.ID()
		if err != nil {
			s.Fatal(err)
		}
		var item struct {
			N int `json:"n"`
		}
		if c.Current != nil {
			if err := json.Unmarshal(c.Current, &item); err != nil {
				s.Fatalf("decode %s: %v", id, err)
			}
		}
		out = append(out, seen{op: c.Op, id: id, n: item.N, lsn: c.LSN})
	}
	return out
}

// text returns changes as text, in order: "id=n" for version n of an item and "-id" for
// its delete.
func (s *suite) text(changes []feed.Change) string {
	s.Helper()
	words := make([]string, 0, len(changes))
	for _, c := range s.decode(changes) {
		if c.op == feed.Delete {
			words = append(words, "-"+c.id)
			continue
		}
		words = append(words, fmt.Sprintf("%s=%d", c.id, c.n))
	}
	return strings.Join(words, " ")
}

// want checks that the text of changes equals want; see text.
func (s *suite) want(what string, changes []feed.Change, want string) {
	s.Helper()
	if got := s.text(changes); got != want {
		s.Fatalf("%s: read [%s]; want [%s]", what, got, want)
	}
}

// wantItems checks that changes are exactly the items from, from+1, ... to-1 at version
// n, in any order.
func (s *suite) wantItems(what string, changes []feed.Change, from, to, n int) {
	s.Helper()
	words := strings.Fields(s.text(changes))
	slices.Sort(words)
	var want []string
	for i := from; i < to; i++ {
		want = append(want, fmt.Sprintf("%s=%d", itemID(i), n))
	}
	if !slices.Equal(words, want) {
		s.Fatalf("%s: read %v; want %v", what, words, want)
	}
}

// readWant reads to the end of the feed, checks that the text of the changes equals want,
// and returns the last position.
func (s *suite) readWant(what string, r feed.Request, want string) feed.Continuation {
	s.Helper()
	changes, at := s.drain(r)
	s.want(what, changes, want)
	return at
}

// readWantItems reads to the end of the feed, checks the changes as wantItems does, and
// returns the last position.
func (s *suite) readWantItems(what string, r feed.Request, from, to, n int) feed.Continuation {
	s.Helper()
	changes, at := s.drain(r)
	s.wantItems(what, changes, from, to, n)
	return at
}

package feedtest

import (
	"reflect"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// versionCases returns the cases that test all versions and deletes mode.
func versionCases() []testCase {
	expiring := versioned
	expiring.TimeToLive = true
	return []testCase{
		{name: "every version and every delete is returned", container: versioned, needs: needs{delete: true}, run: everyVersion},
		{name: "a previous image is the previous version", container: versioned, needs: needs{delete: true}, run: previousImage},
		{name: "all versions start from now", container: versioned, run: versionsFromNow},
		{name: "all versions of a key and of a sub-range", container: versioned, needs: needs{delete: true}, run: versionsScopes},
		{name: "one container has both modes", container: versioned, needs: needs{delete: true}, run: bothModes},
		{name: "an expired item is a delete with Expired set", container: expiring, needs: needs{advance: true, bubble: true}, run: expiredDelete},
	}
}

// versionsFrom returns a request in all versions and deletes mode that starts at the
// present end of p's feed.
func (s *suite) versionsFrom(p feed.Partition) feed.Request {
	s.Helper()
	r := feed.Request{Partition: p, Mode: feed.AllVersionsAndDeletes}
	page := s.page(r)
	s.want("all versions from now", page.Changes, "")
	r.From = feed.After(page.Continuation)
	return r
}

// ops returns the name of each change's operation.
func ops(changes []feed.Change) []string {
	var out []string
	for _, c := range changes {
		out = append(out, c.Op.String())
	}
	return out
}

func everyVersion(s *suite) {
	r := s.versionsFrom(s.only())
	s.write(s.key(1), "a", 1)
	s.write(s.key(1), "b", 2)
	s.write(s.key(1), "a", 3)
	s.write(s.key(1), "a", 3)
	s.remove(s.key(1), "a")
	s.write(s.key(1), "a", 4)
	changes, at := s.drain(r)
	s.want("six operations", changes, "a=1 b=2 a=3 a=3 -a a=4")
	want := []string{"create", "create", "replace", "replace", "delete", "create"}
	if got := ops(changes); !reflect.DeepEqual(got, want) {
		s.Errorf("operations %v; want %v", got, want)
	}
	gone := changes[4]
	if gone.DeletedID != "a" || gone.DeletedKey.String() != s.key(1).String() || gone.Expired {
		s.Errorf("the delete of a names %q, key %s, expired %t", gone.DeletedID, gone.DeletedKey, gone.Expired)
	}
	r.From = feed.After(at)
	changes, _ = s.drain(r)
	s.want("after the end", changes, "")
}

func previousImage(s *suite) {
	r := s.versionsFrom(s.only())
	s.write(s.key(1), "a", 1)
	s.write(s.key(1), "a", 2)
	s.remove(s.key(1), "a")
	changes, _ := s.drain(r)
	s.want("three operations", changes, "a=1 a=2 -a")
	if changes[0].Previous != nil {
		s.Errorf("a create has a previous image: %s", changes[0].Previous)
	}
	for i, c := range changes[1:] {
		if c.Previous == nil {
			continue // the engine need not keep previous images
		}
		var before struct {
			ID string `json:"id"`
			N  int    `json:"n"`
		}
		s.unmarshal(c.Previous, &before)
		if before.ID != "a" || before.N != i+1 {
			s.Errorf("the previous image of the %s is %s; want version %d", c.Op, c.Previous, i+1)
		}
	}
}

func versionsFromNow(s *suite) {
	p := s.only()
	s.write(s.key(1), "a", 1)
	r := s.versionsFrom(p)
	s.write(s.key(1), "a", 2)
	s.write(s.key(1), "a", 3)
	changes, _ := s.drain(r)
	s.want("changes after now", changes, "a=2 a=3")
	if got := ops(changes); got[0] != "replace" {
		s.Errorf("the first operation after now is a %s; want replace", got[0])
	}
}

func versionsScopes(s *suite) {
	p := s.only()
	r := s.versionsFrom(p)
	for i := range 16 {
		s.write(s.key(i), itemID(i), 1)
		s.write(s.key(i), itemID(i), 2)
		s.remove(s.key(i), itemID(i))
	}
	for i := range 16 {
		one := r
		one.Key = s.key(i)
		s.readWant(where(one), one, itemID(i)+"=1 "+itemID(i)+"=2 -"+itemID(i))
	}
	total := 0
	for _, rng := range parts() {
		part := r
		part.Range = rng
		changes, _ := s.drain(part)
		total += len(changes)
	}
	if total != 48 {
		s.Errorf("the sub-ranges show %d changes in all; want 48", total)
	}
}

func bothModes(s *suite) {
	p := s.only()
	r := s.versionsFrom(p)
	s.write(s.key(1), "a", 1)
	s.write(s.key(1), "a", 2)
	s.write(s.key(1), "b", 3)
	s.remove(s.key(1), "b")
	latest, _ := s.drain(feed.Request{Partition: p, From: feed.Beginning()})
	s.want("latest version", latest, "a=2")
	all, _ := s.drain(r)
	s.want("all versions", all, "a=1 a=2 b=3 -b")
}

func expiredDelete(s *suite) {
	r := s.versionsFrom(s.only())
	s.write(s.key(1), "a", 1, "ttl", "2")
	s.write(s.key(1), "b", 2)
	var changes []feed.Change
	for range 120 { // wait, because the engine may delete an expired item later
		s.Advance(time.Second)
		if changes, _ = s.drain(r); len(changes) > 2 {
			break
		}
	}
	s.want("a has expired", changes, "a=1 b=2 -a")
	gone := changes[2]
	if !gone.Expired || gone.DeletedID != "a" || gone.DeletedKey.String() != s.key(1).String() {
		s.Errorf("the delete of an expired item: expired %t, id %q, key %s", gone.Expired, gone.DeletedID, gone.DeletedKey)
	}
}

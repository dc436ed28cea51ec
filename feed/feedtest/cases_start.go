package feedtest

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// startCases returns the cases that test each kind of feed.Start.
func startCases() []testCase {
	advance := needs{advance: true}
	return []testCase{
		{name: "a read from the beginning returns everything", container: onePartition, run: fromBeginning},
		{name: "a read from now returns only later changes", container: onePartition, run: fromNow},
		{name: "a read from now has a position in every range and key", container: fourPartitions, run: fromNowScopes},
		{name: "a read from a time returns that second and later", container: onePartition, needs: advance, run: fromTime},
		{name: "a time before the container's creation is the beginning", container: onePartition, run: fromLongAgo},
		{name: "a read from a time in a sub-range and in a key", container: onePartition, needs: advance, run: fromTimeScopes},
		{name: "a position with a time returns all newer changes", container: onePartition, needs: advance, run: timeAlong},
		{name: "a position after the end of the feed is lost history", container: versioned, needs: needs{beyond: true}, run: fromBeyond},
		{name: "a read from a time across a split", container: onePartition, needs: needs{advance: true, split: true}, run: fromTimeSplit},
	}
}

// unmarshal decodes an item's JSON. The case fails if it is not valid.
func (s *suite) unmarshal(item json.RawMessage, into any) {
	s.Helper()
	if err := json.Unmarshal(item, into); err != nil {
		s.Fatalf("decode %s: %v", item, err)
	}
}

// someTime returns the time one hour ago.
func (s *suite) someTime() time.Time { return time.Now().Add(-time.Hour) }

func fromBeginning(s *suite) {
	p := s.only()
	s.writeMany(0, 10, 1)
	s.readWantItems("from the beginning", feed.Request{Partition: p, From: feed.Beginning()}, 0, 10, 1)
}

func fromNow(s *suite) {
	p := s.only()
	s.writeMany(0, 10, 1)
	page := s.page(feed.Request{Partition: p, From: feed.Now()})
	s.want("a read from now", page.Changes, "")
	s.writeMany(8, 12, 2)
	s.readWantItems("changes after now", feed.Request{Partition: p, From: feed.After(page.Continuation)}, 8, 12, 2)
}

func fromNowScopes(s *suite) {
	s.writeMany(0, 32, 1)
	var requests []feed.Request
	for _, p := range s.partitions() {
		requests = append(requests, feed.Request{Partition: p}, feed.Request{Range: p.Range})
	}
	for i := range 16 {
		requests = append(requests, feed.Request{Key: s.key(i)})
	}
	for i := range requests {
		page := s.page(requests[i])
		s.want("now of "+where(requests[i]), page.Changes, "")
		requests[i].From = feed.After(page.Continuation)
	}
	s.writeMany(16, 48, 2)
	byPartition, byRange, byKey := s.collect(requests)
	s.wantItems("partitions, from now", byPartition, 16, 48, 2)
	s.wantItems("ranges, from now", byRange, 16, 48, 2)
	s.wantItems("keys, from now", byKey, 16, 48, 2)
}

// collect reads each request's feed to its end. It returns the changes of requests by
// partition, by range and by key.
func (s *suite) collect(requests []feed.Request) (byPartition, byRange, byKey []feed.Change) {
	s.Helper()
	for _, r := range requests {
		changes, _ := s.drain(r)
		switch {
		case r.Key != nil:
			byKey = append(byKey, changes...)
		case r.Partition.ID == "":
			byRange = append(byRange, changes...)
		default:
			byPartition = append(byPartition, changes...)
		}
	}
	return byPartition, byRange, byKey
}

// writeTimed writes the items "a", "b" and "c", one for each key, two seconds apart. It
// returns the time of "b".
func (s *suite) writeTimed(a, b, c feed.PartitionKey) time.Time {
	s.Helper()
	s.write(a, "a", 1)
	s.Advance(2 * time.Second)
	s.write(b, "b", 2)
	changes, _ := s.drain(feed.Request{Key: b, From: feed.Beginning()})
	at := changes[len(changes)-1].Time
	s.Advance(2 * time.Second)
	s.write(c, "c", 3)
	return at
}

func fromTime(s *suite) {
	p := s.only()
	at := s.writeTimed(s.key(1), s.key(2), s.key(3))
	for _, c := range []struct {
		from time.Time
		want string
	}{
		{at.Add(-2 * time.Second), "a=1 b=2 c=3"},
		{at.Add(-time.Second), "b=2 c=3"},
		{at, "b=2 c=3"},
		{at.Add(999 * time.Millisecond), "b=2 c=3"},
		{at.Add(time.Second), "c=3"},
	} {
		end := s.readWant("b is of "+at.String()+"; from "+c.from.String(), feed.Request{Partition: p, From: feed.At(c.from)}, c.want)
		again, _ := s.drain(feed.Request{Partition: p, From: feed.After(end)})
		s.want("after the end", again, "")
	}
	s.Advance(2 * time.Second)
	late := s.page(feed.Request{Partition: p, From: feed.At(at.Add(3 * time.Second))})
	s.want("from a time after the last write", late.Changes, "")
	s.write(s.key(1), "d", 4)
	s.readWant("later changes", feed.Request{Partition: p, From: feed.After(late.Continuation)}, "d=4")
}

func fromLongAgo(s *suite) {
	p := s.only()
	s.writeMany(0, 10, 1)
	s.readWantItems("from the year 1970", feed.Request{Partition: p, From: feed.At(time.Unix(1, 0))}, 0, 10, 1)
}

func fromTimeScopes(s *suite) {
	key := s.key(5)
	at := s.writeTimed(key, key, key)
	s.write(s.key(6), "other", 4)
	s.readWant("one key from a time", feed.Request{Key: key, From: feed.At(at)}, "b=2 c=3")
	s.readWant("a range from a time", feed.Request{Range: feed.Full(), From: feed.At(at)}, "b=2 c=3 other=4")
}

// timeAlong checks a feed that starts at a time. Later reads send the position together
// with that time and must return the same changes as reads by position alone.
func timeAlong(s *suite) {
	p := s.only()
	at := s.writeTimed(s.key(1), s.key(2), s.key(3))
	first := s.page(feed.Request{Partition: p, From: feed.At(at), MaxItems: 1})
	rest, end := s.drain(feed.Request{Partition: p, From: feed.AfterSince(first.Continuation, at)})
	s.want("the page from a time, and the pages after it", append(first.Changes, rest...), "b=2 c=3")
	s.want("after the end", s.page(feed.Request{Partition: p, From: feed.AfterSince(end, at)}).Changes, "")
	s.write(s.key(1), "d", 4)
	s.readWant("later changes", feed.Request{Partition: p, From: feed.AfterSince(end, at)}, "d=4")
}

// fromBeyond reads from a position that the feed has not reached. Neither an empty page nor
// a wait for the position is right: both would skip the next changes without a word.
func fromBeyond(s *suite) {
	p := s.only()
	s.writeMany(0, 10, 1)
	_, end := s.drain(feed.Request{Partition: p, From: feed.Beginning()})
	for _, mode := range []feed.Mode{feed.LatestVersion, feed.AllVersionsAndDeletes} {
		for _, r := range []feed.Request{{Partition: p}, {Range: feed.Full()}, {Key: s.key(1)}} {
			r.Mode, r.From, r.Wait = mode, feed.After(s.Beyond(end)), time.Hour
			_, err := s.Source.Read(s.ctx, r)
			lost, ok := errors.AsType[*feed.HistoryLostError](err)
			if !ok || lost.Reason == "" || !lost.Ended {
				s.Fatalf("%s, %s: a read from %s, and the feed ends at %s: %v; want a HistoryLostError with its reason, and Ended", mode, where(r), s.Beyond(end), end, err)
			}
			if lost.Oldest != end {
				s.Errorf("%s, %s: the oldest position is %s; want the end of the feed, %s", mode, where(r), lost.Oldest, end)
			}
		}
	}
	s.write(s.key(1), "a", 1)
	s.readWant("the changes after the end of the feed", feed.Request{Partition: p, From: feed.After(end)}, "a=1")
}

func fromTimeSplit(s *suite) {
	at := s.writeTimed(s.key(1), s.key(2), s.key(3))
	s.split(s.only())
	var changes []feed.Change
	for _, p := range s.partitions() {
		part, _ := s.drain(feed.Request{Partition: p, From: feed.At(at)})
		changes = append(changes, part...)
	}
	if got := len(changes); got != 2 {
		s.Fatalf("the pieces show [%s] from the time of b; want b and c", s.text(changes))
	}
	for _, c := range s.decode(changes) {
		if c.id == "a" {
			s.Fatalf("the pieces show [%s] from the time of b; want b and c", s.text(changes))
		}
	}
}

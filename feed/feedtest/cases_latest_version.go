package feedtest

import (
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// latestCases returns the cases that test latest version mode.
func latestCases() []testCase {
	return []testCase{
		{name: "every write is returned in order", container: onePartition, run: writesInOrder},
		{name: "an item is returned once, at its last write", container: onePartition, run: lastWriteOnly},
		{name: "an item that changed after a read is returned again", container: onePartition, run: shownAgain},
		{name: "a write of the same content is a change", container: onePartition, run: sameContent},
		{name: "deletes are not returned", container: onePartition, needs: needs{delete: true}, run: deletesHidden},
		{name: "an item recreated after its delete is returned", container: onePartition, needs: needs{delete: true}, run: madeAgain},
		{name: "partitions have feeds of their own", container: fourPartitions, run: feedsApart},
		{name: "items carry their system properties", container: onePartition, run: systemProperties},
	}
}

func writesInOrder(s *suite) {
	p := s.only()
	s.write(s.key(1), "b", 1)
	s.write(s.key(2), "a", 2)
	s.write(s.key(1), "c", 3)
	changes, _ := s.drain(feed.Request{Partition: p, From: feed.Beginning()})
	s.want("three writes", changes, "b=1 a=2 c=3")
	for i := 1; i < len(changes); i++ {
		if changes[i].LSN <= changes[i-1].LSN {
			s.Errorf("LSN %d follows %d; want one LSN per write, rising", changes[i].LSN, changes[i-1].LSN)
		}
		if changes[i].Time.Before(changes[i-1].Time) {
			s.Errorf("time %s follows %s: the clock of a feed never goes back", changes[i].Time, changes[i-1].Time)
		}
	}
}

func lastWriteOnly(s *suite) {
	p := s.only()
	s.write(s.key(1), "a", 1)
	s.write(s.key(1), "b", 2)
	s.write(s.key(1), "a", 3)
	s.write(s.key(1), "a", 4)
	s.readWant("a was written three times", feed.Request{Partition: p, From: feed.Beginning()}, "b=2 a=4")
}

func shownAgain(s *suite) {
	p := s.only()
	s.write(s.key(1), "a", 1)
	s.write(s.key(1), "b", 2)
	at := s.readWant("the first read", feed.Request{Partition: p, From: feed.Beginning()}, "a=1 b=2")
	s.write(s.key(1), "a", 3)
	s.readWant("after a changed", feed.Request{Partition: p, From: feed.After(at)}, "a=3")
}

func sameContent(s *suite) {
	p := s.only()
	s.write(s.key(1), "a", 1)
	_, at := s.drain(feed.Request{Partition: p, From: feed.Beginning()})
	s.write(s.key(1), "a", 1)
	s.readWant("a was written again as it is", feed.Request{Partition: p, From: feed.After(at)}, "a=1")
}

func deletesHidden(s *suite) {
	p := s.only()
	s.write(s.key(1), "a", 1)
	s.write(s.key(1), "b", 2)
	page := s.page(feed.Request{Partition: p, From: feed.Beginning(), MaxItems: 1})
	s.want("one change", page.Changes, "a=1")
	s.remove(s.key(1), "a")
	s.remove(s.key(1), "b")
	at := s.readWant("both items are deleted", feed.Request{Partition: p, From: feed.After(page.Continuation)}, "")
	s.write(s.key(1), "c", 3)
	s.readWant("the feed continues after the deletes", feed.Request{Partition: p, From: feed.After(at)}, "c=3")
}

func madeAgain(s *suite) {
	p := s.only()
	s.write(s.key(1), "a", 1)
	_, at := s.drain(feed.Request{Partition: p, From: feed.Beginning()})
	s.remove(s.key(1), "a")
	s.write(s.key(1), "a", 2)
	s.readWant("a was deleted and recreated", feed.Request{Partition: p, From: feed.After(at)}, "a=2")
	s.readWant("a from the beginning", feed.Request{Partition: p, From: feed.Beginning()}, "a=2")
}

func feedsApart(s *suite) {
	s.writeMany(0, 64, 1)
	var all []feed.Change
	used := 0
	for _, p := range s.partitions() {
		changes, at := s.drain(feed.Request{Partition: p, From: feed.Beginning()})
		again, _ := s.drain(feed.Request{Partition: p, From: feed.After(at)})
		s.want("partition "+p.ID+" is read to its end", again, "")
		if len(changes) > 0 {
			used++
		}
		all = append(all, changes...)
	}
	if used < 2 {
		s.Fatalf("16 keys lie in %d of 4 partitions", used)
	}
	s.wantItems("all partitions", all, 0, 64, 1)
}

func systemProperties(s *suite) {
	p := s.only()
	s.write(s.key(1), "a", 7, "text", `"ü\u0000😀"`)
	changes, _ := s.drain(feed.Request{Partition: p, From: feed.Beginning()})
	s.want("one write", changes, "a=7")
	var item struct {
		Text string `json:"text"`
		TS   int64  `json:"_ts"`
		LSN  int64  `json:"_lsn"`
		ETag string `json:"_etag"`
		RID  string `json:"_rid"`
	}
	s.unmarshal(changes[0].Current, &item)
	if item.Text != "ü\x00😀" {
		s.Errorf("the item's text is %q", item.Text)
	}
	if !changes[0].Time.Equal(time.Unix(item.TS, 0)) || changes[0].LSN != item.LSN {
		s.Errorf("the item has _ts %d and _lsn %d, the change %d and %d", item.TS, item.LSN, changes[0].Time.Unix(), changes[0].LSN)
	}
	if item.ETag == "" || item.RID == "" {
		s.Errorf("the item has _etag %q and _rid %q", item.ETag, item.RID)
	}
}

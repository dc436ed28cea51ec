package feedtest

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/changefeed-go/changefeed/feed"
)

// pageCases returns the cases that test pages, continuations and transactions.
func pageCases() []testCase {
	return []testCase{
		{name: "a page has MaxItems changes", container: onePartition, run: pageSize},
		{name: "a page has 100 changes without MaxItems", container: onePartition, run: defaultPageSize},
		{name: "a continuation is exclusive and can be read twice", container: onePartition, run: readTwice},
		{name: "an old continuation can still be read", container: onePartition, run: oldContinuation},
		{name: "an empty page has a continuation", container: onePartition, run: emptyPage},
		{name: "a page has its LSN and the End of the partition", container: onePartition, run: lsnAndEnd},
		{name: "a transaction has one LSN and is never cut", container: onePartition, needs: needs{transaction: true}, run: transactionWhole},
		{name: "a transaction is never cut, all versions", container: versioned, needs: needs{transaction: true}, run: transactionWholeVersions},
		{name: "a page's buffer is never reused", container: onePartition, run: bufferKept},
	}
}

func pageSize(s *suite) {
	p := s.only()
	s.writeMany(0, 20, 1)
	for _, size := range []int{1, 7, 20, 1000} {
		r := feed.Request{Partition: p, From: feed.Beginning(), MaxItems: size}
		page := s.page(r)
		if n := len(page.Changes); n == 0 || n > size {
			s.Errorf("a page of 20 single writes with MaxItems %d has %d changes", size, n)
		}
		changes, _ := s.drain(r)
		s.wantItems(fmt.Sprintf("pages of %d", size), changes, 0, 20, 1)
	}
}

func defaultPageSize(s *suite) {
	p := s.only()
	s.writeMany(0, 120, 1)
	page := s.page(feed.Request{Partition: p, From: feed.Beginning()})
	if n := len(page.Changes); n != 100 {
		s.Errorf("the first page of 120 small items has %d changes; want 100", n)
	}
}

func readTwice(s *suite) {
	p := s.only()
	s.writeMany(0, 10, 1)
	first := s.page(feed.Request{Partition: p, From: feed.Beginning(), MaxItems: 4})
	r := feed.Request{Partition: p, From: feed.After(first.Continuation), MaxItems: 4}
	second, again := s.page(r), s.page(r)
	if a, b := s.text(second.Changes), s.text(again.Changes); a != b || a == "" {
		s.Fatalf("two reads from one continuation: [%s] and [%s]", a, b)
	}
	if second.Continuation != again.Continuation {
		s.Fatalf("two reads from one continuation lead to %s and %s", second.Continuation, again.Continuation)
	}
	rest, _ := s.drain(r)
	s.wantItems("the page and the changes after its continuation", append(first.Changes, rest...), 0, 10, 1)
}

func oldContinuation(s *suite) {
	p := s.only()
	start := s.page(feed.Request{Partition: p, From: feed.Beginning()})
	for n := range 30 {
		s.writeMany(0, 5, n)
	}
	s.readWantItems("from a continuation as old as the container", feed.Request{Partition: p, From: feed.After(start.Continuation)}, 0, 5, 29)
}

func emptyPage(s *suite) {
	p := s.only()
	for _, from := range []feed.Start{feed.Beginning(), feed.Now()} {
		page := s.page(feed.Request{Partition: p, From: from})
		s.want("an empty container", page.Changes, "")
		next := s.page(feed.Request{Partition: p, From: feed.After(page.Continuation)})
		s.want("an empty container, again", next.Changes, "")
	}
	before := s.page(feed.Request{Partition: p, From: feed.Now()})
	s.write(s.key(1), "a", 1)
	for _, c := range []feed.Continuation{before.Continuation} {
		at := s.readWant("from the continuation of an empty page", feed.Request{Partition: p, From: feed.After(c)}, "a=1")
		s.write(s.key(1), "b", 2)
		s.readWant("from the continuation of the page at the end", feed.Request{Partition: p, From: feed.After(at)}, "b=2")
	}
}

func lsnAndEnd(s *suite) {
	p := s.only()
	s.writeMany(0, 10, 1)
	page := s.page(feed.Request{Partition: p, From: feed.Beginning(), MaxItems: 4})
	if page.LSN < 0 || page.End < 0 {
		s.Skip("the source does not report LSNs")
	}
	if last := page.Changes[len(page.Changes)-1].LSN; page.LSN != last {
		s.Errorf("the last change of the page has LSN %d, the page LSN %d", last, page.LSN)
	}
	changes, at := s.drain(feed.Request{Partition: p, From: feed.Beginning()})
	if end := changes[len(changes)-1].LSN; page.End != end {
		s.Errorf("the partition ends at LSN %d; its page reported %d", end, page.End)
	}
	last := s.page(feed.Request{Partition: p, From: feed.After(at)})
	if last.LSN != last.End || last.End != page.End {
		s.Errorf("at the end the page has LSN %d of %d; want %d", last.LSN, last.End, page.End)
	}
}

// transaction upserts the items from, from+1, ... to-1 of one key at version n in one
// transaction.
func (s *suite) transaction(key feed.PartitionKey, from, to, n int) {
	s.Helper()
	docs := make([]json.RawMessage, 0, to-from)
	for i := from; i < to; i++ {
		docs = append(docs, doc(key[0], itemID(i), n))
	}
	if err := s.Transaction(s.ctx, key, docs); err != nil {
		s.Fatalf("transaction: %v", err)
	}
}

func transactionWhole(s *suite) {
	p, key := s.only(), s.key(1)
	s.write(key, itemID(0), 1)
	s.transaction(key, 1, 11, 1)
	s.write(key, itemID(11), 1)
	s.checkWhole(feed.Request{Partition: p, From: feed.Beginning(), MaxItems: 3}, 10)
	s.readWantItems("pages of 1 around a transaction of 10", feed.Request{Partition: p, From: feed.Beginning(), MaxItems: 1}, 0, 12, 1)

	// The overwritten item leaves the transaction. Its other nine changes must stay on
	// one page.
	s.write(key, itemID(5), 2)
	s.checkWhole(feed.Request{Partition: p, From: feed.Beginning(), MaxItems: 3}, 9)
	s.checkWhole(feed.Request{Partition: p, Key: key, From: feed.Beginning(), MaxItems: 3}, 9)
}

func transactionWholeVersions(s *suite) {
	p, key := s.only(), s.key(1)
	start := s.page(feed.Request{Partition: p, Mode: s.mode()})
	s.transaction(key, 0, 10, 1)
	s.transaction(key, 0, 10, 2)
	r := feed.Request{Partition: p, From: feed.After(start.Continuation), Mode: s.mode(), MaxItems: 3}
	s.checkWhole(r, 10)
	changes, _ := s.drain(r)
	if len(changes) != 20 {
		s.Errorf("two transactions of 10 items have %d changes", len(changes))
	}
}

// checkWhole reads r's feed to its end. It checks that all changes of each LSN are on one
// page, and that the largest transaction has size changes.
func (s *suite) checkWhole(r feed.Request, size int) {
	s.Helper()
	pageOf, count, largest := map[int64]int{}, map[int64]int{}, 0
	for n := 0; ; n++ {
		page := s.page(r)
		if len(page.Changes) == 0 {
			break
		}
		for _, c := range page.Changes {
			if before, ok := pageOf[c.LSN]; ok && before != n {
				s.Fatalf("LSN %d lies on page %d and on page %d", c.LSN, before, n)
			}
			pageOf[c.LSN] = n
			count[c.LSN]++
			largest = max(largest, count[c.LSN])
		}
		r.From = feed.After(page.Continuation)
	}
	if largest != size {
		s.Fatalf("the largest transaction has %d changes of one LSN; want %d", largest, size)
	}
}

func bufferKept(s *suite) {
	p := s.only()
	s.writeMany(0, 50, 1)
	var kept []feed.Change
	var copies [][]byte
	r := feed.Request{Partition: p, From: feed.Beginning(), MaxItems: 5}
	for range 10 {
		page := s.page(r)
		for _, c := range page.Changes {
			kept = append(kept, c)
			copies = append(copies, bytes.Clone(c.Current))
		}
		r.From = feed.After(page.Continuation)
		s.writeMany(50, 53, 1)
	}
	for i, c := range kept {
		if !bytes.Equal(c.Current, copies[i]) {
			s.Fatalf("a change kept over later reads became %s; it was %s", c.Current, copies[i])
		}
	}
}

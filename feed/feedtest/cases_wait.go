package feedtest

import (
	"context"
	"errors"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// timeCases returns the cases of items that expire and of reads that wait for changes.
func timeCases() []testCase {
	expiring := onePartition
	expiring.TimeToLive = true
	return []testCase{
		{name: "an expired item is not returned", container: expiring, needs: needs{advance: true}, run: expiredHidden},
		{name: "a waiting read returns when a change arrives", container: fourPartitions, run: heldRead},
		{name: "a waiting read ends after its wait", container: onePartition, needs: needs{bubble: true}, run: heldReadEnds},
		{name: "a waiting read ends with its context", container: onePartition, run: heldReadCancelled},
		{name: "a read with changes does not wait", container: onePartition, needs: needs{bubble: true}, run: notHeld},
	}
}

func expiredHidden(s *suite) {
	p := s.only()
	s.write(s.key(1), "a", 1, "ttl", "2")
	s.write(s.key(1), "b", 2)
	s.readWant("before a expires", feed.Request{Partition: p, From: feed.Beginning()}, "a=1 b=2")
	s.Advance(3 * time.Second)
	at := s.readWant("after a has expired", feed.Request{Partition: p, From: feed.Beginning()}, "b=2")
	s.write(s.key(1), "a", 3)
	s.readWant("a was recreated", feed.Request{Partition: p, From: feed.After(at)}, "a=3")
}

// heldRead checks that a change written while a read waits is returned by that read. A
// source that cannot wait may return an empty page. Then the next read must return the
// change.
func heldRead(s *suite) {
	key := s.key(3)
	now := s.page(feed.Request{Key: key})
	type answer struct {
		page feed.Page
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		page, err := s.Source.Read(s.ctx, feed.Request{Key: key, From: feed.After(now.Continuation), Wait: time.Minute})
		done <- answer{page, err}
	}()
	s.write(key, "a", 1)
	got := <-done
	if got.err != nil {
		s.Fatalf("a waiting read: %v", got.err)
	}
	rest, _ := s.drain(feed.Request{Key: key, From: feed.After(got.page.Continuation)})
	s.want("the waiting read and the next", append(got.page.Changes, rest...), "a=1")
}

func heldReadEnds(s *suite) {
	p := s.only()
	now := s.page(feed.Request{Partition: p})
	began := time.Now()
	page := s.page(feed.Request{Partition: p, From: feed.After(now.Continuation), Wait: 7 * time.Second})
	s.want("nothing came", page.Changes, "")
	if held := time.Since(began); held > 7*time.Second {
		s.Errorf("a read with a wait of 7s took %s", held)
	}
}

func heldReadCancelled(s *suite) {
	p := s.only()
	now := s.page(feed.Request{Partition: p})
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan error, 1)
	go func() {
		_, err := s.Source.Read(ctx, feed.Request{Partition: p, From: feed.After(now.Continuation), Wait: time.Hour})
		done <- err
	}()
	cancel()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		s.Errorf("a waiting read whose context ended: %v; want the context's error", err)
	}
}

func notHeld(s *suite) {
	p := s.only()
	s.write(s.key(1), "a", 1)
	began := time.Now()
	page := s.page(feed.Request{Partition: p, From: feed.Beginning(), Wait: time.Hour})
	s.want("one change", page.Changes, "a=1")
	if held := time.Since(began); held > time.Minute {
		s.Errorf("a read that found a change took %s", held)
	}
}

package feedtest

import (
	"errors"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// topologyCases returns the cases in which partitions split and merge.
func topologyCases() []testCase {
	split, both := needs{split: true}, needs{split: true, merge: true}
	return []testCase{
		{name: "a split partition is gone and its children are listed", container: onePartition, needs: split, run: splitShows},
		{name: "children of children name all their ancestors", container: onePartition, needs: split, run: ancestorsNamed},
		{name: "a parent's continuation is valid in its children", container: onePartition, needs: split, run: splitContinuation},
		{name: "children return everything from the beginning", container: onePartition, needs: split, run: splitBeginning},
		{name: "a range over two children is gone", container: onePartition, needs: split, run: splitRange},
		{name: "merged partitions are gone and the result is listed", container: onePartition, needs: both, run: mergeShows},
		{name: "continuations of both parents are valid in a merged partition", container: onePartition, needs: both, run: mergeContinuation},
		{name: "a start time leaves out older changes of a merged partition", container: onePartition, needs: needs{split: true, merge: true, advance: true}, run: mergeTimeAlong},
		{name: "a parent's continuation is valid after a split and a merge", container: onePartition, needs: both, run: splitMergeContinuation},
		{name: "all versions continue after a split and a merge", container: versioned, needs: both, run: versionsOverSplitAndMerge},
		{name: "a partition that is gone is no longer listed", container: fourPartitions, needs: both, run: goneIsUnlisted},
		{name: "a partition id is never reused", container: onePartition, needs: both, run: idsNeverAgain},
	}
}

// split splits partition p and returns the partitions that replace it.
func (s *suite) split(p feed.Partition) []feed.Partition {
	s.Helper()
	before := s.partitions()
	if err := s.Split(s.ctx, p.ID); err != nil {
		s.Fatalf("split %s: %v", p.ID, err)
	}
	return newIn(s.partitions(), before)
}

// merge merges the partitions a and b and returns the partition that replaces them.
func (s *suite) merge(a, b feed.Partition) feed.Partition {
	s.Helper()
	before := s.partitions()
	if err := s.Merge(s.ctx, a.ID, b.ID); err != nil {
		s.Fatalf("merge %s and %s: %v", a.ID, b.ID, err)
	}
	merged := newIn(s.partitions(), before)
	if len(merged) != 1 {
		s.Fatalf("the merge of %s and %s left %d new partitions", a.ID, b.ID, len(merged))
	}
	return merged[0]
}

// newIn returns the partitions in now whose IDs are not in before.
func newIn(now, before []feed.Partition) []feed.Partition {
	return slices.DeleteFunc(now, func(p feed.Partition) bool {
		return slices.ContainsFunc(before, func(q feed.Partition) bool { return q.ID == p.ID })
	})
}

// wantGone checks that a read of partition p returns a GoneError with p's ID.
func (s *suite) wantGone(p feed.Partition, from feed.Start) {
	s.Helper()
	_, err := s.Source.Read(s.ctx, feed.Request{Partition: p, From: from, Mode: s.mode()})
	if gone, ok := errors.AsType[*feed.GoneError](err); !ok || gone.Partition != p.ID {
		s.Fatalf("read of the retired partition %s from %s: %v; want a GoneError that names it", p.ID, from, err)
	}
}

func splitShows(s *suite) {
	parent := s.only()
	s.writeMany(0, 20, 1)
	page := s.page(feed.Request{Partition: parent, From: feed.Beginning()})
	children := s.split(parent)
	if len(children) != 2 {
		s.Fatalf("a split left %d new partitions; want 2", len(children))
	}
	s.checkTiles(s.partitions())
	if children[0].Range.Min != parent.Range.Min || children[1].Range.Max != parent.Range.Max {
		s.Errorf("the parent's range is %s, the children's %s and %s", parent.Range, children[0].Range, children[1].Range)
	}
	for _, c := range children {
		if !slices.Equal(c.Parents, []string{parent.ID}) {
			s.Errorf("child %s names parents %v; want %s", c.ID, c.Parents, parent.ID)
		}
	}
	for _, from := range []feed.Start{feed.Beginning(), feed.Now(), feed.After(page.Continuation)} {
		s.wantGone(parent, from)
	}
}

func ancestorsNamed(s *suite) {
	root := s.only()
	child := s.split(root)[0]
	for _, g := range s.split(child) {
		parents := slices.Sorted(slices.Values(g.Parents))
		want := slices.Sorted(slices.Values([]string{root.ID, child.ID}))
		if !slices.Equal(parents, want) {
			s.Errorf("grandchild %s names parents %v; want %v", g.ID, g.Parents, want)
		}
	}
	s.checkTiles(s.partitions())
	s.wantGone(root, feed.Beginning())
	s.wantGone(child, feed.Beginning())
}

// readRest returns all changes after position c in all live partitions.
func (s *suite) readRest(c feed.Continuation) []feed.Change {
	s.Helper()
	var all []feed.Change
	for _, p := range s.partitions() {
		changes, _ := s.drain(feed.Request{Partition: p, From: feed.After(c), Mode: s.mode(), MaxItems: 5})
		all = append(all, changes...)
	}
	return all
}

func splitContinuation(s *suite) {
	parent := s.only()
	s.writeMany(0, 40, 1)
	page := s.page(feed.Request{Partition: parent, From: feed.Beginning(), MaxItems: 15})
	s.split(parent)
	s.writeMany(40, 60, 1)
	s.split(s.partitions()[0])
	s.writeMany(60, 80, 1)
	s.wantItems("a page of the parent, then its descendants", append(page.Changes, s.readRest(page.Continuation)...), 0, 80, 1)
}

func splitBeginning(s *suite) {
	s.writeMany(0, 40, 1)
	s.split(s.only())
	s.writeMany(20, 60, 2)
	var all []feed.Change
	used := 0
	for _, p := range s.partitions() {
		changes, _ := s.drain(feed.Request{Partition: p, From: feed.Beginning()})
		if len(changes) > 0 {
			used++
		}
		all = append(all, changes...)
	}
	if used != 2 {
		s.Fatalf("16 keys lie in %d of 2 children", used)
	}
	s.wantItems("updated after the split", slices.DeleteFunc(slices.Clone(all), func(c feed.Change) bool {
		return s.decode([]feed.Change{c})[0].n != 2
	}), 20, 60, 2)
	s.wantItems("left from before the split", slices.DeleteFunc(all, func(c feed.Change) bool {
		return s.decode([]feed.Change{c})[0].n != 1
	}), 0, 20, 1)
}

func splitRange(s *suite) {
	parent := s.only()
	s.writeMany(0, 20, 1)
	page := s.page(feed.Request{Range: parent.Range, From: feed.Beginning()})
	children := s.split(parent)
	_, err := s.Source.Read(s.ctx, feed.Request{Range: parent.Range, From: feed.After(page.Continuation)})
	if gone, ok := errors.AsType[*feed.GoneError](err); !ok || gone.Range != parent.Range {
		s.Fatalf("read of a range that was split: %v; want a GoneError that names it", err)
	}
	s.writeMany(20, 40, 1)
	all := page.Changes
	for _, c := range children {
		changes, _ := s.drain(feed.Request{Range: c.Range, From: feed.After(page.Continuation)})
		all = append(all, changes...)
	}
	s.wantItems("a page of the range, then its halves", all, 0, 40, 1)
}

func mergeShows(s *suite) {
	root := s.only()
	children := s.split(root)
	s.writeMany(0, 20, 1)
	merged := s.merge(children[0], children[1])
	s.checkTiles(s.partitions())
	for _, id := range []string{root.ID, children[0].ID, children[1].ID} {
		if !slices.Contains(merged.Parents, id) {
			s.Errorf("the merged partition names parents %v; want %s among them", merged.Parents, id)
		}
	}
	s.wantGone(children[0], feed.Beginning())
	s.wantGone(children[1], feed.Now())
	s.readWantItems("a merged partition from the beginning", feed.Request{Partition: merged, From: feed.Beginning()}, 0, 20, 1)
}

func mergeContinuation(s *suite) {
	children := s.split(s.only())
	s.writeMany(0, 40, 1)
	// Read the two partitions to different positions. After the merge each range must
	// resume from its own position.
	var all []feed.Change
	at := make([]feed.Continuation, len(children))
	for i, c := range children {
		page := s.page(feed.Request{Partition: c, From: feed.Beginning(), MaxItems: 3 + 10*i})
		all, at[i] = append(all, page.Changes...), page.Continuation
	}
	merged := s.merge(children[0], children[1])
	s.writeMany(40, 60, 1)
	for i, c := range children {
		changes, _ := s.drain(feed.Request{Partition: merged, Range: c.Range, From: feed.After(at[i]), MaxItems: 4})
		byRange, _ := s.drain(feed.Request{Range: c.Range, From: feed.After(at[i])})
		s.want("range "+c.Range.String()+" without its partition", byRange, s.text(changes))
		all = append(all, changes...)
	}
	s.wantItems("both ranges in the merged partition", all, 0, 60, 1)
}

// mergeTimeAlong reads a merged partition after a position that is before all changes, with
// the time of the second half of them beside it. SDKs send their start time with every
// position, which may be another parent's.
func mergeTimeAlong(s *suite) {
	root := s.only()
	start := s.page(feed.Request{Partition: root, From: feed.Beginning()}).Continuation
	children := s.split(root)
	s.writeMany(0, 20, 1)
	s.Advance(5 * time.Second)
	s.writeMany(20, 40, 1)
	newest, _ := s.drain(feed.Request{Key: s.key(39), From: feed.Beginning()})
	at := newest[len(newest)-1].Time.Add(-2 * time.Second)
	merged := s.merge(children[0], children[1])
	s.writeMany(40, 60, 1)
	changes, _ := s.drain(feed.Request{Partition: merged, From: feed.AfterSince(start, at), MaxItems: 4})
	s.wantItems("after a position, with a time", changes, 20, 60, 1)
}

func splitMergeContinuation(s *suite) {
	parent := s.only()
	s.writeMany(0, 20, 1)
	page := s.page(feed.Request{Partition: parent, From: feed.Beginning(), MaxItems: 7})
	children := s.split(parent)
	s.writeMany(20, 40, 1)
	s.merge(children[0], children[1])
	s.writeMany(40, 60, 1)
	s.wantItems("from before a split and a merge", append(page.Changes, s.readRest(page.Continuation)...), 0, 60, 1)
}

func versionsOverSplitAndMerge(s *suite) {
	parent := s.only()
	start := s.page(feed.Request{Partition: parent, Mode: s.mode()})
	s.writeMany(0, 10, 1)
	children := s.split(parent)
	s.writeMany(0, 10, 2)
	middle := s.readRest(start.Continuation)
	if len(middle) != 20 {
		s.Fatalf("20 versions over a split; the children show %d", len(middle))
	}
	s.merge(children[0], children[1])
	s.writeMany(0, 10, 3)
	count := map[string]int{}
	for _, c := range s.decode(s.readRest(start.Continuation)) {
		if c.n != count[c.id]+1 {
			s.Fatalf("item %s shows version %d after %d", c.id, c.n, count[c.id])
		}
		count[c.id] = c.n
	}
	for i := range 10 {
		if count[itemID(i)] != 3 {
			s.Errorf("item %s ends at version %d; want 3", itemID(i), count[itemID(i)])
		}
	}
}

func idsNeverAgain(s *suite) {
	used := map[string]bool{s.only().ID: true}
	for range 4 {
		children := s.split(s.only())
		merged := s.merge(children[0], children[1])
		for _, p := range append(children, merged) {
			if used[p.ID] {
				s.Fatalf("partition id %s was used before", p.ID)
			}
			used[p.ID] = true
		}
	}
	for id := range used {
		if id != s.only().ID {
			s.wantGone(feed.Partition{ID: id}, feed.Beginning())
		}
	}
}

// goneIsUnlisted checks a read that reports a retired partition. At that time Partitions
// must already list the replacements. Otherwise an SDK, which lists the partitions again
// at once, would loop.
func goneIsUnlisted(s *suite) {
	s.writeMany(0, 20, 1)
	reshape := func() {
		for range 5 {
			s.reshape()
		}
	}
	during(reshape, func() {
		for _, p := range s.partitions() {
			_, err := s.Source.Read(s.ctx, feed.Request{Partition: p, From: feed.Beginning()})
			if err != nil && !isGone(err) {
				s.Fatal(err)
			}
			if err != nil && slices.ContainsFunc(s.partitions(), func(q feed.Partition) bool { return q.ID == p.ID }) {
				s.Fatalf("partition %s was gone, and is listed after that", p.ID)
			}
		}
	})
}

package feedtest

import (
	"errors"
	"fmt"

	"github.com/changefeed-go/changefeed/feed"
)

// parallelCases returns the cases of readers that read several parts of their range at
// the same time. It also returns the cases that divide a range among workers.
func parallelCases() []testCase {
	both := needs{split: true, merge: true}
	return []testCase{
		{name: "a loop over several parts at a time loses and repeats nothing over splits and merges", container: fourPartitions, needs: both, run: pagesUnderLoad},
		{name: "a loop over several parts at a time gets every version once over splits and merges", container: allVersionsOf(fourPartitions), needs: both, run: pagesUnderLoad},
		{name: "a range is split into equal parts for workers", container: fourPartitions, run: evenParts},
		{name: "a hierarchical container is split for workers", container: hierarchical, run: hierarchicalParts},
	}
}

// pages returns all changes that a loop over r.Pages reads up to the end of the feed.
func (s *suite) pages(r *feed.Reader) []feed.Change {
	s.Helper()
	var all []feed.Change
	for page, err := range r.Pages(s.ctx) {
		if err != nil {
			s.Fatalf("pages: %v", err)
		}
		all = append(all, page.Changes...)
	}
	return all
}

// pagesUnderLoad checks loops over Pages while writers write and partitions split. It
// leaves each loop after a while and starts another. At the end a new reader resumes from
// the position.
func pagesUnderLoad(s *suite) {
	r := s.reader(s.loadConfig())
	var all []feed.Change
	s.underLoad(r, func() {
		n := 0
		for page, err := range r.Pages(s.ctx) {
			if isGone(err) {
				continue
			}
			if err != nil {
				s.Fatalf("pages: %v", err)
			}
			all = append(all, page.Changes...)
			if n++; n > 4 {
				break
			}
		}
	})
	all = append(all, s.pages(r)...)
	rest := s.pages(s.reader(feed.ReaderConfig{Position: s.position(r)}))
	s.want("from the position at the end", rest, "")
	s.checkVersions(all)
}

// parts divides r into n parts by feed.SplitRange. It checks that the parts cover r
// without gaps or overlaps.
func (s *suite) parts(r feed.Range, n int) []feed.Range {
	s.Helper()
	parts, err := feed.SplitRange(s.ctx, s.Source, r, n)
	if errors.Is(err, feed.ErrUnsupported) {
		s.Skip("the source does not split ranges")
	}
	if err != nil {
		s.Fatalf("split range %s in %d: %v", r, n, err)
	}
	if len(parts) != n {
		s.Fatalf("range %s in %d is %v", r, n, parts)
	}
	low := r.OrFull().Min
	for _, part := range parts {
		if part.Min != low || part.IsEmpty() {
			s.Fatalf("range %s in %d has gaps or empty parts: %v", r, n, parts)
		}
		low = part.Max
	}
	if low != r.OrFull().Max {
		s.Fatalf("range %s in %d ends early: %v", r, n, parts)
	}
	return parts
}

// evenParts divides the container among five workers and checks that each gets about a
// fifth of 200 keys. Together they must get every change once. It divides one of the
// parts in the same way.
func evenParts(s *suite) {
	const keys, workers = 200, 5
	for i := range keys {
		s.write(feed.PartitionKey{fmt.Sprintf("key-%d", i)}, itemID(i), 1)
	}
	var all []feed.Change
	for _, part := range s.parts(feed.Range{}, workers) {
		changes := s.pages(s.reader(feed.ReaderConfig{Range: part, Start: feed.Beginning(), Parallel: 2}))
		if len(changes) < keys/workers/2 || len(changes) > keys/workers*2 {
			s.Errorf("part %s has %d of %d keys", part, len(changes), keys)
		}
		all = append(all, changes...)
		inner := 0
		for _, piece := range s.parts(part, 3) {
			inner += len(s.pages(s.reader(feed.ReaderConfig{Range: piece, Start: feed.Beginning()})))
		}
		if inner != len(changes) {
			s.Errorf("part %s has %d changes, its own parts %d", part, len(changes), inner)
		}
	}
	s.wantItems("all workers", all, 0, keys, 1)
	if _, err := feed.SplitRange(s.ctx, s.Source, feed.Range{Min: "0A", Max: "0A"}, 2); err == nil {
		s.Error("an empty range is split")
	}
}

func hierarchicalParts(s *suite) {
	const items = 60
	for i := range items {
		key := feed.PartitionKey{fmt.Sprintf("t%d", i%20), fmt.Sprintf("u%d", i)}
		body := fmt.Sprintf(`{"tenant":%q,"user":%q,"id":%q,"n":1}`, key[0], key[1], itemID(i))
		if err := s.Upsert(s.ctx, key, []byte(body)); err != nil {
			s.Fatal(err)
		}
	}
	var all []feed.Change
	for _, part := range s.parts(feed.Range{}, 3) {
		all = append(all, s.pages(s.reader(feed.ReaderConfig{Range: part, Start: feed.Beginning(), MaxItems: 7}))...)
	}
	s.wantItems("all workers", all, 0, items, 1)
}

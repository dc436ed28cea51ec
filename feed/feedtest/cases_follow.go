package feedtest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/changefeed-go/changefeed/feed"
)

// followCases returns the cases in which a reader runs during writes, splits and merges.
func followCases() []testCase {
	both := needs{split: true, merge: true}
	return []testCase{
		{name: "changes of many writers are in LSN order", container: onePartition, run: manyWriters},
		{name: "a following reader loses and repeats nothing", container: fourPartitions, run: followUnderLoad},
		{name: "a following reader over splits and merges loses and repeats nothing", container: fourPartitions, needs: both, run: followUnderLoad},
		{name: "a following reader gets every version once", container: allVersionsOf(fourPartitions), run: followUnderLoad},
		{name: "a following reader over splits and merges gets every version once", container: allVersionsOf(fourPartitions), needs: both, run: followUnderLoad},
		{name: "a reader resumes from its position after a split and a merge", container: fourPartitions, needs: both, run: resumeReader},
		{name: "a reader follows one key through a split", container: onePartition, needs: needs{split: true}, run: followKey},
		{name: "a reader follows a sub-range through a split and a merge", container: onePartition, needs: both, run: followRange},
		{name: "a position of another container is refused", container: onePartition, run: positionRefused},
	}
}

func allVersionsOf(c Container) Container {
	c.AllVersions = true
	return c
}

// follow returns all changes that a new reader with cfg reads up to the end of the feed.
func (s *suite) follow(cfg feed.ReaderConfig) []feed.Change {
	s.Helper()
	return s.readOn(s.reader(cfg))
}

func (s *suite) reader(cfg feed.ReaderConfig) *feed.Reader {
	s.Helper()
	r, err := feed.NewReader(s.Source, cfg)
	if err != nil {
		s.Fatal(err)
	}
	return r
}

// fullTurn is a number of reads after which a reader has read every part of its range. It
// exceeds the number of parts of any reader here.
const fullTurn = 32

// readOn returns all changes that r reads up to the end of the feed. It stops after
// fullTurn empty pages in a row, because r may have reached the end of some parts before
// the last write.
func (s *suite) readOn(r *feed.Reader) []feed.Change {
	s.Helper()
	var all []feed.Change
	empty := 0
	for range 10_000 {
		page, _, err := r.Next(s.ctx)
		if err != nil {
			s.Fatalf("next: %v", err)
		}
		all = append(all, page.Changes...)
		if empty++; len(page.Changes) > 0 {
			empty = 0
		}
		if empty >= fullTurn {
			if !r.Drained() {
				s.Fatalf("%d empty reads in a row, and the reader is not drained", empty)
			}
			return all
		}
	}
	s.Fatal("the reader is never drained")
	return nil
}

// position returns r.Position, which a later reader can resume from.
func (s *suite) position(r *feed.Reader) string {
	s.Helper()
	text, err := r.Position(s.ctx)
	if err != nil {
		s.Fatalf("position: %v", err)
	}
	return text
}

// writers and rounds define the load of the cases below. Each writer owns a key with four
// items and writes each item rounds times.
const (
	writers = 4
	rounds  = 25
)

// load starts the writers. It returns a function that waits until they have finished.
func (s *suite) load() (wait func()) {
	var all sync.WaitGroup
	failed := make(chan error, writers)
	for w := range writers {
		all.Go(func() {
			for n := 1; n <= rounds; n++ {
				for i := range 4 {
					id := fmt.Sprintf("writer-%d-item-%d", w, i)
					if err := s.Upsert(s.ctx, s.key(w), doc(s.key(w)[0], id, n)); err != nil {
						failed <- fmt.Errorf("upsert %s: %w", id, err)
						return
					}
				}
			}
		})
	}
	return func() {
		all.Wait()
		close(failed)
		for err := range failed {
			s.Error(err)
		}
	}
}

// manyWriters checks the order of changes while several writers write. No change may
// appear after a change with a higher LSN.
func manyWriters(s *suite) {
	r := feed.Request{Partition: s.only(), From: feed.Beginning(), MaxItems: 7}
	last, versions := int64(0), map[string]int{}
	read := func() (changes int) {
		page := s.page(r)
		for i, c := range s.decode(page.Changes) {
			if c.lsn <= last && i == 0 {
				s.Fatalf("LSN %d was read after %d", c.lsn, last)
			}
			if c.n <= versions[c.id] {
				s.Fatalf("%s was read at version %d after %d", c.id, c.n, versions[c.id])
			}
			last, versions[c.id] = c.lsn, c.n
		}
		r.From = feed.After(page.Continuation)
		return len(page.Changes)
	}
	during(s.load(), func() { read() })
	for read() > 0 {
	}
	s.checkFinal(versions)
}

// checkFinal checks that versions contains the last version of every item that the
// writers wrote.
func (s *suite) checkFinal(versions map[string]int) {
	s.Helper()
	if len(versions) != writers*4 {
		s.Errorf("%d items were read; want %d", len(versions), writers*4)
	}
	for id, n := range versions {
		if n != rounds {
			s.Errorf("%s was last read at version %d; want %d", id, n, rounds)
		}
	}
}

// reshape splits and merges partitions while the load runs, if the fixture can do both.
func (s *suite) reshape() {
	if s.Split == nil || s.Merge == nil {
		return
	}
	for i := range 3 {
		p := s.partitions()
		if err := s.Split(s.ctx, p[i%len(p)].ID); err != nil {
			s.Errorf("split: %v", err)
			return
		}
		p = s.partitions()
		if err := s.Merge(s.ctx, p[i].ID, p[i+1].ID); err != nil {
			s.Errorf("merge: %v", err)
			return
		}
	}
}

// during runs work in the background. It calls read repeatedly until work has returned,
// and then once more.
func during(work, read func()) {
	finished := make(chan struct{})
	go func() { defer close(finished); work() }()
	for done := false; !done; {
		select {
		case <-finished:
			done = true
		default:
		}
		read()
	}
}

// underLoad calls read repeatedly while writers write and partitions split and merge. r
// must start from now; it resolves that position before the first write.
func (s *suite) underLoad(r *feed.Reader, read func()) {
	s.Helper()
	s.position(r) // resolves now before the first write
	wait := s.load()
	during(func() { s.reshape(); wait() }, read)
}

// isGone reports whether err is a GoneError. A reader returns it, and keeps its position,
// if partitions split faster than it can follow.
func isGone(err error) bool {
	_, gone := errors.AsType[*feed.GoneError](err)
	return gone
}

// followLoad returns all changes that a new reader with cfg reads during the load and
// after it.
func (s *suite) followLoad(cfg feed.ReaderConfig) []feed.Change {
	s.Helper()
	r := s.reader(cfg)
	var all []feed.Change
	s.underLoad(r, func() {
		page, _, err := r.Next(s.ctx)
		if err != nil && !isGone(err) {
			s.Fatalf("next: %v", err)
		}
		all = append(all, page.Changes...)
	})
	return append(all, s.readOn(r)...)
}

// loadConfig returns the reader configuration for the cases under load: from now, in the
// container's mode, with small pages.
func (s *suite) loadConfig() feed.ReaderConfig {
	return feed.ReaderConfig{Start: feed.Now(), Mode: s.mode(), MaxItems: 5, Parallel: 3}
}

// checkVersions checks that the versions of each item are in order and end with the last
// one. In all versions and deletes mode it also checks that no version is missing.
func (s *suite) checkVersions(changes []feed.Change) {
	s.Helper()
	versions := map[string]int{}
	for _, c := range s.decode(changes) {
		if c.n <= versions[c.id] || s.mode() == feed.AllVersionsAndDeletes && c.n != versions[c.id]+1 {
			s.Fatalf("%s was read at version %d after %d", c.id, c.n, versions[c.id])
		}
		versions[c.id] = c.n
	}
	s.checkFinal(versions)
}

func followUnderLoad(s *suite) { s.checkVersions(s.followLoad(s.loadConfig())) }

func resumeReader(s *suite) {
	s.writeMany(0, 40, 1)
	r := s.reader(feed.ReaderConfig{Start: feed.Beginning(), MaxItems: 3})
	var all []feed.Change
	for range 6 {
		page, _, err := r.Next(s.ctx)
		if err != nil {
			s.Fatal(err)
		}
		all = append(all, page.Changes...)
	}
	p := s.partitions()
	s.split(p[0])
	s.merge(p[2], p[3])
	r = s.reader(feed.ReaderConfig{Position: s.position(r), MaxItems: 3})
	s.writeMany(40, 60, 1)
	all = append(all, s.readOn(r)...)
	s.wantItems("before and after the position", all, 0, 60, 1)
	r = s.reader(feed.ReaderConfig{Position: s.position(r)})
	s.want("from the position at the end", s.readOn(r), "")
}

func followKey(s *suite) {
	key := s.key(5)
	r := s.reader(feed.ReaderConfig{Key: key, Start: feed.Beginning(), MaxItems: 2})
	s.writeMany(0, 48, 1)
	s.want("one key", s.readOn(r), "item-005=1 item-021=1 item-037=1")
	s.split(s.only())
	s.writeMany(0, 32, 2)
	s.want("one key after a split", s.readOn(r), "item-005=2 item-021=2")
	r = s.reader(feed.ReaderConfig{Position: s.position(r)})
	s.writeMany(0, 16, 3)
	s.want("one key, resumed", s.readOn(r), "item-005=3")
}

func followRange(s *suite) {
	// A split halves the hashes and does not cut at this border. So the split cuts one of
	// these sub-ranges.
	low, high := feed.Range{Max: "0A"}, feed.Range{Min: "0A", Max: feed.MaxEPK}
	a := s.reader(feed.ReaderConfig{Range: low, Start: feed.Beginning(), MaxItems: 4})
	b := s.reader(feed.ReaderConfig{Range: high, Start: feed.Beginning(), MaxItems: 4})
	s.writeMany(0, 32, 1)
	all := append(s.readOn(a), s.readOn(b)...)
	children := s.split(s.only())
	s.writeMany(32, 64, 1)
	all = append(append(all, s.readOn(a)...), s.readOn(b)...)
	s.merge(children[0], children[1])
	s.writeMany(64, 80, 1)
	all = append(append(all, s.readOn(a)...), s.readOn(b)...)
	s.wantItems("two sub-ranges over a split and a merge", all, 0, 80, 1)
}

func positionRefused(s *suite) {
	s.writeMany(0, 3, 1)
	r := s.reader(feed.ReaderConfig{Start: feed.Beginning()})
	s.readOn(r)
	other := feed.Identity{}
	if id, err := s.Source.Identity(s.ctx); err == nil {
		other = id
	}
	other.ContainerRID += "x"
	moved, err := feed.NewReader(renamed{s.Source, other}, feed.ReaderConfig{Position: s.position(r)})
	if err != nil {
		s.Fatal(err)
	}
	_, _, err = moved.Next(s.ctx)
	if refused, ok := errors.AsType[*feed.PositionError](err); !ok || refused.Read != other.ContainerRID {
		s.Fatalf("a position in a container of another rid: %v; want *feed.PositionError", err)
	}
}

// renamed is a source that reports the identity of another container.
type renamed struct {
	feed.Source
	identity feed.Identity
}

func (r renamed) Identity(context.Context) (feed.Identity, error) { return r.identity, nil }

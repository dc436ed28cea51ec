package feedtest

import (
	"errors"
	"fmt"

	"github.com/changefeed-go/changefeed/feed"
)

// scopeCases returns the cases that read only a range of keys, one key, or a prefix of a
// key.
func scopeCases() []testCase {
	return []testCase{
		{name: "sub-ranges of a partition divide its feed without overlap", container: onePartition, run: subRanges},
		{name: "a continuation of the partition fits its sub-ranges", container: onePartition, run: subRangeContinuation},
		{name: "a key's continuation fits its partition, and the other way round", container: onePartition, run: keyContinuation},
		{name: "a range inside one partition finds it", container: fourPartitions, run: rangeFindsPartition},
		{name: "a range over two partitions is gone", container: fourPartitions, run: rangeOverTwo},
		{name: "a key returns its own changes in any partition", container: fourPartitions, run: keyScope},
		{name: "keys of different types are different keys", container: onePartition, run: keyTypes},
		{name: "a prefix returns all keys below it", container: hierarchical, run: prefixScope},
	}
}

// borders divide the key space into ranges of which several hold keys. The two versions
// of the service's hash put keys into different ranges, so there are borders for both.
var borders = []string{"", "05C1C9CD673398", "05C1D3", "05C1D9CD673398", "0A", "15", "20", "30", "60", "A0", "D0", "FF"}

// parts returns the ranges between neighbouring borders.
func parts() []feed.Range {
	var out []feed.Range
	for i := 1; i < len(borders); i++ {
		out = append(out, feed.Range{Min: borders[i-1], Max: borders[i]})
	}
	return out
}

func subRanges(s *suite) {
	p := s.only()
	s.writeMany(0, 64, 1)
	var all []feed.Change
	used := 0
	for _, rng := range parts() {
		changes, at := s.drain(feed.Request{Partition: p, Range: rng, From: feed.Beginning(), MaxItems: 3})
		byRange, _ := s.drain(feed.Request{Range: rng, From: feed.Beginning()})
		s.want("range "+rng.String()+" without its partition", byRange, s.text(changes))
		again, _ := s.drain(feed.Request{Partition: p, Range: rng, From: feed.After(at)})
		s.want("range "+rng.String()+" after its end", again, "")
		if len(changes) > 0 {
			used++
		}
		all = append(all, changes...)
	}
	if used < 2 {
		s.Fatalf("16 keys lie in %d of %d sub-ranges", used, len(parts()))
	}
	s.wantItems("all sub-ranges", all, 0, 64, 1)
}

func subRangeContinuation(s *suite) {
	p := s.only()
	s.writeMany(0, 64, 1)
	page := s.page(feed.Request{Partition: p, From: feed.Beginning(), MaxItems: 20})
	s.writeMany(64, 80, 1)
	all := page.Changes
	for _, rng := range parts() {
		changes, _ := s.drain(feed.Request{Partition: p, Range: rng, From: feed.After(page.Continuation)})
		all = append(all, changes...)
	}
	s.wantItems("a page of the partition, then its sub-ranges", all, 0, 80, 1)
}

// keyContinuation checks that a read of a whole partition can resume at the position of a
// read of one key, and the reverse. One LSN counts all changes of a partition.
func keyContinuation(s *suite) {
	p, key := s.only(), s.key(5)
	s.writeMany(0, 32, 1)
	_, keyEnd := s.drain(feed.Request{Key: key, From: feed.Beginning()})
	_, end := s.drain(feed.Request{Partition: p, From: feed.Beginning()})
	s.writeMany(32, 64, 1)
	s.readWantItems("the partition from a key's end", feed.Request{Partition: p, From: feed.After(keyEnd)}, 32, 64, 1)
	s.readWant("the key from its partition's end", feed.Request{Key: key, From: feed.After(end)}, "item-037=1 item-053=1")
}

func rangeFindsPartition(s *suite) {
	s.writeMany(0, 64, 1)
	for _, p := range s.partitions() {
		changes, _ := s.drain(feed.Request{Partition: p, From: feed.Beginning()})
		byRange, _ := s.drain(feed.Request{Range: p.Range, From: feed.Beginning()})
		s.want("range "+p.Range.String(), byRange, s.text(changes))
	}
}

func rangeOverTwo(s *suite) {
	p := s.partitions()
	for _, rng := range []feed.Range{
		feed.Full(),
		{Min: p[0].Range.Min, Max: p[1].Range.Max},
		{Min: p[1].Range.Min, Max: p[3].Range.Max},
	} {
		_, err := s.Source.Read(s.ctx, feed.Request{Range: rng, From: feed.Beginning()})
		var gone *feed.GoneError
		if !errors.As(err, &gone) {
			s.Fatalf("read of range %s, which lies in several partitions: %v; want a GoneError", rng, err)
		}
		if gone.Range != rng || gone.Partition != "" {
			s.Errorf("range %s is gone; the error names partition %q and range %s", rng, gone.Partition, gone.Range)
		}
	}
}

func keyScope(s *suite) {
	s.writeMany(0, 64, 1)
	var all []feed.Change
	for i := range 16 {
		r := feed.Request{Key: s.key(i), From: feed.Beginning(), MaxItems: 2}
		changes, at := s.drain(r)
		s.want(where(r), changes, fmt.Sprintf("%s=1 %s=1 %s=1 %s=1", itemID(i), itemID(i+16), itemID(i+32), itemID(i+48)))
		s.write(feed.PartitionKey{"another key"}, itemID(i), 2)
		s.write(s.key(i), itemID(i), 3)
		r.From = feed.After(at)
		changes, _ = s.drain(r)
		s.want(where(r)+", later", changes, itemID(i)+"=3")
		all = append(all, changes...)
	}
	if len(all) != 16 {
		s.Errorf("16 keys have %d later changes", len(all))
	}
	changes, _ := s.drain(feed.Request{Key: feed.PartitionKey{"no such key"}, From: feed.Beginning()})
	s.want("a key without items", changes, "")
}

// keyTypes checks that 1, "1", true, null and a missing key are five logical partitions.
func keyTypes(s *suite) {
	p := s.only()
	keys := []feed.PartitionKey{{1}, {"1"}, {true}, {nil}, {feed.Undefined}}
	for i, key := range keys {
		body := doc(key[0], "a", i)
		if key[0] == feed.Undefined {
			body = []byte(fmt.Sprintf(`{"id":"a","n":%d}`, i))
		}
		if err := s.Upsert(s.ctx, key, body); err != nil {
			s.Fatalf("upsert with key %s: %v", key, err)
		}
	}
	for i, key := range keys {
		s.readWant("key "+key.String(), feed.Request{Key: key, From: feed.Beginning()}, fmt.Sprintf("a=%d", i))
		s.readWant("partition "+p.ID+", key "+key.String(), feed.Request{Partition: p, Key: key, From: feed.Beginning()}, fmt.Sprintf("a=%d", i))
	}
}

func prefixScope(s *suite) {
	p := s.only()
	for i := range 30 {
		tenant, user := fmt.Sprintf("t%d", i%3), fmt.Sprintf("u%d", i%5)
		body := []byte(fmt.Sprintf(`{"tenant":%q,"user":%q,"id":%q,"n":1}`, tenant, user, itemID(i)))
		if err := s.Upsert(s.ctx, feed.PartitionKey{tenant, user}, body); err != nil {
			s.Fatal(err)
		}
	}
	for t := range 3 {
		want := ""
		for i := t; i < 30; i += 3 {
			want += " " + itemID(i) + "=1"
		}
		prefix := feed.PartitionKey{fmt.Sprintf("t%d", t)}
		s.readWant("prefix "+prefix.String(), feed.Request{Key: prefix, From: feed.Beginning(), MaxItems: 3}, want[1:])
		s.readWant("partition "+p.ID+", prefix "+prefix.String(), feed.Request{Partition: p, Key: prefix, From: feed.Beginning()}, want[1:])
	}
	s.readWant("one full key", feed.Request{Key: feed.PartitionKey{"t1", "u2"}, From: feed.Beginning()}, "item-007=1 item-022=1")
	if s.Split == nil {
		return
	}
	s.split(p)
	for t := range 3 {
		prefix := feed.PartitionKey{fmt.Sprintf("t%d", t)}
		changes := s.follow(feed.ReaderConfig{Key: prefix, Start: feed.Beginning()})
		if len(changes) != 10 {
			s.Errorf("after a split, prefix %s shows [%s]; want 10 items", prefix, s.text(changes))
		}
	}
}

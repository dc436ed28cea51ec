package feedtest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
)

// contractCases returns the cases that test Identity, Partitions and the errors of a
// source.
func contractCases() []testCase {
	return []testCase{
		{name: "the identity names the container and does not change", container: onePartition, run: identityStays},
		{name: "the container's id does not change", container: onePartition, run: containerIDStays},
		{name: "partitions cover the key space in order", container: fourPartitions, run: partitionsTile},
		{name: "an ended context ends every call", container: onePartition, run: endedContext},
		{name: "a partition that never existed is gone", container: onePartition, run: neverWas},
		{name: "a dropped container is not found", container: onePartition, needs: needs{drop: true}, run: dropped},
		{name: "an unsupported request is named", container: versioned, run: unsupportedIsNamed},
	}
}

func identityStays(s *suite) {
	first, err := s.Source.Identity(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	for name, text := range map[string]string{
		"AccountHost": first.AccountHost, "Database": first.Database, "DatabaseRID": first.DatabaseRID,
		"Container": first.Container, "ContainerRID": first.ContainerRID,
	} {
		if text == "" {
			s.Errorf("%s is empty; lease ids need it", name)
		}
	}
	if strings.ContainsAny(first.AccountHost, ":/") {
		s.Errorf("AccountHost %q; want a host without scheme or port", first.AccountHost)
	}
	if len(first.KeyPaths) > 0 && !slices.Equal(first.KeyPaths, s.container.KeyPaths) {
		s.Errorf("KeyPaths are %q; want %q, or none", first.KeyPaths, s.container.KeyPaths)
	}
	s.writeMany(0, 3, 1)
	second, err := s.Source.Identity(s.ctx)
	if err != nil || !reflect.DeepEqual(second, first) {
		s.Fatalf("the identity was %+v and is now %+v, %v", first, second, err)
	}
}

// containerIDStays checks that ContainerID always returns the same id. A processor
// compares it with the id of its lease container.
func containerIDStays(s *suite) {
	source, ok := s.Source.(feed.Identifier)
	if !ok {
		s.Skip("the source is not a feed.Identifier")
	}
	first, err := source.ContainerID(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	if identity, err := s.Source.Identity(s.ctx); err != nil || first.RID != identity.ContainerRID || first.Account == "" {
		s.Fatalf("the container is %+v, %v; want an account and the rid %s", first, err, identity.ContainerRID)
	}
	s.writeMany(0, 3, 1)
	if second, err := source.ContainerID(s.ctx); err != nil || second != first {
		s.Fatalf("the container was %+v and is now %+v, %v", first, second, err)
	}
}

func partitionsTile(s *suite) {
	s.checkTiles(s.partitions())
	if n := len(s.partitions()); n != s.container.Partitions {
		s.Fatalf("%d partitions; want %d", n, s.container.Partitions)
	}
	for _, p := range s.partitions() {
		if len(p.Parents) > 0 {
			s.Errorf("partition %s of a new container has parents %v", p.ID, p.Parents)
		}
	}
}

// checkTiles checks that the listed partitions cover the key space without gaps or
// overlaps, in the order of their ranges.
func (s *suite) checkTiles(partitions []feed.Partition) {
	s.Helper()
	covered, ids := feed.MinEPK, map[string]bool{}
	for _, p := range partitions {
		if p.ID == "" || ids[p.ID] {
			s.Fatalf("partition id %q is empty or given twice", p.ID)
		}
		ids[p.ID] = true
		if p.Range.Min != covered || p.Range.IsEmpty() {
			s.Fatalf("partition %s has range %s; want one from %q on", p.ID, p.Range, covered)
		}
		covered = p.Range.Max
	}
	if covered != feed.MaxEPK {
		s.Fatalf("partitions cover up to %q; want %q", covered, feed.MaxEPK)
	}
}

func endedContext(s *suite) {
	p := s.only()
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := s.Source.Identity(ctx); err != nil && !errors.Is(err, context.Canceled) {
		s.Errorf("Identity: %v; want a result or the context's error", err)
	}
	if _, err := s.Source.Partitions(ctx); !errors.Is(err, context.Canceled) {
		s.Errorf("Partitions: %v; want the context's error", err)
	}
	if _, err := s.Source.Read(ctx, feed.Request{Partition: p, From: feed.Beginning()}); !errors.Is(err, context.Canceled) {
		s.Errorf("Read: %v; want the context's error", err)
	}
}

func neverWas(s *suite) {
	p := feed.Partition{ID: "4711", Range: feed.Full()}
	_, err := s.Source.Read(s.ctx, feed.Request{Partition: p, From: feed.Beginning()})
	if gone, ok := errors.AsType[*feed.GoneError](err); !ok || gone.Partition != p.ID {
		s.Fatalf("read of partition %s: %v; want a GoneError that names it", p.ID, err)
	}
}

func dropped(s *suite) {
	s.writeMany(0, 3, 1)
	p := s.only()
	if err := s.Drop(s.ctx); err != nil {
		s.Fatal(err)
	}
	if _, err := s.Source.Read(s.ctx, feed.Request{Partition: p, From: feed.Beginning()}); !errors.Is(err, feed.ErrNotFound) {
		s.Errorf("Read: %v; want ErrNotFound", err)
	}
	if _, err := s.Source.Partitions(s.ctx); !errors.Is(err, feed.ErrNotFound) {
		s.Errorf("Partitions: %v; want ErrNotFound", err)
	}
}

// unsupportedIsNamed checks that the source refuses a start at the beginning and at a
// time in all versions and deletes mode. The error must name the feature.
func unsupportedIsNamed(s *suite) {
	p := s.only()
	s.writeMany(0, 3, 1)
	for _, from := range []feed.Start{feed.Beginning(), feed.At(s.someTime())} {
		_, err := s.Source.Read(s.ctx, feed.Request{Partition: p, From: from, Mode: feed.AllVersionsAndDeletes})
		if !errors.Is(err, feed.ErrUnsupported) {
			s.Fatalf("all versions and deletes from %s: %v; want ErrUnsupported", from, err)
		}
		if err.Error() == feed.ErrUnsupported.Error() {
			s.Errorf("all versions and deletes from %s: the error %q does not name the unsupported request", from, err)
		}
	}
}

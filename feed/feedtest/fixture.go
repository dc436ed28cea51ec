// Package feedtest is the conformance suite for [feed.Source], with a case for every
// sentence in its contract. Use it when you write an engine of your own.
//
// The engine's test calls [Run] with a function that creates a new, empty container:
//
//	func TestSourceConforms(t *testing.T) { feedtest.Run(t, newFixture) }
//
// If the engine can run in a synctest bubble, its test also calls [RunInBubble] with the
// same function. The cases that measure time run only there.
//
// A [Fixture] holds the functions that change the container. Leave one nil if the engine
// does not support it. The cases that need it are then skipped, and the skip names it.
//
// For an engine's lease container, use package leasetest.
package feedtest

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Container describes the container that a case needs.
type Container struct {
	// KeyPaths are the partition key paths: {"/pk"}, or {"/tenant", "/user"} for
	// hierarchical keys.
	KeyPaths []string
	// Partitions is how many physical partitions there are at first, at least 1.
	Partitions int
	// AllVersions reports whether the container keeps all versions and deletes. The
	// retention must be at least an hour.
	AllVersions bool
	// TimeToLive reports whether items expire by their own "ttl" property (in seconds).
	// No other item may expire.
	TimeToLive bool
}

// New creates a new, empty container for one case. It calls t.Skip if the engine has no
// such container as c describes, and closes its resources by t.Cleanup.
type New func(t *testing.T, c Container) Fixture

// Fixture is a container under test. When one of its functions returns, the feed must
// show the change. Source and Upsert are required.
type Fixture struct {
	// Source is the container's feed.
	Source feed.Source
	// Upsert creates or replaces a document with the given partition key.
	Upsert func(ctx context.Context, key feed.PartitionKey, doc json.RawMessage) error
	// Transaction upserts several documents with one partition key in one transaction.
	Transaction func(ctx context.Context, key feed.PartitionKey, docs []json.RawMessage) error
	// Delete deletes the document with the partition key and id.
	Delete func(ctx context.Context, key feed.PartitionKey, id string) error
	// Split splits the partition with that ID in two. Merge merges two neighbouring
	// partitions.
	Split func(ctx context.Context, partition string) error
	Merge func(ctx context.Context, a, b string) error
	// Beyond returns a position at least one transaction after the end of a partition's
	// feed, such as a reader has after an older copy of the data was restored.
	Beyond func(end feed.Continuation) feed.Continuation
	// Drop deletes the container.
	Drop func(ctx context.Context) error
	// Advance advances the container's clock by d. It may be nil for [RunInBubble], where
	// the suite sleeps instead.
	Advance func(d time.Duration)
}

// needs lists the functions of a Fixture without which a case is skipped.
type needs struct {
	transaction, delete, split, merge, drop, advance, beyond bool
	// bubble is true for a case that measures time. Such a case runs only in a synctest
	// bubble.
	bubble bool
}

// testCase is a named case of the suite. It checks one sentence of the contract of
// feed.Source, or a few related ones.
type testCase struct {
	name      string
	container Container
	needs     needs
	run       func(s *suite)
}

// Run runs every case in a subtest, on a new container from create, except those that
// measure time.
func Run(t *testing.T, create New) {
	t.Helper()
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) { c.try(t, create, false) })
	}
}

// RunInBubble runs every case in a subtest, on a new container from create and in a
// synctest bubble of its own.
func RunInBubble(t *testing.T, create New) {
	t.Helper()
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.try(t, create, true) })
		})
	}
}

// try runs the case on a new container from create. It skips the case if the fixture
// lacks a function that the case needs.
func (c testCase) try(t *testing.T, create New, bubble bool) {
	if c.needs.bubble && !bubble {
		t.Skip("the case measures time; it runs only in a bubble")
	}
	f := create(t, c.container)
	if f.Source == nil || f.Upsert == nil {
		t.Fatal("a Fixture needs a Source and Upsert")
	}
	if bubble {
		if f.Advance == nil {
			f.Advance = func(d time.Duration) { <-time.After(d) }
		}
		advance := f.Advance
		f.Advance = func(d time.Duration) { advance(d); synctest.Wait() }
	}
	for _, missing := range []struct {
		name  string
		is    bool
		asked bool
	}{
		{"Transaction", f.Transaction == nil, c.needs.transaction},
		{"Delete", f.Delete == nil, c.needs.delete},
		{"Split", f.Split == nil, c.needs.split},
		{"Merge", f.Merge == nil, c.needs.merge},
		{"Drop", f.Drop == nil, c.needs.drop},
		{"Advance", f.Advance == nil, c.needs.advance},
		{"Beyond", f.Beyond == nil, c.needs.beyond},
	} {
		if missing.is && missing.asked {
			t.Skipf("the fixture has no %s", missing.name)
		}
	}
	c.run(newSuite(t, f, c.container, bubble))
}

// cases returns all cases of the suite.
func cases() []testCase {
	var all []testCase
	for _, group := range [][]testCase{
		contractCases(), latestCases(), pageCases(), startCases(), scopeCases(),
		topologyCases(), versionCases(), timeCases(), followCases(), parallelCases(),
	} {
		all = append(all, group...)
	}
	return all
}

// These are the containers that most cases need.
var (
	onePartition   = Container{KeyPaths: []string{"/pk"}, Partitions: 1}
	fourPartitions = Container{KeyPaths: []string{"/pk"}, Partitions: 4}
	hierarchical   = Container{KeyPaths: []string{"/tenant", "/user"}, Partitions: 1}
	versioned      = Container{KeyPaths: []string{"/pk"}, Partitions: 1, AllVersions: true}
)

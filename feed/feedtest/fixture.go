// Package feedtest is the conformance suite of [feed.Source]: every sentence of
// the interface's contract, as a case that an engine passes or doesn't.
//
// An engine calls [Run] with a function that makes a new, empty container, and,
// if it can live inside one, [RunInBubble] with the same function, where the
// cases that need time to pass run too:
//
//	func TestSourceConforms(t *testing.T) { feedtest.Run(t, newFixture) }
//
// A [Fixture] carries the functions that change the container. What an engine
// can't do is left nil, and the cases that need it are skipped by name.
package feedtest

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Container says what container a case needs.
type Container struct {
	// KeyPaths are the partition key paths: {"/pk"}, or {"/tenant", "/user"} for
	// the cases of hierarchical keys.
	KeyPaths []string
	// Partitions is how many physical partitions it starts with, at least 1.
	Partitions int
	// AllVersions asks for a container that keeps all versions and deletes, with
	// a retention of at least an hour.
	AllVersions bool
	// TimeToLive asks for a container whose items expire by their own "ttl"
	// property (in seconds), and in no other way.
	TimeToLive bool
}

// New makes a new, empty container for one case. It calls t.Skip when the engine
// has no such containers, and t.Cleanup for what must be closed.
type New func(t *testing.T, c Container) Fixture

// Fixture is a container under test. Its functions return when what they did can
// be read.
type Fixture struct {
	// Source is the container's feed. Required.
	Source feed.Source
	// Upsert writes a document whose partition key is key. Required.
	Upsert func(ctx context.Context, key feed.PartitionKey, doc json.RawMessage) error
	// Transaction upserts several documents of one key, all or none.
	Transaction func(ctx context.Context, key feed.PartitionKey, docs []json.RawMessage) error
	// Delete deletes a document.
	Delete func(ctx context.Context, key feed.PartitionKey, id string) error
	// Split splits a partition in two, and Merge makes one of two neighbours.
	Split func(ctx context.Context, partition string) error
	Merge func(ctx context.Context, a, b string) error
	// Drop deletes the container.
	Drop func(ctx context.Context) error
	// Advance lets d pass on the container's clock. In a bubble it may be nil:
	// there it is a sleep.
	Advance func(d time.Duration)
}

// needs are the functions of a Fixture that a case can't do without.
type needs struct {
	transaction, delete, split, merge, drop, advance bool
	// bubble: the case measures time, which means something in a bubble only.
	bubble bool
}

// testCase is one sentence of the contract, or a few that are checked together.
type testCase struct {
	name      string
	container Container
	needs     needs
	run       func(s *suite)
}

// Run runs every case in a subtest of its own.
func Run(t *testing.T, create New) {
	t.Helper()
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) { c.try(t, create, false) })
	}
}

// RunInBubble runs every case in a subtest and a synctest bubble of its own.
func RunInBubble(t *testing.T, create New) {
	t.Helper()
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.try(t, create, true) })
		})
	}
}

// try runs the case on a new container, or skips it by what is missing.
func (c testCase) try(t *testing.T, create New, bubble bool) {
	if c.needs.bubble && !bubble {
		t.Skip("it measures time, and runs in a bubble only")
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
	} {
		if missing.is && missing.asked {
			t.Skipf("the fixture has no %s", missing.name)
		}
	}
	c.run(newSuite(t, f, c.container, bubble))
}

// cases are all cases, in the order of the files.
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

// onePartition, fourPartitions, hierarchical and versioned are the containers of
// most cases.
var (
	onePartition   = Container{KeyPaths: []string{"/pk"}, Partitions: 1}
	fourPartitions = Container{KeyPaths: []string{"/pk"}, Partitions: 4}
	hierarchical   = Container{KeyPaths: []string{"/tenant", "/user"}, Partitions: 1}
	versioned      = Container{KeyPaths: []string{"/pk"}, Partitions: 1, AllVersions: true}
)
